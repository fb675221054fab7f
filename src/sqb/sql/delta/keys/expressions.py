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
# Separates the alias and the name of a column while an expression is over a block.
_SEPARATOR = "\1"

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
_MAX_INT = 2**31 - 1

KeyExpression = tuple[str, str]


def parse_key_expression(node: exp.Expr, kinds: Mapping[Column, str]) -> KeyExpression | None:
    """Parse an expression over a block's columns to text with marked columns and its type; None if it is not a key."""
    match node:
        case exp.Paren():
            return parse_key_expression(node.this, kinds)
        case exp.Column():
            return _parse_column(node, kinds)
        case exp.Cast() | exp.TryCast():
            return _parse_cast(node, kinds)
        case exp.TsOrDsToDate() if node.args.get("format") is None:
            return _parse_call("CAST({} AS DATE)", node.this, _DAYS, kinds, "date")
        case exp.LastDay() if node.args.get("unit") is None:
            return _parse_call("last_day({})", node.this, _DAYS, kinds, "date")
        case exp.TimestampTrunc() if (unit := _parse_unit(node, _CUT_TIMES)) and not node.args.get("zone"):
            return _parse_call(f"date_trunc('{unit}', {{}})", node.this, _DAYS, kinds, "timestamp")
        case exp.DateTrunc() if (unit := _parse_unit(node, _CUT_DAYS)) and not node.args.get("zone"):
            return _parse_call(f"trunc({{}}, '{unit}')", node.this, _DAYS, kinds, "date")
        case exp.Mod() | exp.IntDiv():
            return _parse_division(node, kinds)
        case exp.Coalesce():
            return _parse_coalesce(node, kinds)
        case exp.Concat() | exp.DPipe():
            return _parse_concat(node, kinds)
    if type(node) in _PARTS:
        return _parse_date_part(node, kinds)
    return _parse_text_function(node, kinds)


def rewrite_over_table(text: str, expressions: Mapping[Column, str]) -> str:
    """An expression over a block's columns as one over a table, given the table expression of each column."""
    pieces = text.split(MARK)
    for index in range(1, len(pieces), 2):
        alias, _, name = pieces[index].partition(_SEPARATOR)
        inner = expressions[alias, name]
        pieces[index] = inner if MARK in inner else f"{MARK}{inner}{MARK}"
    return "".join(pieces)


def list_columns(text: str) -> frozenset[Column]:
    """The block's columns that an expression is made of."""
    parts = (piece.partition(_SEPARATOR) for piece in text.split(MARK)[1::2])
    return frozenset((alias, name) for alias, _, name in parts)


def _parse_column(node: exp.Column, kinds: Mapping[Column, str]) -> KeyExpression | None:
    if not node.table or node.args.get("db"):
        return None
    column = (node.table.lower(), node.name.lower())
    kind = kinds.get(column)
    return (f"{MARK}{column[0]}{_SEPARATOR}{column[1]}{MARK}", kind) if kind in _PLAIN else None


def _parse_call(
    form: str, node: exp.Expr, accepted_types: tuple[str, ...], kinds: Mapping[Column, str], result_type: str
) -> KeyExpression | None:
    """A call as a key, written as `form` around its argument; None where its type is not accepted."""
    argument = parse_key_expression(node, kinds)
    return (form.format(argument[0]), result_type) if argument is not None and argument[1] in accepted_types else None


def _parse_cast(node: exp.Cast, kinds: Mapping[Column, str]) -> KeyExpression | None:
    if node.args.get("format"):
        return None
    match node.to.sql(dialect="spark").upper():
        case "DATE":
            return _parse_call("CAST({} AS DATE)", node.this, _DAYS, kinds, "date")
        case "STRING":
            return _parse_call("CAST({} AS STRING)", node.this, _PLAIN, kinds, "string")
        case "BIGINT":
            return _parse_call("CAST({} AS BIGINT)", node.this, _WHOLE, kinds, "bigint")
        case _:
            return None


def _parse_unit(node: exp.Expr, known: tuple[str, ...]) -> str | None:
    unit = node.args.get("unit")
    name = unit.name.upper() if isinstance(unit, exp.Var | exp.Literal) else ""
    return name if name in known else None


def _parse_date_part(node: exp.Expr, kinds: Mapping[Column, str]) -> KeyExpression | None:
    name, accepted_types = _PARTS[type(node)]
    # The parser says of most parts of a date that they are taken of a date; they give the same for a time.
    of = node.this.this if isinstance(node.this, exp.TsOrDsToDate) and not node.this.args.get("format") else node.this
    return _parse_call(f"{name}({{}})", of, accepted_types, kinds, "int")


def _parse_division(node: exp.Mod | exp.IntDiv, kinds: Mapping[Column, str]) -> KeyExpression | None:
    divisor = _parse_whole_number(node.expression)
    dividend = parse_key_expression(node.this, kinds)
    if divisor is None or divisor < 1 or dividend is None or dividend[1] not in ("int", "bigint"):
        return None
    return (
        (f"({dividend[0]} % {divisor})", dividend[1])
        if isinstance(node, exp.Mod)
        else (f"({dividend[0]} DIV {divisor})", "bigint")
    )


def _parse_coalesce(node: exp.Coalesce, kinds: Mapping[Column, str]) -> KeyExpression | None:
    first = parse_key_expression(node.this, kinds)
    if first is None or len(node.expressions) != 1:
        return None
    text_default = _parse_string(node.expressions[0]) if first[1] == "string" else None
    number_default = _parse_whole_number(node.expressions[0]) if first[1] in ("int", "bigint") else None
    if text_default is None and number_default is None:
        return None
    return f"coalesce({first[0]}, {text_default if text_default is not None else number_default})", first[1]


def _parse_concat(node: exp.Concat | exp.DPipe, kinds: Mapping[Column, str]) -> KeyExpression | None:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    texts = []
    for part in parts:
        literal = _parse_string(part)
        expression = parse_key_expression(part, kinds) if literal is None else (literal, "string")
        if expression is None or expression[1] != "string":
            return None
        texts.append(expression[0])
    return f"concat({', '.join(texts)})", "string"


def _parse_text_function(node: exp.Expr, kinds: Mapping[Column, str]) -> KeyExpression | None:
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
            count = _parse_whole_number(node.expression)
            name = "left" if isinstance(node, exp.Left) else "right"
            form = f"{name}({{}}, {count})" if count is not None else None
        case exp.Substring():
            start, length = (node.args.get(key) for key in ("start", "length"))
            numbers = [_parse_whole_number(n) for n in (start, length) if n is not None]
            if start is not None and None not in numbers:
                form = f"substring({{}}, {', '.join(map(str, numbers))})"
    return _parse_call(form, node.this, ("string",), kinds, "string") if form is not None else None


def _parse_whole_number(node: exp.Expr | None) -> int | None:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        return None
    return int(node.name) if int(node.name) <= _MAX_INT else None


def _parse_string(node: exp.Expr) -> str | None:
    """A literal that is written in one way only."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    plain = node.name.isprintable() and not any(c in node.name for c in "'\"\\{}")
    return f"'{node.name}'" if plain else None
