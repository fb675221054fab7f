"""What a build did, as a value."""

from __future__ import annotations

import os
import time

from sqb.build.events import NodeDone, UnitTestDone
from sqb.light_dataclass import dataclass
from sqb.plan.model import Plan


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build did, node by node in the order of the plan."""

    plan: Plan
    run_id: str
    nodes: tuple[NodeDone, ...]
    seconds: float
    spark_started: bool
    interrupted: bool = False
    # The unit tests that ran.
    tests: tuple[UnitTestDone, ...] = ()

    @property
    def summary(self) -> dict[str, object]:
        def count(status: str) -> int:
            return sum(n.status == status for n in self.nodes)

        return {
            "ran": count("ok"),
            "skipped": count("skipped"),
            "failed": count("failed"),
            "blocked": count("blocked"),
            "rows": sum(n.rows for n in self.nodes),
            "seconds": round(self.seconds, 3),
            "spark_started": self.spark_started,
        }

    @property
    def ok(self) -> bool:
        untrue = any(t.status == "failed" for t in self.tests)
        return not self.interrupted and not untrue and all(n.status in ("ok", "skipped") for n in self.nodes)


def build_empty_result(plan: Plan, run_id: str, seconds: float, spark_started: bool = False) -> BuildResult:
    """The result of a plan in which no node is to run."""
    nodes = tuple(NodeDone(n, "skipped" if n.action == "skip" else "blocked", n.run_type, n.detail) for n in plan.nodes)
    return BuildResult(plan, run_id, nodes, seconds, spark_started=spark_started)


def generate_run_id() -> str:
    """A name for a run that sorts by time and can be part of a table's name."""
    return f"{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{os.urandom(3).hex()}"
