"""A comma with nothing after it: sqlglot reads over it, and Spark takes the next word for a column's name."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.text.lexer import Token

# After FROM: it is a column's name, or something else is wrong than the comma.
_NOT_A_TABLE = frozenset(["FROM", "AS", ",", ".", ")", "WHERE", "GROUP", "ORDER", "HAVING"])
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def find_trailing_comma(tokens: Sequence[Token]) -> Token | None:
    """Find a comma before FROM, GROUP BY, ORDER BY, a comma, a closing bracket or the end: it can only be a mistake."""
    for index, token in enumerate(tokens):
        if token.text == "," and token.kind == "symbol" and _is_last_of_list(tokens, index + 1):
            return token
    return None


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
