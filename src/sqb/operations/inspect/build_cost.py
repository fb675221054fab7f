"""What building something cost, from the history of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqb.operations.inspect.history import HistoryOptions, encode_result, read_environment, read_history
from sqb.workspace import Workspace

# Enough for all builds of a branch; older ones are not counted.
_MAX_RUNS = 1000


@dataclass(frozen=True, slots=True)
class BuildCost:
    """The last run that built something, and how many such runs there were."""

    run_id: str
    # From the beginning of the build to the end of its last node; the nodes alone where that is not recorded.
    seconds: float
    # The sum over nodes, which run beside each other.
    node_seconds: float
    # How long the start of Spark took; None where the build needed none, or used one that was running.
    spark_seconds: float | None
    rows: int
    ran: int
    # None in a run of before this was recorded.
    skipped: int | None
    failed: int
    runs: int = 1
    all_seconds: float = 0.0

    def to_data(self) -> dict[str, Any]:
        """The cost in documents."""
        return {name: getattr(self, name) for name in self.__slots__}


def read_build_cost(workspace: Workspace, environment: str | None = None, node: str | None = None) -> BuildCost | None:
    """What the builds of an environment cost, or those that built one node; None where no run is recorded."""
    history = read_history(workspace, HistoryOptions(node=node, limit=_MAX_RUNS, virtual_env=environment))
    runs = history.runs
    if environment is not None:
        runs = {r: rows for r, rows in runs.items() if any(read_environment(row) == environment for row in rows)}
    return sum_costs({r: [encode_result(row) for row in rows] for r, rows in runs.items()})


def sum_costs(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> BuildCost | None:
    """The cost of the newest of these runs, which come first, and how long all of them took."""
    if not runs:
        return None
    run_id, nodes = next(iter(runs.items()))
    run: Mapping[str, Any] = next((n["run"] for n in nodes if n.get("run")), {})
    spark = run.get("spark")
    return BuildCost(
        run_id,
        _measure_run(nodes),
        sum(n["seconds"] for n in nodes),
        spark[1] - spark[0] if spark is not None else None,
        sum(n["rows"] or 0 for n in nodes if n["status"] == "ok"),
        sum(n["status"] == "ok" for n in nodes),
        run.get("skipped"),
        sum(n["status"] == "failed" for n in nodes),
        len(runs),
        sum(map(_measure_run, runs.values())),
    )


def _measure_run(nodes: Sequence[Mapping[str, Any]]) -> float:
    """How long a run took: from its beginning to the end of the last of its nodes."""
    began = next((n["run"]["began"] for n in nodes if n.get("run")), None)
    ends = [n["span"]["ended"] for n in nodes if n.get("span")]
    if began is None or not ends:
        return float(sum(n["seconds"] for n in nodes))
    return float(max(ends) - began)
