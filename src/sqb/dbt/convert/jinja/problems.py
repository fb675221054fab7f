"""What stops the evaluation of a template: something that only dbt, or a database that it asks, could say."""

from __future__ import annotations


class Unconvertible(Exception):
    """A part of a template that its text does not decide: what it is, why, and where in which text."""

    def __init__(self, what: str, why: str, file: str = "", line: int = 0) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why
        self.file = file
        self.line = line

    def locate(self, file: str, line: int) -> Unconvertible:
        """The same with a place, unless it has one."""
        return self if self.line else Unconvertible(self.what, self.why, file, line)
