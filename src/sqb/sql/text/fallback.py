"""Queries that sqlglot does not parse. Spark may parse them, so they are models all the same if they are complete.

What is certainly not a query (brackets that do not pair, a text that ends in the middle, a statement) stays an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from sqb.sql.analysis.query import Query, QueryProblem, compute_canonical, iter_volatile_parts
from sqb.sql.text.calls import add_function_calls
from sqb.sql.text.keywords import KEYWORDS
from sqb.sql.text.lexer import Token
from sqb.sql.text.spans import strip_scope
from sqb.sql.text.table_names import QUERY_STARTS, DynamicName, find_references

# Every name with which a type begins in Spark 4.1.
_PAIRS = {")": "(", "]": "[", "}": "{"}
# Words that cannot be the last of a query or of a pair of brackets.
_NEED_MORE = frozenset("SELECT FROM WHERE HAVING BY ON JOIN AND OR NOT BETWEEN WHEN THEN ELSE UNION USING AS".split())
# At the very end these are not names of columns either.
_NEED_MORE_AT_END = _NEED_MORE | frozenset(
    "GROUP ORDER IN LIKE IS LIMIT OFFSET INNER CROSS OUTER LEFT RIGHT FULL SEMI ANTI WITH OVER CASE LATERAL".split()
)
_BEGIN_CLAUSES = frozenset("FROM WHERE HAVING UNION".split())
_NEED_AN_EXPRESSION = frozenset("SELECT FROM WHERE HAVING BY ON AND OR JOIN".split())
_LAST_SYMBOLS = frozenset([")", "]", "}", "*", "?"])
# Words whose case means nothing; any other may be a name.
_CASELESS = frozenset(
    """
    ALL AND ANTI AS ASC BETWEEN BY CASE CROSS DESC DISTINCT ELSE EXCEPT EXISTS FALSE FROM FULL GROUP HAVING IN INNER
    INTERSECT INTO IS JOIN LATERAL LEFT LIKE LIMIT MINUS NATURAL NOT NULL ON OR ORDER OUTER PIVOT RIGHT SELECT SEMI
    TABLESAMPLE THEN TRUE UNION UNPIVOT USING WHEN WHERE WITH
    """.split()
)


def build_unparsed_query(
    text: str, tokens: Sequence[Token], forced: Mapping[int, str], reason: str, offset: int
) -> Query:
    """Build a query from its tokens alone; `reason` and `offset` say why sqlglot did not parse it."""
    try:
        references = add_function_calls(find_references(tokens, forced), tokens, forced)
    except DynamicName as name:
        raise build_dynamic_name_problem(name.start, name.end) from name
    return Query(
        canonical=compute_canonical(text, references, find_name_places(tokens)),
        references=strip_scope(references),
        runnable=text,
        slots=strip_scope(references),
        volatile=tuple(iter_volatile_parts(tokens)),
        unread=(reason, offset),
    )


def build_dynamic_name_problem(start: int, end: int) -> QueryProblem:
    """The error for a table whose name is made when the query runs."""
    return QueryProblem(
        "parse",
        "IDENTIFIER(…) names a table that cannot be known before the query runs",
        start,
        end,
        "write the table's name, or build it with a @@variable or a @macro",
    )


def find_pipe(tokens: Sequence[Token]) -> int | None:
    """Find the offset of the first `|>`."""
    for first, second in pairwise(tokens):
        if first.text == "|" and second.text == ">" and first.end == second.start:
            return first.start
    return None


def find_name_places(tokens: Sequence[Token]) -> frozenset[int]:
    """The places of words that may be names of something: neither keywords nor called."""
    places = set()
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text.upper() if index else ""
        called = index + 1 < len(tokens) and tokens[index + 1].text == "(" and before != "."
        keyword = token.text.upper() in _CASELESS and before not in (".", "AS")
        if token.kind == "word" and index and not called and not keyword:
            places.add(token.start)
    return frozenset(places)


def find_mistake(tokens: Sequence[Token]) -> QueryProblem | None:
    """Find what makes a text invalid in every grammar, Spark's included."""
    return (
        find_write_statement(tokens)
        or find_unpaired_bracket(tokens)
        or _find_unfinished_clause(tokens)
        or _find_mistyped_keyword(tokens)
        or _find_wrong_beginning(tokens[0])
    )


