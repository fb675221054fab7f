"""Expressions that can be keys: over columns of one table, the same each time, and never failing.

A table is restricted by such an expression before anything else of the query is evaluated, also in rows that the query
itself would have dropped first. So only what cannot fail for any value of its types is a term, and it is written anew
from the few forms that are known here.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqb.sql.delta.facts import MARK

Column = tuple[str, str]
# Stands between the alias and the name of a column while an expression is not yet one over a table.
_OF = "\1"

_DAYS = ("date", "timestamp", "timestamp_ntz")
_CLOCKS = ("timestamp", "timestamp_ntz")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
# Their equal values are one value, and they are compared in one way.
_PLAIN = (*_DAYS, *_WHOLE, "string", "boolean")

_PARTS: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Year: ("year", _DAYS),
    exp.Quarter: ("quarter", _DAYS),
    exp.Month: ("month", _DAYS),
    exp.Day: ("day", _DAYS),
    exp.DayOfMonth: ("day", _DAYS),
    exp.DayOfWeek: ("dayofweek", _DAYS),
    exp.DayOfYear: ("dayofyear", _DAYS),
    exp.WeekOfYear: ("weekofyear", _DAYS),
    exp.Hour: ("hour", _CLOCKS),
    exp.Minute: ("minute", _CLOCKS),
    exp.Second: ("second", _CLOCKS),
}
_CUT_TIMES = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_CUT_DAYS = ("YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MM", "MON", "WEEK")
_TRIMS = {None: "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_MOST = 2**31 - 1

Term = tuple[str, str]


def read_term(node: exp.Expr, kinds: Mapping[Column, str]) -> Term | None:
    """An expression over the columns of a block, as text with marked columns, and its type; None when it is no term."""
    match node:
        case exp.Paren():
            return read_term(node.this, kinds)
        case exp.Column():
            return _column(node, kinds)
        case exp.Cast() | exp.TryCast():
            return _cast(node, kinds)
        case exp.TsOrDsToDate() if node.args.get("format") is None:
            return _call("CAST({} AS DATE)", node.this, _DAYS, kinds, "date")
        case exp.LastDay() if node.args.get("unit") is None:
            return _call("last_day({})", node.this, _DAYS, kinds, "date")
        case exp.TimestampTrunc() if (unit := _unit(node, _CUT_TIMES)) and not node.args.get("zone"):
            return _call(f"date_trunc('{unit}', {{}})", node.this, _DAYS, kinds, "timestamp")
        case exp.DateTrunc() if (unit := _unit(node, _CUT_DAYS)) and not node.args.get("zone"):
            return _call(f"trunc({{}}, '{unit}')", node.this, _DAYS, kinds, "date")
        case exp.Mod() | exp.IntDiv():
            return _divided(node, kinds)
        case exp.Coalesce():
            return _coalesced(node, kinds)
        case exp.Concat() | exp.DPipe():
            return _joined(node, kinds)
    if type(node) in _PARTS:
        return _part(node, kinds)
    return _text(node, kinds)


def over_table(text: str, terms: Mapping[Column, str]) -> str:
    """An expression over a block's columns as one over a table, whose terms those columns are."""
    pieces = text.split(MARK)
    for index in range(1, len(pieces), 2):
        alias, _, name = pieces[index].partition(_OF)
        inner = terms[alias, name]
        pieces[index] = inner if MARK in inner else f"{MARK}{inner}{MARK}"
    return "".join(pieces)


def columns_in(text: str) -> frozenset[Column]:
    """The block's columns that an expression is made of."""
    found = (piece.partition(_OF) for piece in text.split(MARK)[1::2])
    return frozenset((alias, name) for alias, _, name in found)


def _column(node: exp.Column, kinds: Mapping[Column, str]) -> Term | None:
    if not node.table or node.args.get("db"):
        return None
    column = (node.table.lower(), node.name.lower())
    kind = kinds.get(column)
    return (f"{MARK}{column[0]}{_OF}{column[1]}{MARK}", kind) if kind in _PLAIN else None


