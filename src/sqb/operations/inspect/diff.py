"""Compares two sides of a node, or two virtual environments; nothing is written, and only rows need Spark.

The sides of a node are what is built, what a build would make of it, a snapshot, or what another target has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from sqb.build.observe.lake import observe_lake
from sqb.build.spark_engine import OnDemandSpark
from sqb.environments.diff import Comparison, Difference, build_question, compare_environments
from sqb.environments.model import Binding
from sqb.environments.selection import require_single
from sqb.environments.session import get_baseline, open_workspace_store
from sqb.errors.call import CallError
from sqb.inspect.diff import (
    DiffRequest,
    DiffResult,
    compare_snapshots,
    compare_targets,
    compare_with_query,
    compute_diff,
)
from sqb.lake.open import open_lake
from sqb.operations.inspect.build_cost import BuildCost, read_build_cost
from sqb.selection.select import Surroundings, select
from sqb.workspace import Workspace, open_workspace

_CHANGES = ("added", "removed", "changed", "data")


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """What is compared: a node with what a build would make of it, or with one of the others that are named."""

    name: str | None = None
    # Two virtual environments.
    source: str | None = None
    to: str | None = None
    # Another target.
    against: str | None = None
    # One or two snapshots of the node's table.
    snapshot: str | None = None
    to_snapshot: str | None = None
    # These columns identify rows; by the model's key where there are none.
    key: tuple[str, ...] = ()
    limit: int = 10
    # Of two environments, compare also the rows of all nodes that differ.
    rows: bool = False
    # Read what the builds of the compared side cost.
    cost: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.against is not None and self.snapshot is not None:
            raise CallError("--against and --snapshot are two comparisons", hint="give one of them")
        if self.to_snapshot is not None and self.snapshot is None:
            raise CallError("--to-snapshot needs --snapshot", hint="--snapshot names the one to compare with")
        if self.source is None and self.to is None:
            if self.name is None:
                raise CallError(
                    "a diff is of one node", hint="name it, or two virtual environments with --from and --to"
                )
        elif self.source is None or self.against is not None or self.snapshot is not None:
            raise CallError(
                "--from and --to compare two virtual environments",
                hint="give --from, or --against or --snapshot for what they compare",
            )


@dataclass(frozen=True, slots=True)
class NodeDiff:
    """How two sides of a node differ."""

    target: str
    result: DiffResult
    seconds: float
    cost: BuildCost | None = None

    @property
    def differs(self) -> bool:
        return not self.result.same

    def to_data(self) -> dict[str, Any]:
        """What `sqb diff NAME --json` prints."""
        return {"target": self.target, **self.result.to_data(), **_encode_cost(self.cost)}


@dataclass(frozen=True, slots=True)
class EnvironmentDiff:
    """How two environments differ, in all nodes."""

    comparison: Comparison
    seconds: float = 0.0
    # By node, where rows were compared: not of nodes that one side lacks, nor where both show the same snapshot.
    rows: Mapping[str, DiffResult] = field(default_factory=dict)
    cost: BuildCost | None = None

    @property
    def differs(self) -> bool:
        return bool(self.comparison.differences)

    def to_data(self) -> dict[str, Any]:
        """What `sqb diff --from --to --json` prints."""
        comparison = self.comparison
        counts = {what: sum(d.change == what for d in comparison.differences) for what in _CHANGES}
        return {
            "from": comparison.source,
            "to": comparison.target,
            "same": not comparison.differences,
            "nodes": [_encode_difference(d, comparison, self.rows.get(d.name)) for d in comparison.differences],
            "summary": {**counts, "same": comparison.unchanged},
            **_encode_cost(self.cost),
        }


@dataclass(frozen=True, slots=True)
class EnvironmentNodeDiff:
    """How one node differs between two environments; `rows` is None where no rows had to be compared."""

    comparison: Comparison
    difference: Difference | None
    rows: DiffResult | None
    seconds: float = 0.0
    cost: BuildCost | None = None

    @property
    def differs(self) -> bool:
        # Two versions may well have the same rows.
        return self.difference is not None and (self.rows is None or not self.rows.same)

    def to_data(self) -> dict[str, Any]:
        """What `sqb diff NAME --from --to --json` prints."""
        comparison, difference = self.comparison, self.difference
        data: dict[str, Any] = {"from": comparison.source, "to": comparison.target, "same": difference is None}
        if difference is not None:
            data |= _encode_difference(difference, comparison, self.rows)
        return data | _encode_cost(self.cost)


def diff(
    workspace: Workspace, options: DiffOptions, spark: OnDemandSpark
) -> NodeDiff | EnvironmentDiff | EnvironmentNodeDiff:
    """Compare two sides of a node, or two environments; nothing is written. `spark` is stopped."""
    started_at = time.monotonic()
    try:
        if options.source is not None:
            return _diff_environments(workspace, options, spark)
        request = _build_request(workspace, options)
        result = compute_diff(request, spark.session(), options.limit, workspace)
    finally:
        spark.stop()
    cost = read_build_cost(workspace, node=result.question.node.name) if options.cost else None
    return NodeDiff(workspace.project.target, result, time.monotonic() - started_at, cost)


def _build_request(workspace: Workspace, options: DiffOptions) -> DiffRequest:
    node = workspace.project.nodes[_select_node(workspace, options.name or "")]
    if options.against is not None:
        other = open_workspace(workspace.root, options.against, workspace.variables)
        return compare_targets(workspace, other, node, options.key)
    lake = open_lake(workspace)
    seen = observe_lake(workspace, lake)
    if options.snapshot is not None:
        return compare_snapshots(workspace, lake, seen, node, options.snapshot, options.to_snapshot, options.key)
    return compare_with_query(workspace, lake, seen, node, options.key)


def _select_node(workspace: Workspace, name: str) -> str:
    project = workspace.project
    names = select(project.nodes, Surroundings(tuple(project.externals)), (name,)).names
    return require_single(name, [n for n in project.nodes if n in names])


def _diff_environments(
    workspace: Workspace, options: DiffOptions, spark: OnDemandSpark
) -> EnvironmentDiff | EnvironmentNodeDiff:
    """Compare an environment with another one, by default with the baseline."""
    started_at = time.monotonic()
    source, to = options.source or "", options.to if options.to is not None else get_baseline(workspace)
    with closing(open_workspace_store(workspace)) as store:
        comparison = compare_environments(workspace, store, open_lake(workspace), source, to, options.name)
    cost = read_build_cost(workspace, source) if options.cost and comparison.differences else None
    if options.name is None:
        rows = _compare_all_rows(workspace, comparison, options, spark) if options.rows else {}
        return EnvironmentDiff(comparison, time.monotonic() - started_at, rows, cost)
    difference = comparison.differences[0] if comparison.differences else None
    compared = None
    if difference is not None and _has_rows_on_both_sides(difference):
        question = build_question(workspace, comparison, difference, options.key)
        compared = compute_diff(question, spark.session(), options.limit, workspace)
    return EnvironmentNodeDiff(comparison, difference, compared, time.monotonic() - started_at, cost)


def _compare_all_rows(
    workspace: Workspace, comparison: Comparison, options: DiffOptions, spark: OnDemandSpark
) -> dict[str, DiffResult]:
    """How the rows of all nodes differ that both environments have; Spark starts only where snapshots differ."""
    rows: dict[str, DiffResult] = {}
    for difference in comparison.differences:
        if _has_rows_on_both_sides(difference) and not difference.has_same_snapshot:
            question = build_question(workspace, comparison, difference, options.key)
            rows[difference.name] = compute_diff(question, spark.session(), options.limit, workspace)
    return rows


def _has_rows_on_both_sides(difference: Difference) -> bool:
    return difference.before is not None and difference.now is not None and difference.now.relation is not None


def _encode_difference(difference: Difference, comparison: Comparison, rows: DiffResult | None) -> dict[str, Any]:
    """One node that differs, as data; `before` is what the target shows, `after` what it would show."""
    data = {
        "name": difference.name,
        "type": difference.shown.type,
        "kind": difference.shown.kind,
        "change": difference.change,
        "reason": str(difference.reason) if difference.reason is not None else None,
        "through": list(difference.through),
        "before": _encode_binding(difference.before, comparison),
        "after": _encode_binding(difference.now, comparison),
        "columns": _encode_columns(difference),
    }
    return data | _encode_rows(data, rows) if rows is not None else data


def _encode_rows(node: dict[str, Any], rows: DiffResult) -> dict[str, Any]:
    """How the rows of a node differ, as data."""
    document = rows.to_data()
    samples = document["samples"]
    if samples is not None:
        for row in samples["changed"]:
            row["changes"] = {c: {"before": v["from"], "after": v["to"]} for c, v in row["changes"].items()}
    counted = {"before": node["before"] | {"rows": rows.before.rows}, "after": node["after"] | {"rows": rows.now.rows}}
    return counted | {key: document[key] for key in ("same", "compared", "key", "rows", "samples", "notes")}


def _encode_cost(cost: BuildCost | None) -> dict[str, Any]:
    return {"build": cost.to_data()} if cost is not None else {}


def _encode_binding(binding: Binding | None, comparison: Comparison) -> dict[str, Any] | None:
    if binding is None:
        return None
    return {
        "version": binding.version_hash,
        "relation": str(binding.relation) if binding.relation is not None else None,
        "snapshot_id": binding.snapshot_id,
        "rows": comparison.get_rows(binding),
    }


def _encode_columns(difference: Difference) -> dict[str, Any]:
    both = [c for c in difference.columns if c.before is not None and c.now is not None]
    return {
        "added": [{"name": c.name, "type": c.now} for c in difference.columns if c.before is None],
        "removed": [{"name": c.name, "type": c.before} for c in difference.columns if c.now is None],
        "retyped": [{"name": c.name, "before": c.before, "after": c.now} for c in both],
    }
