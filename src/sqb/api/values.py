"""What the API returns: nodes, plans, results and rows. Each holds the same values that the command line prints."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqb.build.events import NodeDone, UnitTestDone
from sqb.errors.base import SqbError
from sqb.errors.build import BuildFailed
from sqb.operations.plan import PlanOptions
from sqb.plan.model import Plan as Decisions
from sqb.plan.model import PlannedNode

if TYPE_CHECKING:
    from sqb.operations.build import BuildOutcome


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def find_node(name: str, nodes: Iterable[_N]) -> _N:
    """A node by its name, or by what comes last in it where that is the name of one only."""
    candidates = list(nodes)
    matches = [n for n in candidates if n.name == name] or [n for n in candidates if n.name.rpartition(".")[2] == name]
    if len(matches) != 1:
        raise KeyError(f"{name} is {'no node' if not matches else ' and '.join(n.name for n in matches)}")
    return matches[0]


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """A check of a node, as it is written."""

    text: str
    # constraint, audit or warning.
    role: str
    # Whether its failure keeps the rows from being published.
    is_blocking: bool


@dataclass(frozen=True, slots=True)
class Node:
    """Something that the project builds or runs, as its files say it."""

    name: str
    type: str
    kind: str
    # The table or view, where there is one.
    relation: str | None
    file: str
    # Nodes, and tables that the project only reads.
    upstream: tuple[str, ...]
    tags: tuple[str, ...]
    description: str
    owner: str = ""
    checks: tuple[NodeCheck, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """What a build would do and why, node by node, each after what it reads."""

    _decisions: Decisions
    _document: Mapping[str, Any]
    # What `Project.build` holds against the world of the day: where the plan is of, what was asked, what was to run.
    _options: PlanOptions = PlanOptions()
    _origin: tuple[Path, str, str] = (Path(), "", "")
    _definitions: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return self._decisions.target

    @property
    def nodes(self) -> tuple[PlannedNode, ...]:
        """The decision about every node that is selected."""
        return self._decisions.nodes

    @property
    def to_run(self) -> tuple[PlannedNode, ...]:
        return tuple(n for n in self.nodes if n.action == "run")

    @property
    def blocked(self) -> tuple[PlannedNode, ...]:
        return tuple(n for n in self.nodes if n.action == "blocked")

    @property
    def nothing_to_do(self) -> bool:
        return self._decisions.nothing_to_do

    @property
    def summary(self) -> dict[str, int]:
        """How many nodes are to `run`, `skip`, and are `blocked`."""
        return self._decisions.summary

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._decisions.warnings

    @property
    def environment(self) -> dict[str, Any] | None:
        """The virtual environment that the plan is for, as `sqb plan --json` has it; None for a target without."""
        return copy.deepcopy(self._document.get("environment"))

    def to_dict(self) -> dict[str, Any]:
        """What `sqb plan --json` prints."""
        return copy.deepcopy(dict(self._document))

    def __iter__(self) -> Iterator[PlannedNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> PlannedNode:
        return find_node(name, self.nodes)

    def __str__(self) -> str:
        from sqb.api.texts import format_plan_text  # what is never shown needs no console

        return format_plan_text(self._decisions)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {action}" for action, count in self.summary.items())
        return f"<sqb.Plan of {self.target}: {counts}>"

    def _repr_html_(self) -> str:
        from sqb.api.html import format_plan_html  # only notebooks ask for it

        return format_plan_html(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """What a build did, node by node."""

    _outcome: BuildOutcome
    _document: Mapping[str, Any]
    root: Path
    # Spark's output, where it was started.
    log: Path
    # Other messages of the build: history that was repaired, notices that are not errors.
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed, is blocked or was interrupted: whether `sqb build` would exit with 0."""
        return self._outcome.result.ok

    @property
    def target(self) -> str:
        return self._outcome.result.plan.target

    @property
    def run_id(self) -> str:
        return self._outcome.result.run_id

    @property
    def nodes(self) -> tuple[NodeDone, ...]:
        """What became of every node that was selected."""
        return self._outcome.result.nodes

    @property
    def ran(self) -> tuple[NodeDone, ...]:
        return tuple(n for n in self.nodes if n.status == "ok")

    @property
    def failed(self) -> tuple[NodeDone, ...]:
        return tuple(n for n in self.nodes if n.status == "failed")

    @property
    def blocked(self) -> tuple[NodeDone, ...]:
        return tuple(n for n in self.nodes if n.status == "blocked")

    @property
    def tests(self) -> tuple[UnitTestDone, ...]:
        """The unit tests that ran before the models."""
        return self._outcome.result.tests

    @property
    def errors(self) -> tuple[SqbError, ...]:
        """The errors of nodes and of unit tests, each once."""
        errors = [n.error for n in self.failed if n.error is not None]
        errors += [t.error for t in self.tests if t.error is not None]
        return tuple({(str(e), e.hint): e for e in errors}.values())

    @property
    def interrupted(self) -> bool:
        return self._outcome.result.interrupted

    @property
    def summary(self) -> dict[str, object]:
        return self._outcome.result.summary

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._outcome.result.plan.warnings

    @property
    def environment(self) -> dict[str, Any] | None:
        """What became of the virtual environment, as `sqb build --json` has it; None for a target without."""
        return copy.deepcopy(self._document.get("environment"))

    def to_dict(self) -> dict[str, Any]:
        """What `sqb build --json` prints."""
        return copy.deepcopy(dict(self._document))

    def raise_for_failures(self) -> Result:
        """The result itself where all went well; else raises `BuildFailed`, with the errors of all nodes."""
        if self.ok:
            return self
        words = (("failed", self.failed), ("blocked", self.blocked))
        counts = [f"{len(nodes)} {word}" for word, nodes in words if nodes]
        failed_tests = sum(t.status == "failed" for t in self.tests)
        counts += [f"{failed_tests} unit tests failed"] if failed_tests else []
        counts += ["it was interrupted"] if self.interrupted else []
        lines = [
            f"{n.name}: {str(n.error or n.detail or n.reason).splitlines()[0]}" for n in (*self.failed, *self.blocked)
        ]
        raise BuildFailed(f"the build did not end well: {', '.join(counts)}", self.errors, lines)

    def __iter__(self) -> Iterator[NodeDone]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> NodeDone:
        return find_node(name, self.nodes)

    def __str__(self) -> str:
        from sqb.api.texts import format_result_text  # what is never shown needs no console

        return format_result_text(self._outcome, self.notes)

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.summary[word]} {word}" for word in ("ran", "skipped", "failed", "blocked"))
        return f"<sqb.Result {self.run_id} of {self.target}: {counts}>"

    def _repr_html_(self) -> str:
        from sqb.api.html import format_result_html  # only notebooks ask for it

        return format_result_html(self)


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows of a query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each row as a dictionary by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def __str__(self) -> str:
        from sqb.api.texts import format_rows_text  # what is never shown needs no console

        return format_rows_text(self.columns, self.rows)

    def _repr_html_(self) -> str:
        from sqb.api.html import format_table_html  # only notebooks ask for it

        return format_table_html(self.columns, self.rows)


class Difference(dict[str, Any]):
    """How two sides differ, as `sqb diff --json` prints it; a notebook shows it as tables."""

    def _repr_html_(self) -> str:
        from sqb.api.html import format_difference_html  # only notebooks ask for it

        return format_difference_html(self)
