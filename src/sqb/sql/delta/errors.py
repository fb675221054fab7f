"""Why something is not proven of a query."""

from __future__ import annotations


class NotProven(Exception):
    """A construct that prevents the proof, and its place in the text."""

    def __init__(self, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.why, self.offset = why, offset