def _call(form: str, node: exp.Expr, takes: tuple[str, ...], kinds: Mapping[Column, str], gives: str) -> Term | None:
    found = read_term(node, kinds)
    return (form.format(found[0]), gives) if found is not None and found[1] in takes else None


def _cast(node: exp.Cast, kinds: Mapping[Column, str]) -> Term | None:
    if node.args.get("format"):
        return None
    match node.to.sql(dialect="spark").upper():
        case "DATE":
            return _call("CAST({} AS DATE)", node.this, _DAYS, kinds, "date")
        case "STRING":
            return _call("CAST({} AS STRING)", node.this, _PLAIN, kinds, "string")
        case "BIGINT":
            return _call("CAST({} AS BIGINT)", node.this, _WHOLE, kinds, "bigint")
        case _:
            return None


def _unit(node: exp.Expr, known: tuple[str, ...]) -> str | None:
    unit = node.args.get("unit")
    name = unit.name.upper() if isinstance(unit, exp.Var | exp.Literal) else ""
    return name if name in known else None


def _part(node: exp.Expr, kinds: Mapping[Column, str]) -> Term | None:
    name, takes = _PARTS[type(node)]
    # The parser says of most parts of a date that they are taken of a date; they give the same for a time.
    of = node.this.this if isinstance(node.this, exp.TsOrDsToDate) and not node.this.args.get("format") else node.this
    return _call(f"{name}({{}})", of, takes, kinds, "int")


def _divided(node: exp.Mod | exp.IntDiv, kinds: Mapping[Column, str]) -> Term | None:
    by = _whole_number(node.expression)
    found = read_term(node.this, kinds)
    if by is None or by < 1 or found is None or found[1] not in ("int", "bigint"):
        return None
    return (f"({found[0]} % {by})", found[1]) if isinstance(node, exp.Mod) else (f"({found[0]} DIV {by})", "bigint")


def _coalesced(node: exp.Coalesce, kinds: Mapping[Column, str]) -> Term | None:
    found = read_term(node.this, kinds)
    if found is None or len(node.expressions) != 1:
        return None
    other = _string(node.expressions[0]) if found[1] == "string" else None
    number = _whole_number(node.expressions[0]) if found[1] in ("int", "bigint") else None
    if other is None and number is None:
        return None
    return f"coalesce({found[0]}, {other if other is not None else number})", found[1]


def _joined(node: exp.Concat | exp.DPipe, kinds: Mapping[Column, str]) -> Term | None:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    texts = []
    for part in parts:
        literal = _string(part)
        found = read_term(part, kinds) if literal is None else (literal, "string")
        if found is None or found[1] != "string":
            return None
        texts.append(found[0])
    return f"concat({', '.join(texts)})", "string"


def _text(node: exp.Expr, kinds: Mapping[Column, str]) -> Term | None:
    """A function of a text that gives a text."""
    form = None
    match node:
        case exp.Lower():
            form = "lower({})"
        case exp.Upper():
            form = "upper({})"
        case exp.Trim() if node.args.get("expression") is None and node.args.get("collation") is None:
            name = _TRIMS.get(node.args.get("position"))
            form = f"{name}({{}})" if name else None
        case exp.Left() | exp.Right():
            count = _whole_number(node.expression)
            name = "left" if isinstance(node, exp.Left) else "right"
            form = f"{name}({{}}, {count})" if count is not None else None
        case exp.Substring():
            start, length = (node.args.get(key) for key in ("start", "length"))
            numbers = [_whole_number(n) for n in (start, length) if n is not None]
            if start is not None and None not in numbers:
                form = f"substring({{}}, {', '.join(map(str, numbers))})"
    return _call(form, node.this, ("string",), kinds, "string") if form is not None else None


def _whole_number(node: exp.Expr | None) -> int | None:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        return None
    return int(node.name) if int(node.name) <= _MOST else None


def _string(node: exp.Expr) -> str | None:
    """A literal that is written in one way only."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    plain = node.name.isprintable() and not any(c in node.name for c in "'\"\\{}")
    return f"'{node.name}'" if plain else None
