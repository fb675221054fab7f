"""How many arguments the calls in a text are written with, from its tokens: a parser may add some, or drop them."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.text.lexer import Token

# Words that make of a list of arguments something else: `trim(BOTH FROM x)`, `count(DISTINCT x)`, `first(x IGNORE …)`.
_WORDS = frozenset("FROM FOR IN PLACING AS DISTINCT ALL ORDER IGNORE RESPECT USING SELECT WITH TABLE".split())
# Before `<` they begin a type, which may have commas: `x::map<string, int>`.
_TYPES_OF_SEVERAL = frozenset(["MAP", "STRUCT"])


def count_arguments(tokens: Sequence[Token]) -> dict[int, int]:
    """The number of arguments of every call by where it begins; -1 where they are not a plain list."""
    counts: dict[int, int] = {}
    # For every open bracket: where the call begins that it belongs to, its commas, and whether it is a plain list.
    opened: list[tuple[int, list[int]]] = []
    before: Token | None = None
    for token in tokens:
        text = token.text
        if text == "(":
            start = before.start if before is not None and before.kind in ("word", "quoted") else -1
            opened.append((start, [0, 0, 1]))
        elif text in ("[", "{"):
            opened.append((-1, [0, 0, 1]))
        elif text in (")", "]", "}") and opened:
            start, (commas, has_any, is_plain) = opened.pop()
            if start >= 0:
                counts[start] = (commas + has_any) if is_plain else -1
            if opened:
                opened[-1][1][1] = 1
        elif opened:
            state = opened[-1][1]
            if text == ",":
                state[0] += 1
            else:
                state[1] = 1
                is_type = text == "<" and before is not None and before.text.upper() in _TYPES_OF_SEVERAL
                if is_type or text in ("=>", "*") or (token.kind == "word" and text.upper() in _WORDS):
                    state[2] = 0
        if text == "(" and len(opened) > 1:
            opened[-2][1][1] = 1
        before = token
    return counts
