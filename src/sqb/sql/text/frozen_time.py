"""What a query asks the clock: the calls, found on tokens, and what they say at a fixed time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqb.sql.text.lexer import Token, find_closing, tokenize_code
from sqb.types.literals import format_literal

_CALLS = frozenset(["current_timestamp", "now", "localtimestamp", "current_date", "curdate", "unix_timestamp"])
# These need no parentheses.
_BARE = frozenset(["current_timestamp", "localtimestamp", "current_date"])


@dataclass(frozen=True, slots=True)
class ClockCall:
    """A call such as `now()`: its half-open span and its lower-case name."""

    name: str
    start: int
    end: int


def iter_clock_calls(text: str) -> Iterator[ClockCall]:
    """The calls of a query that depend on the time at which it runs."""
    tokens = tokenize_code(text)
    for index, token in enumerate(tokens):
        name = token.text.lower()
        if token.kind != "word" or name not in _CALLS or _is_a_name(tokens, index):
            continue
        opens = index + 1 < len(tokens) and tokens[index + 1].text == "("
        end = find_closing(tokens, index + 1) if opens else index
        # With arguments `unix_timestamp` reads a time, and the others are not functions of Spark.
        if end is not None and (end == index + 2 if opens else name in _BARE):
            yield ClockCall(name, token.start, tokens[end].end)


def _is_a_name(tokens: list[Token], index: int) -> bool:
    """Whether the word is a column, an alias or part of a longer name."""
    before = tokens[index - 1].text.lower() if index else ""
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    return before in (".", "as") or after == "."


def render_clock_call(name: str, now: str) -> str:
    """What a call says at a fixed time, as SQL: a time without a zone is one of the session's zone."""
    moment = f"TIMESTAMP {format_literal(now)}"
    match name:
        case "current_date" | "curdate":
            return f"CAST({moment} AS DATE)"
        case "localtimestamp":
            return f"CAST({moment} AS TIMESTAMP_NTZ)"
        case "unix_timestamp":
            return f"unix_seconds({moment})"
        case _:
            return moment
