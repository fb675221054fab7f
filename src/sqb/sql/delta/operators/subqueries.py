"""How the value of a subquery is used, and what IN compares with it."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqb.sql.delta.operators.model import SubqueryUse
from sqb.sql.delta.skeleton.model import Span
from sqb.sql.delta.skeleton.read import split_tokens, tokens_within
from sqb.sql.text.lexer import Token

# What an expression before IN can follow in a condition.
_BEFORE = frozenset("AND OR NOT WHEN THEN ELSE CASE".split())
_BEFORE_ITEM = frozenset({"SELECT", "DISTINCT", "ALL"})


def read_use(node: exp.Expr) -> SubqueryUse:
    parent = node.parent
    if isinstance(parent, exp.Exists):
        return "exists"
    if isinstance(parent, exp.In) and parent.args.get("query") is node:
        return "in"
    return "scalar" if isinstance(node, exp.Subquery) and not isinstance(parent, exp.All | exp.Any) else "other"


def read_tested(text: str, node: exp.Expr, span: Span, where: Span | None) -> tuple[str, ...]:
    """The expressions before IN, as they are written; none where that is not certain.

    In the select list only columns with their source count: another item could have the name of one without.
    """
    tested = node.parent.this if node.parent is not None else None
    is_list_in_brackets = isinstance(tested, exp.Paren) and isinstance(tested.unnest(), exp.Tuple)
    if tested is None or is_list_in_brackets or tested.find(exp.Query) is not None:
        return ()
    values = tested.expressions if isinstance(tested, exp.Tuple) else [tested]
    in_where = where is not None and where.covers(span)
    if all(_is_column(v) and (in_where or v.table) for v in values):
        columns = [_find_column(v) for v in values]
        is_whole = _begins_expression(text, where.start if in_where and where is not None else 0, columns[0].start)
        return tuple(column.cut(text) for column in columns) if is_whole else ()
    return _cut_values(text, tested, span, where) if in_where and where is not None else ()


def _cut_values(text: str, tested: exp.Expr, span: Span, where: Span) -> tuple[str, ...]:
    """The expressions between the word before them and IN, if the parser reads the same there."""
    tokens = [t for t in tokens_within(text, where) if t.end <= span.start]
    while tokens and tokens[-1].text == "(":
        tokens.pop()
    for word in ("IN", "NOT"):
        if tokens and tokens[-1].text.upper() == word:
            tokens.pop()
    part = _take_expression(tokens)
    if not part or not _is_same(text[part[0].start : part[-1].end], tested):
        return ()
    lists = split_tokens(part[1:-1]) if isinstance(tested, exp.Tuple) else [part]
    return tuple(f"({text[item[0].start : item[-1].end]})" for item in lists)


def _take_expression(tokens: list[Token]) -> list[Token]:
    """The tokens at the end, back to a word or an opening bracket that an expression can follow."""
    depth = 0
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        depth += (token.text in (")", "]")) - (token.text in ("(", "["))
        is_word = depth == 0 and token.kind == "word" and token.text.upper() in _BEFORE
        if depth < 0 or is_word or (depth == 0 and token.text == ","):
            return tokens[index + 1 :]
    return tokens


def _is_same(text: str, node: exp.Expr) -> bool:
    try:
        return bool(sqlglot.parse_one(text, dialect="spark") == node)
    except SqlglotError:
        return False


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and all("start" in i.meta for i in node.find_all(exp.Identifier))


def _find_column(node: exp.Expr) -> Span:
    places = [i.meta for i in node.find_all(exp.Identifier)]
    return Span(min(p["start"] for p in places), max(p["end"] for p in places) + 1)


def _begins_expression(text: str, start: int, offset: int) -> bool:
    """Whether what is before IN begins at a place: `a = b IN (…)` asks for the answer of `a = b`, and not for `b`."""
    tokens = tokens_within(text, Span(start, offset))
    return not tokens or tokens[-1].text in ("(", ",") or tokens[-1].text.upper() in _BEFORE | _BEFORE_ITEM
