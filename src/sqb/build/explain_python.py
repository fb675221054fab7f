"""One Python node of a plan in full: what it was at its last run, what it is now, and what it depends on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from sqb.build.explain import Compared, ComparedInput, Explanation, neighbour, of_result, said, short_version, why_input
from sqb.build.observe import Look
from sqb.compiled import Project
from sqb.compiled_python import PythonNode
from sqb.lake.iceberg import IcebergLake
from sqb.plan.above import makes_rows
from sqb.plan.observed import version_of
from sqb.plan.python_nodes import PythonSeen, changed_tables, decide_hook, python_above, tables_above
from sqb.plan.values import Plan, PlannedNode, Reason

_SHORT = 12


def explain_hook(
    name: str, plan: Plan, project: Project, lake: IcebergLake, seen: Look, diff_of: Callable[[str, str], str]
) -> Explanation:
    """What a hook is, held against what it was when it last ran; it stands beside the graph, and so in no plan."""
    node = project.python[name]
    planned = decide_hook(node, seen.observed, runs=not plan.nothing_to_do)
    changed = planned.reason in (Reason.CODE_CHANGED, Reason.CONFIG_CHANGED)
    diff = diff_of(_stored(node, lake), node.definition) if changed else ""
    return _explained(node, planned, plan, project, lake, seen, diff)


def explain_python(name: str, plan: Plan, project: Project, lake: IcebergLake, seen: Look, diff: str) -> Explanation:
    """Everything that the decision about one Python node rests on."""
    planned = next(n for n in plan.nodes if n.name == name)
    return _explained(project.python[name], planned, plan, project, lake, seen, diff)


def _explained(
    node: PythonNode, planned: PlannedNode, plan: Plan, project: Project, lake: IcebergLake, seen: Look, diff: str
) -> Explanation:
    name, last = node.name, seen.observed.python.get(node.name)
    results = lake.node_results([node.schema], node_name=name, limit=20)
    edges = project.edges()
    return Explanation(
        planned=planned,
        file=str(node.at),
        hashes=tuple(_hashes(node, last)),
        settings=tuple(_arguments(node, lake)) if last is not None else (),
        inputs=(*_tables(node, last, project, seen, plan), *_nodes(node, last, project, seen)),
        diff=diff,
        work=None,
        checks=(),
        checks_passed="",
        last_run=next((of_result(r) for r in results if r.node_type == node.type), None),
        upstream=tuple(neighbour(n, plan, project) for n in edges.get(name, ())),
        downstream=tuple(
            neighbour(n, plan, project) for n, above in edges.items() if name in above or node.fills in above
        ),
    )


def _hashes(node: PythonNode, last: PythonSeen | None) -> Iterator[Compared]:
    """Its source, its modules and its arguments, as they were and as they are."""
    then = last or PythonSeen("", "")
    yield Compared("source", then.source_hash[:_SHORT], node.source_hash[:_SHORT])
    for file in sorted({*then.dependencies, *node.dependencies}):
        yield Compared(file, then.dependencies.get(file, "")[:_SHORT], node.dependencies.get(file, "")[:_SHORT])
    yield Compared("config", then.config_hash[:_SHORT], node.config_hash[:_SHORT])
    yield Compared("identity", then.local_hash[:_SHORT], node.local_hash[:_SHORT])


def _stored(node: PythonNode, lake: IcebergLake) -> str:
    """The definition of a node as it last ran."""
    rows = lake.fingerprints([node.schema]).values()
    return next((r.definition for r in rows if (r.node_name, r.node_type) == (node.name, node.type)), "")


def _arguments(node: PythonNode, lake: IcebergLake) -> Iterator[Compared]:
    then, now = ((json.loads(text or "{}").get("config") or {}) for text in (_stored(node, lake), node.definition))
    for key in sorted({*then, *now}):
        if then.get(key) != now.get(key):
            yield Compared(key, said(then, key), said(now, key))


def _tables(
    node: PythonNode, last: PythonSeen | None, project: Project, seen: Look, plan: Plan
) -> Iterator[ComparedInput]:
    relations = seen.observed.relations
    moved = {i.key for i in changed_tables(node, last, project, relations)} if last is not None else set()
    running = {n.name for n in plan.nodes if makes_rows(n)}
    for found in tables_above(node, project):
        recorded = last.sources.get(found.key) if last is not None else None
        now = version_of(found, project, relations)
        same = recorded is not None and found.key not in moved
        first = project.loaders.get(found.name, found.name) if found.external else found.name
        before = f", and {'it' if first == found.name else first} runs before" if first in running else ""
        yield ComparedInput(
            found.name,
            "source" if found.external else "view" if found.view else project.nodes[found.name].type,
            short_version(recorded[0]) if recorded else None,
            short_version(now.definition or now.snapshot_id) if now is not None else None,
            same,
            why_input(recorded, now, same, False) + before,
        )


def _nodes(node: PythonNode, last: PythonSeen | None, project: Project, seen: Look) -> Iterator[ComparedInput]:
    """The Python nodes that it depends on: their runs are what it compares."""
    for name in python_above(node, project):
        then = last.runs.get(name, "") if last is not None else ""
        above = seen.observed.python.get(name)
        now = above.run_id if above is not None else ""
        yield ComparedInput(
            name,
            project.python[name].type,
            f"run {then}" if then else None,
            f"run {now}" if now else None,
            then == now,
            _why_run(then, now),
        )


def _why_run(then: str, now: str) -> str:
    if not now:
        return "has not run"
    return "not seen before" if not then else "the same run" if then == now else "has run since"
