"""What an error is, and how errors are collected so that all of a project are shown at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from sqb.names import At


class SqbError(Exception):
    """The root of all errors that sqb explains to its user."""

    code: ClassVar[str] = ""

    def __init__(
        self, message: str, *, at: At | None = None, hint: str | None = None, evidence: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint
        # Lines that show what is meant, such as rows; they are printed below the place.
        self.evidence = tuple(evidence)

    def __str__(self) -> str:
        place = f"{self.at}: " if self.at else ""
        return f"error[{self.code}]: {place}{self.message}"

    def key(self) -> tuple[str, int, int, str]:
        """What sorts errors as a reader goes through files."""
        at = self.at or At("")
        return (at.file, at.line, at.column, self.code)

    def to_data(self) -> dict[str, Any]:
        """The error as `--json` prints it."""
        at = self.at or At("")
        return {
            "code": self.code,
            "file": at.file or None,
            "line": at.line or None,
            "column": at.column or None,
            "message": self.message,
            "hint": self.hint,
        }


class SqbErrors(SqbError):
    """Several errors found in one go; all of them are shown."""

    code = "SQB-0000"

    def __init__(self, errors: Iterable[SqbError]) -> None:
        self.errors: Sequence[SqbError] = sorted(errors, key=SqbError.key)
        super().__init__("\n".join(str(e) for e in self.errors))


def flatten(error: SqbError) -> Sequence[SqbError]:
    """The single errors in an error."""
    return error.errors if isinstance(error, SqbErrors) else (error,)


class Errors:
    """Collects errors so that all of a project's are reported at once."""

    def __init__(self) -> None:
        self.found: list[SqbError] = []

    def add(self, error: SqbError) -> None:
        self.found.extend(flatten(error))

    def raise_any(self) -> None:
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise SqbErrors(self.found)


class InternalError(SqbError):
    """A mistake in sqb itself."""

    code = "SQB-X001"
