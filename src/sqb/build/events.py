"""What happens during a build, as values. Consoles turn them into lines, progress or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from sqb.compile.model import UnitTest
from sqb.errors.base import SqbError, flatten
from sqb.errors.build import CheckFailed
from sqb.light_dataclass import dataclass
from sqb.plan.model import PlannedNode, Reason

Status = Literal["ok", "skipped", "failed", "blocked"]


@dataclass(frozen=True, slots=True)
class NodeWaiting:
    """A node could run if Spark had started, or publish if the checks were known to fit."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeStarted:
    """The build of a node has started."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """When something began and ended, in seconds since 1970, and which worker did it."""

    began: float
    ended: float
    worker: int = 0


@dataclass(frozen=True, slots=True)
class NodeDone:
    """What became of a node."""

    planned: PlannedNode
    status: Status
    run_type: str
    detail: str = ""
    rows: int = 0
    seconds: float = 0.0
    snapshot_id: int | None = None
    error: SqbError | None = None
    # The node ran and its output is what was there already.
    identical: bool = False
    # What of the table was written, in words.
    wrote: str = ""
    # Checks that do not hold and did not block it.
    findings: tuple[Mapping[str, Any], ...] = ()
    # Of a Python node: what it returned, as JSON; how it skipped itself; and what is to be recorded of its run.
    payload: str = ""
    metadata: str = ""
    skip: Literal["", "soft", "hard"] = ""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    # From when it was given to a worker: waiting for Spark and for checks is part of it, and not of its seconds.
    span: WorkSpan | None = None

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def type(self) -> str:
        return self.planned.type

    @property
    def kind(self) -> str:
        return self.planned.kind

    @property
    def reason(self) -> Reason:
        return self.planned.reason

    def to_data(self) -> dict[str, Any]:
        return {
            **self.planned.to_data(),
            "run_type": self.run_type,
            "detail": self.detail or self.planned.detail,
            "status": self.status,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "snapshot_id": self.snapshot_id,
            "error": str(self.error) if self.error else None,
            "failures": self.list_failures(),
        }

    def list_failures(self) -> list[Mapping[str, Any]]:
        """The checks that do not hold, whether or not they blocked it."""
        return [*_list_findings(self.error), *self.findings]


def _list_findings(error: SqbError | None) -> list[Mapping[str, Any]]:
    errors = flatten(error) if error is not None else ()
    return [e.finding for e in errors if isinstance(e, CheckFailed) and e.finding is not None]


@dataclass(frozen=True, slots=True)
class UnitTestDone:
    """What became of a unit test of a model."""

    test: UnitTest
    status: Literal["passed", "failed"]
    seconds: float = 0.0
    error: SqbError | None = None

    def to_data(self) -> dict[str, Any]:
        return {
            "name": self.test.name,
            "model": self.test.model,
            "status": self.status,
            "error": str(self.error) if self.error else None,
        }


@dataclass(frozen=True, slots=True)
class UnitTestsDone:
    """All unit tests that had to run before the models have run."""

    tests: tuple[UnitTestDone, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class SparkStarted:
    """A Spark of the build's own has started."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """What a build is doing that is not a node's work; "" when that has ended."""

    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Something worth telling while people wait."""

    text: str


@dataclass(frozen=True, slots=True)
class NodeSaid:
    """A line that a Python node printed or logged, with its name before it."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth knowing that is not an error."""

    text: str


Event = (
    NodeWaiting
    | NodeStarted
    | NodeDone
    | UnitTestDone
    | UnitTestsDone
    | SparkStarted
    | PhaseStarted
    | Progress
    | NodeSaid
    | Notice
)
