"""`__cursor_start()` and `__cursor_end()` in a query: their places. Their values are known when the model runs.

They stay in the text as they are written, so that a query has one identity whatever window it is run for.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqb.light_dataclass import dataclass
from sqb.sql.text.lexer import tokenize_code

START, END = "__cursor_start", "__cursor_end"


@dataclass(frozen=True, slots=True)
class CursorCall:
    """A call and the half-open span that it takes; it is not `whole` when something else than `()` follows its name."""

    name: str
    start: int
    end: int
    is_complete: bool = True


def iter_cursor_calls(text: str) -> Iterator[CursorCall]:
    """The calls in a query, never those in strings and comments."""
    if "__cursor" not in text.lower():
        return
    tokens = tokenize_code(text)
    for index, token in enumerate(tokens):
        name = token.text.lower()
        if token.kind == "word" and name in (START, END):
            after = [t.text for t in tokens[index + 1 : index + 3]]
            if after == ["(", ")"]:
                yield CursorCall(name, token.start, tokens[index + 2].end)
            else:
                yield CursorCall(name, token.start, token.end, is_complete=False)
