"""What rules look at, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqb.names import At, locate_offset

Severity = Literal["error", "warning", "off"]


@dataclass(frozen=True, slots=True)
class LintedModel:
    """A model as rules see it."""

    name: str
    folder: str
    file: str
    kind: str
    # The file as it is written, and where the query begins in it.
    text: str
    body_start: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    upstream: tuple[str, ...] = ()
    # Columns with the texts of their types, as far as they are known.
    columns: tuple[tuple[str, str], ...] = ()
    has_checks: bool = False

    @property
    def sql(self) -> str:
        """The query as it is written."""
        return self.text[self.body_start :]

    @property
    def short_name(self) -> str:
        """The name without its folder."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Remark:
    """What a rule says of a model; `start` and `end` are a span of its file, 0 where it is about the whole."""

    message: str
    start: int = 0
    end: int = 0
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What the project's settings say of a rule."""

    severity: Severity
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    pattern: str = ""


Check = Callable[[LintedModel, RuleOptions], Iterable[Remark]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, what it is for, and how it counts by default."""

    name: str
    check: Check
    text: str
    severity: Severity = "off"
    needs_pattern: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a rule found."""

    rule: str
    severity: Severity
    message: str
    at: At
    hint: str | None = None

    def to_data(self) -> dict[str, Any]:
        """The finding as `--json` prints it."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "file": self.at.file,
            "line": self.at.line or None,
            "column": self.at.column or None,
            "message": self.message,
            "hint": self.hint,
        }


def locate_remark(model: LintedModel, remark: Remark) -> At:
    """Where a remark is."""
    if remark.end <= remark.start:
        return At(model.file)
    return locate_offset(model.text, remark.start, model.file, remark.end - remark.start)
