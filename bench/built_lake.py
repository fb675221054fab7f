"""A built lake without Java: sqb's own build, in which tables are written by Arrow and views as plain metadata.

Everything but the rows is what a build on Spark leaves: commits with identities, snapshots, state tables, history. So
what planning costs on it is what planning costs. The rows are one and the same for every model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from sqb.build.context import BuildSettings
from sqb.build.kinds import registry
from sqb.build.kinds.seed import compute_content
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.publish import open_stage, publish_or_confirm
from sqb.build.node.render import render_query
from sqb.build.observe.lake import observe_lake
from sqb.build.result import BuildResult, generate_run_id
from sqb.build.scheduler import Build
from sqb.lake.commit.views import build_view_columns
from sqb.lake.open import open_lake
from sqb.lake.port import Column, ColumnState, ViewSwap
from sqb.plan.decide import make_plan
from sqb.plan.model import Options
from sqb.workspace import open_workspace

# The columns of every model of `layered.py`, in the notations of Spark and of Iceberg, and their one row.
COLUMNS = {"id": ("long", "long"), "grp": ("long", "long"), "amount": ("long", "long"), "day": ("date", "date")}


class NoSpark:
    """In the place of Spark: there to be asked, never there to run a query."""

    started = gone = False
    start_span = None

    def warm(self) -> None:
        return

    def session(self) -> None:
        return

    def cancel(self) -> None:
        return

    def loss(self) -> None:
        return None


def build_without_java(folder: Path) -> BuildResult:
    """Build the project in a folder; nodes that are up to date are skipped, as ever."""
    workspace = open_workspace(folder)
    lake = open_lake(workspace)
    seen = observe_lake(workspace, lake)
    plan = make_plan(workspace.project, seen.observed, Options())
    spark: Any = NoSpark()
    with _without_queries():
        build = Build(workspace, lake, seen, plan, spark, BuildSettings(generate_run_id(), 2), lambda event: None)
        result = build.run()
    failed = [node for node in result.nodes if node.status not in ("ok", "skipped")]
    if failed:
        raise RuntimeError(f"{failed[0].name} was not built: {failed[0].error or failed[0].detail}")
    return result


@contextmanager
def _without_queries() -> Iterator[None]:
    """Tables and views are written as below while this lasts."""
    kinds: Any = registry.KINDS
    before = dict(kinds)
    kinds.update(table=_write_table, view=_write_view)
    try:
        yield
    finally:
        kinds.update(before)


def _write_table(context: NodeContext) -> NodeOutcome:
    shape = context.build_shape(tuple(Column(name, kind) for name, (kind, _) in COLUMNS.items()))
    rows = [[1], [1], [1], [date(2026, 1, 1)]]
    with open_stage(context, shape) as stage:
        context.lake.fill(stage, rows)
        return publish_or_confirm(context, stage, 1, compute_content(rows))


def _write_view(context: NodeContext) -> NodeOutcome:
    relation = context.node.relation
    sql = render_query(context.node, context.live).sql.strip()
    columns = build_view_columns(ColumnState(n, f'"{kind}"', i) for i, (n, (_, kind)) in enumerate(COLUMNS.items()))
    properties = context.build_identity(None).to_properties()
    if context.node.description:
        properties["comment"] = context.node.description
    context.lake.ensure_schemas([relation.schema])
    before = context.lake.list_pointers().get(relation)
    swap = ViewSwap(relation, sql, columns, properties, before.location if before is not None else "")
    context.lake.swap_views([swap])
    state = context.lake.read_tables([context.lake.list_pointers()[relation]])[relation]
    return NodeOutcome(0, state.snapshot_id, state)
