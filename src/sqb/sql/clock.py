"""What a query asks the clock: the calls, found on tokens, and what they say at a fixed time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqb.sql.expand import literal
from sqb.sql.lexer import Token, closing, code

_CALLS = frozenset(["current_timestamp", "now", "localtimestamp", "current_date", "curdate", "unix_timestamp"])
# These need no parentheses.
_BARE = frozenset(["current_timestamp", "localtimestamp", "current_date"])


@dataclass(frozen=True, slots=True)
class ClockCall:
    """A call such as `now()`: its half-open span and its lower-case name."""

    name: str
    start: int
    end: int


def clock_calls(text: str) -> Iterator[ClockCall]:
    """The calls of a query that depend on the time at which it runs."""
    found = code(text)
    for index, token in enumerate(found):
        name = token.text.lower()
        if token.kind != "word" or name not in _CALLS or _is_a_name(found, index):
            continue
        opens = index + 1 < len(found) and found[index + 1].text == "("
        end = closing(found, index + 1) if opens else index
        # With arguments `unix_timestamp` reads a time, and the others are no functions that Spark has.
        if end is not None and (end == index + 2 if opens else name in _BARE):
            yield ClockCall(name, token.start, found[end].end)


def _is_a_name(found: list[Token], index: int) -> bool:
    """Whether the word is a column, an alias or part of a longer name."""
    before = found[index - 1].text.lower() if index else ""
    after = found[index + 1].text if index + 1 < len(found) else ""
    return before in (".", "as") or after == "."


def at_time(name: str, now: str) -> str:
    """What a call says at a fixed time, as SQL: a time without a zone is one of the session's zone."""
    moment = f"TIMESTAMP {literal(now)}"
    match name:
        case "current_date" | "curdate":
            return f"CAST({moment} AS DATE)"
        case "localtimestamp":
            return f"CAST({moment} AS TIMESTAMP_NTZ)"
        case "unix_timestamp":
            return f"unix_seconds({moment})"
        case _:
            return moment
