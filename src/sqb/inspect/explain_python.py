"""One Python node of a plan in full: what it was at its last run, what it is now, and what it depends on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from sqb.build.observe.lake import LakeState
from sqb.compile.model import Project
from sqb.compile.python.model import PythonNode
from sqb.inspect.explain import (
    Comparison,
    Explanation,
    InputComparison,
    build_neighbour,
    encode_result,
    explain_input,
    format_setting,
    shorten_version,
)
from sqb.lake.port import Lake
from sqb.lake.state.rows import STAGED
from sqb.plan.model import Plan, PlannedNode, Reason, is_producing_rows
from sqb.plan.observed import find_version
from sqb.plan.python_nodes import LastPythonRun, decide_hook, iter_python_above, list_changed_tables, list_tables_above

_SHORT = 12


def explain_hook(
    name: str,
    plan: Plan,
    project: Project,
    lake: Lake,
    lake_state: LakeState,
    diff_of: Callable[[str, str], str],
) -> Explanation:
    """What a hook is, held against what it was when it last ran; a hook is not part of the graph, and so of no plan."""
    node = project.python[name]
    planned = decide_hook(node, lake_state.observed, runs=not plan.nothing_to_do)
    changed = planned.reason in (Reason.CODE_CHANGED, Reason.CONFIG_CHANGED)
    diff = diff_of(_read_stored_definition(node, lake), node.definition) if changed else ""
    return _build_explanation(node, planned, plan, project, lake, lake_state, diff)


def explain_python(
    name: str, plan: Plan, project: Project, lake: Lake, lake_state: LakeState, diff: str
) -> Explanation:
    """Everything that the decision about one Python node rests on."""
    planned = next(n for n in plan.nodes if n.name == name)
    return _build_explanation(project.python[name], planned, plan, project, lake, lake_state, diff)


def _build_explanation(
    node: PythonNode,
    planned: PlannedNode,
    plan: Plan,
    project: Project,
    lake: Lake,
    lake_state: LakeState,
    diff: str,
) -> Explanation:
    name, last = node.name, lake_state.observed.python.get(node.name)
    results = lake.state.read_node_results([node.schema], node_name=name, limit=20)
    edges = project.list_edges()
    return Explanation(
        planned=planned,
        file=str(node.at),
        hashes=tuple(_iter_hash_comparisons(node, last)),
        settings=tuple(_iter_argument_comparisons(node, lake)) if last is not None else (),
        inputs=(
            *_iter_table_comparisons(node, last, project, lake_state, plan),
            *_iter_node_comparisons(node, last, project, lake_state),
        ),
        diff=diff,
        work=None,
        checks=(),
        checks_passed="",
        last_run=next((encode_result(r) for r in results if r.node_type == node.type and r.status != STAGED), None),
        upstream=tuple(build_neighbour(n, plan, project) for n in edges.get(name, ())),
        downstream=tuple(
            build_neighbour(n, plan, project) for n, above in edges.items() if name in above or node.fills in above
        ),
    )


def _iter_hash_comparisons(node: PythonNode, last: LastPythonRun | None) -> Iterator[Comparison]:
    """Its source, its modules and its arguments, as they were and as they are."""
    then = last or LastPythonRun("", "")
    yield Comparison("source", then.source_hash[:_SHORT], node.source_hash[:_SHORT])
    for file in sorted({*then.dependencies, *node.dependencies}):
        yield Comparison(file, then.dependencies.get(file, "")[:_SHORT], node.dependencies.get(file, "")[:_SHORT])
    yield Comparison("config", then.config_hash[:_SHORT], node.config_hash[:_SHORT])
    yield Comparison("identity", then.local_hash[:_SHORT], node.local_hash[:_SHORT])


def _read_stored_definition(node: PythonNode, lake: Lake) -> str:
    """The definition of a node as it last ran."""
    rows = lake.state.read_fingerprints([node.schema]).values()
    return next((r.definition for r in rows if (r.node_name, r.node_type) == (node.name, node.type)), "")


def _iter_argument_comparisons(node: PythonNode, lake: Lake) -> Iterator[Comparison]:
    then, now = (
        (json.loads(text or "{}").get("config") or {})
        for text in (_read_stored_definition(node, lake), node.definition)
    )
    for key in sorted({*then, *now}):
        if then.get(key) != now.get(key):
            yield Comparison(key, format_setting(then, key), format_setting(now, key))


def _iter_table_comparisons(
    node: PythonNode, last: LastPythonRun | None, project: Project, lake_state: LakeState, plan: Plan
) -> Iterator[InputComparison]:
    """The tables that a Python node reads: the versions of its last run beside the current ones."""
    relations = lake_state.observed.relations
    moved = {i.key for i in list_changed_tables(node, last, project, relations)} if last is not None else set()
    running = {n.name for n in plan.nodes if is_producing_rows(n)}
    for upstream_input in list_tables_above(node, project):
        recorded = last.sources.get(upstream_input.key) if last is not None else None
        now = find_version(upstream_input, project, relations)
        same = recorded is not None and upstream_input.key not in moved
        first = (
            project.loaders.get(upstream_input.name, upstream_input.name)
            if upstream_input.external
            else upstream_input.name
        )
        before = f", and {'it' if first == upstream_input.name else first} runs before" if first in running else ""
        yield InputComparison(
            upstream_input.name,
            "source"
            if upstream_input.external
            else "view"
            if upstream_input.view
            else project.nodes[upstream_input.name].type,
            shorten_version(recorded.definition or recorded.snapshot_id) if recorded is not None else None,
            shorten_version(now.definition or now.snapshot_id) if now is not None else None,
            same,
            explain_input(recorded, now, same, False) + before,
        )


def _iter_node_comparisons(
    node: PythonNode, last: LastPythonRun | None, project: Project, lake_state: LakeState
) -> Iterator[InputComparison]:
    """The Python nodes that it depends on: their runs are what it compares."""
    for name in iter_python_above(node, project):
        then = last.runs.get(name, "") if last is not None else ""
        above = lake_state.observed.python.get(name)
        now = above.run_id if above is not None else ""
        yield InputComparison(
            name,
            project.python[name].type,
            f"run {then}" if then else None,
            f"run {now}" if now else None,
            then == now,
            _explain_run(then, now),
        )


def _explain_run(then: str, now: str) -> str:
    if not now:
        return "has not run"
    return "not seen before" if not then else "the same run" if then == now else "has run since"
