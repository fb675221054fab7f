"""The version that a query itself asks for: `t VERSION AS OF 'audit'`, `t FOR TIMESTAMP AS OF '2024-01-01'`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sqb.sql.lexer import Token, code
from sqb.sql.spans import Reference

_VERSION = frozenset({"version", "system_version"})
_TIME = frozenset({"timestamp", "system_time"})
# After a whole value; anything else goes on with it.
_ENDS = frozenset({",", ")", ";", "]"})


@dataclass(frozen=True, slots=True)
class Travel:
    """A version that is known by a name, a number or a time, and where the clause that says so ends in the query."""

    kind: Literal["version", "timestamp"]
    value: str
    end: int

    @property
    def clause(self) -> str:
        """The clause, in one spelling."""
        return f"{self.kind.upper()} AS OF '{self.value}'"


@lru_cache(maxsize=1024)
def travel_of(sql: str, slot: Reference) -> Travel | None:
    """What a reference asks for, where that is a plain value: an expression is for Spark to compute."""
    found = code(sql, slot.end)[:7] if slot.fixed else []
    words = [token.text.lower() for token in found]
    if words[:1] == ["for"]:
        found, words = found[1:], words[1:]
    if len(words) < 4 or words[1:3] != ["as", "of"]:
        return None
    if words[0] in _VERSION:
        return _version(found[3])
    typed = words[0] in _TIME and words[3] in ("timestamp", "date") and len(found) > 4
    value = found[4 if typed else 3]
    after = found[5 if typed else 4 :]
    if words[0] not in _TIME or value.kind != "string" or not _is_whole(after):
        return None
    return Travel("timestamp", value.text[1:-1], value.end) if value.text[0] in "'\"" else None


def _version(token: Token) -> Travel | None:
    if token.kind == "number" and token.text.isdigit():
        return Travel("version", token.text, token.end)
    plain = token.kind == "string" and token.text[0] in "'\"" and "\\" not in token.text
    return Travel("version", token.text[1:-1], token.end) if plain else None


def _is_whole(after: list[Token]) -> bool:
    return not after or after[0].kind in ("word", "quoted") or after[0].text in _ENDS
