"""The version that a query itself asks for: `t VERSION AS OF 'audit'`, `t FOR TIMESTAMP AS OF '2024-01-01'`."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Literal

from sqb.light_dataclass import dataclass
from sqb.sql.text.lexer import Token, tokenize_code
from sqb.sql.text.spans import Reference

_VERSION = frozenset({"version", "system_version"})
_TIME = frozenset({"timestamp", "system_time"})
# After a whole value; anything else goes on with it.
_ENDS = frozenset({",", ")", ";", "]"})


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """A version that is known by a name, a number or a time, and where the clause that says so ends in the query."""

    kind: Literal["version", "timestamp"]
    value: str
    end: int

    @property
    def clause(self) -> str:
        """The clause, in one spelling."""
        return f"{self.kind.upper()} AS OF '{self.value}'"


@lru_cache(maxsize=1024)
def parse_time_travel(sql: str, slot: Reference) -> TimeTravel | None:
    """What a reference asks for, where that is a plain value: an expression is for Spark to compute."""
    tokens = tokenize_code(sql, slot.end)[:7] if slot.is_pinned else []
    words = [token.text.lower() for token in tokens]
    if words[:1] == ["for"]:
        tokens, words = tokens[1:], words[1:]
    if len(words) < 4 or words[1:3] != ["as", "of"]:
        return None
    if words[0] in _VERSION:
        return _parse_version(tokens[3])
    typed = words[0] in _TIME and words[3] in ("timestamp", "date") and len(tokens) > 4
    value = tokens[4 if typed else 3]
    after = tokens[5 if typed else 4 :]
    if words[0] not in _TIME or value.kind != "string" or not _is_complete(after) or not _is_time(value.text):
        return None
    return TimeTravel("timestamp", value.text[1:-1], value.end)


def _parse_version(token: Token) -> TimeTravel | None:
    if token.kind == "number" and token.text.isdigit():
        return TimeTravel("version", token.text, token.end)
    plain = token.kind == "string" and token.text[0] in "'\"" and "\\" not in token.text
    return TimeTravel("version", token.text[1:-1], token.end) if plain else None


def _is_time(text: str) -> bool:
    """Whether a text in quotes is a time that is read without Spark; 'now' and 'today' mean another one each day."""
    try:
        datetime.fromisoformat(text[1:-1].strip())
    except ValueError:
        return False
    return text[0] in "'\""


def _is_complete(after: list[Token]) -> bool:
    return not after or after[0].kind in ("word", "quoted") or after[0].text in _ENDS
