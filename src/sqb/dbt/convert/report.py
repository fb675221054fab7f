"""What a conversion says of a dbt project: what it left out, what needs a look, and what it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a file of the dbt project: what it is, and why it is not, or not quite, the same here."""

    file: str
    line: int
    what: str
    why: str
    is_left_out: bool

    def to_data(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "file": self.file,
            "line": self.line,
            "what": self.what,
            "why": self.why,
            "left_out": self.is_left_out,
        }


class Report:
    """Collects remarks; each is there once."""

    def __init__(self) -> None:
        self._remarks: dict[Remark, None] = {}

    def leave_out(self, file: str, line: int, what: str, why: str) -> None:
        """Something was not converted."""
        self._remarks[Remark(file, max(line, 1), what, why, is_left_out=True)] = None

    def note(self, file: str, line: int, what: str, why: str) -> None:
        """Something was converted, and is worth a look: the first time that it is in a file."""
        if any((r.file, r.what, r.why, r.is_left_out) == (file, what, why, False) for r in self._remarks):
            return
        self._remarks[Remark(file, max(line, 1), what, why, is_left_out=False)] = None

    def list_remarks(self) -> tuple[Remark, ...]:
        """All of them, by place."""
        return tuple(sorted(self._remarks, key=lambda r: (r.file, r.line, r.what)))
