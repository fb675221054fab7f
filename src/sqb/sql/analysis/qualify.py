"""QUALIFY, which Spark does not have, as a filter around a subquery.

The condition becomes a column of the inner query, where it sees what QUALIFY sees: the columns of the sources, and the
aliases of the list where no column has their name. sqlglot's own rewrite puts an alias in place of a column of that
name, even of a qualified one, which is another query.

The author's text stays, and only what stands around the condition changes: a generator writes some texts otherwise than
Spark reads them (it takes 'it''s' for two texts, and the format 'YYYY' for 'yyyy'). The tree tells what is to come out.
"""

from __future__ import annotations

from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from sqb.sql.columns.read_expressions import find_span
from sqb.sql.text.lexer import Token, find_closing, tokenize_code

_CONDITION = "__sqb_qualified"
# What happens after QUALIFY, and so around the filter.
_OUTER_CLAUSES = ("with_", "distinct", "order", "limit", "offset", "sort", "distribute", "cluster")


class _Writer(SparkGenerator):
    """Leaves a WITH where it is: at the top its names could meet others, or hide tables that are read there."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()


# What ends a condition, at its own depth.
_FOLLOWING = frozenset("UNION INTERSECT EXCEPT MINUS ORDER SORT DISTRIBUTE CLUSTER LIMIT OFFSET WINDOW".split())
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}


def generate(tree: exp.Expr) -> str:
    """The text of a tree as a generator writes it."""
    return _Writer(dialect="spark", comments=False).generate(tree, copy=False)


def edit_out_qualify(text: str, tree: exp.Query) -> str:
    """The text of the same query without QUALIFY; the text as it is where its parts are not found."""
    qualified = [s for s in tree.find_all(exp.Select) if s.args.get("qualify") is not None]
    places = [find_span(select.args["qualify"])[0] for select in qualified]
    if -1 in places:
        return text
    # The last one first: what is left of it, and what it is part of, stays where it is.
    for _, select in sorted(zip(places, qualified, strict=True), key=lambda pair: -pair[0]):
        columns = ", ".join(generate(column) for column in _list_visible_columns(select))
        edited = _edit_last(text, columns)
        if edited is None:
            return text
        text = edited
    return text


def _edit_last(text: str, columns: str) -> str | None:
    """The text without its last QUALIFY, around which these columns are read."""
    tokens = tokenize_code(text)
    words = [token.text.upper() if token.kind == "word" else "" for token in tokens]
    if "QUALIFY" not in words:
        return None
    at = len(words) - 1 - words[::-1].index("QUALIFY")
    select = _find_select(tokens, words, at)
    if select is None:
        return None
    is_distinct = words[select + 1] == "DISTINCT"
    first = select + 1 + is_distinct
    end = _find_at_depth(tokens, words, first, frozenset({"FROM", "QUALIFY"}))
    after = _find_at_depth(tokens, words, at + 1, _FOLLOWING)
    window_end = after
    if after < len(words) and words[after] == "WINDOW":
        window_end = _find_at_depth(tokens, words, after + 1, _FOLLOWING)

    def cut(start: int, stop: int) -> str:
        return text[tokens[start].start : tokens[stop - 1].end] if start < stop else ""

    outer = f"SELECT {'DISTINCT ' if is_distinct else ''}{columns} FROM (SELECT {cut(first, end)}"
    condition = f", ({cut(at + 1, after)}) AS {_CONDITION}"
    filtered = f"{cut(after, window_end)}) AS __sqb_rows WHERE {_CONDITION}"
    between = text[tokens[end - 1].end : tokens[at].start]
    return text[: tokens[select].start] + outer + condition + between + filtered + text[tokens[window_end - 1].end :]


def _find_select(tokens: list[Token], words: list[str], at: int) -> int | None:
    """The SELECT that a QUALIFY belongs to: the last one before it at its depth."""
    depth = 0
    for index in range(at - 1, -1, -1):
        depth -= _BRACKETS.get(tokens[index].text, 0)
        if depth < 0:
            return None
        if depth == 0 and words[index] == "SELECT":
            return index
    return None


def _find_at_depth(tokens: list[Token], words: list[str], start: int, wanted: frozenset[str]) -> int:
    """The next of some words outside of brackets, or where the brackets around it close, or the end."""
    index = start
    while index < len(tokens):
        if tokens[index].text in ("(", "["):
            closing = find_closing(tokens, index)
            if closing is None:
                return len(tokens)
            index = closing + 1
            continue
        # `a IS DISTINCT FROM b` is no clause.
        is_clause = words[index] in wanted and words[index - 1 : index + 1] != ["DISTINCT", "FROM"]
        if is_clause or tokens[index].text in (")", "]", ";"):
            return index
        index += 1
    return len(tokens)


def rewrite_qualify(tree: exp.Query) -> exp.Query:
    """The same query without QUALIFY."""
    copy = tree.copy()
    # Inner ones first: a query that is moved into another takes what is in it along.
    for select in reversed(list(copy.find_all(exp.Select))):
        if select.args.get("qualify") is not None:
            outer = _wrap_in_filter(select.copy())
            if select is copy:
                copy = outer
            else:
                select.replace(outer)
    return copy


def _wrap_in_filter(select: exp.Select) -> exp.Select:
    condition = select.args["qualify"].this
    select.set("qualify", None)
    after = {key: select.args[key] for key in _OUTER_CLAUSES if select.args.get(key) is not None}
    for key in after:
        select.set(key, None)
    outer = exp.Select(expressions=_list_visible_columns(select), **after)
    select.append("expressions", exp.alias_(exp.paren(condition), _CONDITION))
    inner = exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier("__sqb_rows")))
    outer.set("from_", exp.From(this=inner))
    outer.set("where", exp.Where(this=exp.column(_CONDITION)))
    return outer


def _list_visible_columns(select: exp.Select) -> list[exp.Expr]:
    """The columns of the list: by name where all have one, and otherwise all but the one that is added."""
    names = [item.alias_or_name for item in select.expressions]
    all_named = all(isinstance(item, exp.Alias | exp.Column) and not item.is_star for item in select.expressions)
    if all_named and len({name.lower() for name in names}) == len(names):
        return [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    return sqlglot.parse_one(f"SELECT * EXCEPT ({_CONDITION})", dialect="spark").expressions
