"""A comma with nothing before or after it: sqlglot reads over it, and Spark takes the next word for a column's name."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.text.keywords import KEYWORDS
from sqb.sql.text.lexer import Token

# After FROM: it is a column's name, or something else is wrong than the comma.
_NOT_A_TABLE = frozenset(["FROM", "AS", ",", ".", ")", "WHERE", "GROUP", "ORDER", "HAVING"])
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def find_trailing_comma(tokens: Sequence[Token]) -> Token | None:
    """Find a comma before FROM, GROUP BY, ORDER BY, a comma, a closing bracket or the end, or behind the last CTE."""
    for index, token in enumerate(tokens):
        is_comma = token.text == "," and token.kind == "symbol"
        if is_comma and (_is_last_of_list(tokens, index + 1) or _is_after_last_cte(tokens, index)):
            return token
    return None


def find_empty_list(tokens: Sequence[Token]) -> Token | None:
    """Find the first word of a query that selects nothing before a comma or FROM, or of `IN ()`."""
    words = [token.text.upper() for token in tokens[:3]]
    if words[:2] == ["SELECT", ","]:
        return tokens[0]
    if words[:2] == ["SELECT", "FROM"] and len(words) == 3 and words[2] not in _NOT_A_TABLE:
        return None if tokens[2].kind not in ("word", "quoted") or _has_later_from(tokens, 2) else tokens[0]
    for index in range(3, len(tokens)):
        is_empty = tokens[index].text == ")" and tokens[index - 1].text == "("
        if is_empty and tokens[index - 2].text.upper() == "IN" and _is_value(tokens[index - 3]):
            return tokens[index - 2]
    return None


def _is_value(token: Token) -> bool:
    """Whether a value can end with a token, or NOT is before IN: elsewhere it is the name of something."""
    if token.kind == "word":
        return token.text.upper() not in KEYWORDS or token.text.upper() == "NOT"
    return token.kind in ("quoted", "string", "number") or token.text in (")", "]")


def _is_after_last_cte(tokens: Sequence[Token], index: int) -> bool:
    """Whether a comma is between `name AS (query)` and SELECT."""
    if not index or tokens[index - 1].text != ")":
        return False
    after = [token.text.upper() for token in tokens[index + 1 : index + 3]]
    if len(after) < 2 or after[0] != "SELECT" or after[1] in ("AS", "("):
        return False
    depth, opening = 1, index - 1
    while depth and opening:
        opening -= 1
        depth += (tokens[opening].text == ")") - (tokens[opening].text == "(")
    words = [token.text.upper() for token in tokens[max(0, opening - 3) : opening + 2]]
    is_query = len(words) == 5 and words[4] in ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
    return is_query and words[0] in ("WITH", "RECURSIVE", ",") and words[2] == "AS"


def _is_last_of_list(tokens: Sequence[Token], index: int) -> bool:
    if index == len(tokens):
        return True
    after = tokens[index]
    if after.kind == "symbol":
        return after.text in (")", ",")
    if after.kind != "word":
        return False
    word = after.text.upper()
    words = [t.text.upper() for t in tokens[index + 1 : index + 3]]
    if word in ("GROUP", "ORDER"):
        return words[:1] == ["BY"] and len(words) == 2 and tokens[index + 2].kind in ("word", "quoted", "number")
    if word != "FROM" or not words or words[0] in _NOT_A_TABLE:
        return False
    return not _has_later_from(tokens, index + 1)


def _has_later_from(tokens: Sequence[Token], index: int) -> bool:
    """Whether the same SELECT has another FROM: then the first may be the name of a column."""
    depth = 0
    for token in tokens[index:]:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth < 0:
            return False
        word = token.text.upper() if depth == 0 and token.kind == "word" else ""
        if word in ("UNION", "INTERSECT", "EXCEPT", "MINUS"):
            return False
        if word == "FROM":
            return True
    return False