def _find_wrong_beginning(first: Token) -> QueryProblem | None:
    if first.text.upper() in QUERY_STARTS or first.text == "(":
        return None
    return QueryProblem("parse", "a query does not begin like this", first.start, first.end)


def find_unpaired_bracket(tokens: Sequence[Token]) -> QueryProblem | None:
    """Find the first bracket without a partner."""
    opened: list[Token] = []
    for token in tokens:
        if token.kind != "symbol":
            continue
        if token.text in _PAIRS.values():
            opened.append(token)
        elif token.text in _PAIRS and (not opened or opened.pop().text != _PAIRS[token.text]):
            return QueryProblem("parse", f"this {token.text} closes nothing", token.start, token.end)
    if opened:
        return QueryProblem("parse", f"this {opened[-1].text} is never closed", opened[-1].start, opened[-1].end)
    return None


def _find_unfinished_clause(tokens: Sequence[Token]) -> QueryProblem | None:
    for index, token in enumerate(tokens):
        if _needs_more(token, tokens[index - 1] if index else None, tokens[index + 1 : index + 3]):
            return QueryProblem("parse", f"something is missing after {token.text}", token.start, token.end)
    return None


def _needs_more(token: Token, before: Token | None, then: Sequence[Token]) -> bool:
    after = then[0] if then else None
    follows = after.text.upper() if after is not None else ""
    if token.kind == "symbol":
        if token.text == ",":
            return follows in ("", ")", "]", ",") or follows in _BEGIN_CLAUSES
        return after is None and token.text not in _LAST_SYMBOLS
    if token.kind != "word" or (before is not None and before.text.upper() in (".", "AS")):
        return False
    word = token.text.upper()
    if word == "VALUES" and before is not None and before.text.upper() in ("FROM", "JOIN"):
        return follows == "" or follows in _BEGIN_CLAUSES
    if after is None:
        return word in _NEED_MORE_AT_END
    if after.text == ")":
        return word in _NEED_MORE
    clause = follows in _BEGIN_CLAUSES or (
        follows in ("GROUP", "ORDER") and [t.text.upper() for t in then[1:]] == ["BY"]
    )
    return after.kind == "word" and word in _NEED_AN_EXPRESSION and clause


def _find_mistyped_keyword(tokens: Sequence[Token]) -> QueryProblem | None:
    """Three names in a row, which no grammar has: a word that was to be a keyword is spelled wrongly."""
    for index, token in enumerate(tokens):
        names = [_is_name(t) for t in tokens[index : index + 3]]
        by = token.text.upper() in ("GROUP", "ORDER") and names[1:2] == [True] and index and _is_end(tokens[index - 1])
        if names == [True, True, True] or by:
            return QueryProblem("parse", f"{token.text} cannot be followed by this", token.start, token.end)
    return None


def _is_end(token: Token) -> bool:
    """Whether an expression or a table can end with this."""
    return token.text == ")" or token.kind in ("number", "string") or _is_name(token)


def _is_name(token: Token) -> bool:
    return token.kind == "quoted" or (token.kind == "word" and token.text.upper() not in KEYWORDS)


def find_write_statement(tokens: Sequence[Token]) -> QueryProblem | None:
    """A statement after WITH or FROM: Spark would carry it out as soon as it is asked what columns it has."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "symbol":
            depth += (token.text in _PAIRS.values()) - (token.text in _PAIRS)
        word, after = token.text.upper(), tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
        pair = (word, after) in (("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM"), ("MERGE", "INTO"))
        update = word == "UPDATE" and index > 0 and tokens[index - 1].text == ")"
        if depth == 0 and index and token.kind == "word" and (pair or update):
            return build_not_a_select_problem(token, f"{'an' if word[0] in 'AEIOU' else 'a'} {word}")
    return None


def build_not_a_select_problem(token: Token, what: str) -> QueryProblem:
    """The error for a statement where a query should be."""
    return QueryProblem(
        "not a select",
        f"a model is one SELECT; this is {what}",
        token.start,
        token.end,
        "write the query whose rows the model should have; sqb creates and fills the table",
    )
