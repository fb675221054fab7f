"""What checks found, as values, and as errors that people read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqb.checks.model import Check
from sqb.errors.base import SqbError, SqbErrors
from sqb.errors.build import CheckFailed, CheckNotEvaluated

SHOWN_ROWS = 5
_SHOWN_COLUMNS = 6
_WIDEST = 40

Example = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that does not hold."""

    check: Check
    message: str
    # How many rows violate it; None where it is not about single rows.
    violations: int | None = None
    examples: tuple[Example, ...] = ()
    # How many lines like the examples there are; fewer than violations where a line stands for several rows.
    lines: int | None = None
    # The query of all violating rows, while the relations that it reads exist.
    query: str | None = None
    # False when Spark failed, so that the result of the check is unknown.
    evaluated: bool = True
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a model's checks; `figures` are for the next run to compare with."""

    failures: tuple[Failure, ...] = ()
    warnings: tuple[Failure, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the rows may be published."""
        return not self.failures

    def raise_failures(self, also: Sequence[SqbError] = ()) -> None:
        """Raise the failures, if any, as errors, and with them what else went wrong."""
        if self.failures:
            raise combine_failures(self.failures, also)


def combine_failures(failures: Sequence[Failure], also: Sequence[SqbError] = ()) -> SqbError:
    """Failures as one error that shows all of them."""
    errors = [*map(build_check_error, failures), *also]
    return errors[0] if len(errors) == 1 else SqbErrors(errors)


def build_check_error(failure: Failure) -> CheckFailed:
    """A failure as an error at the place of its check."""
    kind = CheckFailed if failure.evaluated else CheckNotEvaluated
    error = kind(
        format_failure(failure),
        at=failure.check.at,
        hint=failure.hint or failure.check.description or _format_more_rows(failure),
        evidence=format_evidence(failure),
    )
    error.finding = encode_finding(failure)
    return error


def format_evidence(failure: Failure) -> tuple[str, ...]:
    """The example rows of a failure as lines."""
    return tuple(format_examples(failure.examples, failure.check.columns, failure.lines))


def encode_finding(failure: Failure) -> Mapping[str, Any]:
    """A failure as JSON can hold it, for programs; the values of its rows are texts, as Spark writes them."""
    check = failure.check
    return {
        "check": check.text,
        "role": check.role,
        "severity": "error" if check.is_blocking else "warn",
        "message": failure.message,
        "file": check.at.file,
        "line": check.at.line,
        "column": check.at.column,
        "violations": failure.violations,
        "rows": [dict(row) for row in failure.examples],
    }


def _format_more_rows(failure: Failure) -> str | None:
    more = failure.lines is not None and failure.lines > len(failure.examples)
    return "`sqb build --store-failures` keeps the violating rows in a table" if more else None


def format_failure(failure: Failure) -> str:
    """A failure in one line, without its place."""
    return f"{failure.check.text}: {failure.message}"


def format_row_count(count: int, singular: str, plural: str) -> str:
    """A number of rows in a sentence."""
    return f"1 row {singular}" if count == 1 else f"{count:,} rows {plural}"


def format_examples(examples: Sequence[Example], first: Iterable[str], total: int | None) -> Iterator[str]:
    """Example rows as aligned lines, the columns that matter first."""
    if not examples:
        return
    positions = {name.lower(): index for index, name in enumerate(first)}
    names = sorted(examples[0], key=lambda name: positions.get(name.lower(), len(positions)))
    # Saying that one column is left out would take the place that it needs.
    cut = len(names) - _SHOWN_COLUMNS if len(names) > _SHOWN_COLUMNS + 1 else 0
    names = names[: len(names) - cut]
    lines = [[_format_cell(text) for text in names], *([_format_cell(row[name]) for name in names] for row in examples)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    for number, line in enumerate(lines):
        more = f"  … {cut} more columns" if cut and number == 0 else ""
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + more
    if total is not None and total > len(examples):
        yield f"… and {total - len(examples):,} more"


def _format_cell(text: str) -> str:
    text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    text = text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
