"""What is surely wrong in a query: one value for each mistake, with its place in the text."""

from __future__ import annotations

from typing import Literal, Protocol

from sqb.light_dataclass import dataclass

Kind = Literal[
    "unknown column",
    "ambiguous column",
    "unknown function",
    "wrong arguments",
    "doubled column",
    "set operation",
    "not grouped",
    "misplaced aggregate",
    "wrong type",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake: `start` and `end` are a half-open span of the text, -1 where the place is not known."""

    kind: Kind
    message: str
    start: int
    end: int
    hint: str | None = None
    # Of an unknown column: its last part in lower case.
    column: str = ""


class Report(Protocol):
    """What checks tell of a mistake with."""

    def __call__(
        self, kind: Kind, message: str, start: int, end: int, hint: str | None = None, column: str = ""
    ) -> None: ...
