"""Who hears of a command of `sqb dbt` while it runs, and where dbt itself prints. This one hears nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from sqb.build.spark_engine import OnDemandSpark
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.events import Event
    from sqb.operations.build import BuildOutcome, ListenTo
    from sqb.operations.dbt.projects import PlannedPhase
    from sqb.operations.dbt.results import DbtPhaseResult


class DbtListener:
    """Hears what becomes of both projects, phase by phase."""

    # Where dbt prints; None for where this process prints.
    out: TextIO | None = None
    # Whether plans come with what changed in nodes.
    wants_diffs: bool = False

    def report_progress(self, text: str) -> None:
        """Hear what takes a while."""

    def report_wait(self, text: str) -> None:
        """Hear what Spark has to say before it works."""

    def report_plan(self, planned: PlannedPhase) -> None:
        """Hear what dbt is about to run."""

    def report_run(self, result: DbtPhaseResult) -> None:
        """Hear what dbt has run."""

    def report_blocked(self, blocked: Mapping[str, str]) -> None:
        """Hear which sqb models cannot be built, and why, at the beginning of a phase of sqb."""

    def report_build(self, outcome: BuildOutcome, is_last: bool, seconds: float) -> None:
        """Hear what sqb has built in a phase."""

    def create_spark(self, workspace: Workspace) -> OnDemandSpark:
        """Spark for one phase."""
        return OnDemandSpark(workspace, self.report_wait)

    @property
    def listen_to(self) -> ListenTo:
        """Who hears of the nodes of sqb."""
        return _listen_to_nothing


@contextmanager
def _listen_to_nothing(count: int, stop: threading.Event) -> Iterator[Callable[[Event], None]]:
    yield lambda event: None
