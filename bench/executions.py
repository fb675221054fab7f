"""What Spark did: its SQL executions, and by its own metrics what each of them read and moved between tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Execution:
    """One SQL execution: how long it took, and the rows of its scans, exchanges and writes."""

    description: str
    seconds: float
    # (what, rows): the relation of a scan, or the sort of an exchange.
    scans: tuple[tuple[str, int], ...] = ()
    exchanges: tuple[tuple[str, int], ...] = ()

    def format(self) -> str:
        """A line for people."""
        scans = ", ".join(f"{what} {rows:,}" for what, rows in self.scans)
        moved = ", ".join(f"{what} {rows:,}" for what, rows in self.exchanges)
        parts = [f"{self.seconds:6.2f} s  {self.description}"]
        return "; ".join([*parts, *([f"read {scans}"] if scans else []), *([f"moved {moved}"] if moved else [])])


def list_executions(spark: Any, last: int) -> Iterator[Execution]:
    """The last executions of a session, in the order in which they began."""
    store = spark._jsparkSession.sharedState().statusStore()
    listed = store.executionsList()
    for place in range(max(0, listed.size() - last), listed.size()):
        yield _read_execution(store, listed.apply(place))


def _read_execution(store: Any, execution: Any) -> Execution:
    metrics = store.executionMetrics(execution.executionId())
    ended = execution.completionTime()
    seconds = (ended.get().getTime() - execution.submissionTime()) / 1000 if ended.isDefined() else 0.0
    nodes = store.planGraph(execution.executionId()).allNodes()
    scans, exchanges = [], []
    for place in range(nodes.size()):
        node = nodes.apply(place)
        name = node.name()
        if "Scan" in name:
            scans.append((name.removeprefix("BatchScan ").split(" ")[0][-40:], _find_rows(node, metrics)))
        elif name.startswith(("Exchange", "BroadcastExchange")):
            exchanges.append((name, _find_rows(node, metrics)))
    words = " ".join(str(execution.description()).split())[:70]
    return Execution(words, seconds, tuple(scans), tuple(exchanges))


def _find_rows(node: Any, metrics: Any) -> int:
    """The rows that a node of a plan gave, or wrote for others to read."""
    listed = node.metrics()
    for place in range(listed.size()):
        metric = listed.apply(place)
        if metric.name() in ("number of output rows", "shuffle records written"):
            value = metrics.get(metric.accumulatorId())
            digits = str(value.get()).replace(",", "").split(" ")[0] if value.isDefined() else "0"
            return int(digits) if digits.isdigit() else 0
    return 0
