"""What started a cascade: behind every node that runs because of something above it, the nodes and sources that did.

Pure: works on a plan whose decisions have been made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqb.compile.model import Node, Project
from sqb.plan.model import Plan, PlannedNode, Reason, Root, is_producing_rows
from sqb.plan.observed import (
    Input,
    Observed,
    list_changed_inputs,
    list_inputs,
    list_inputs_of_names,
    list_quiet_lookups,
)

_CASCADED = (
    Reason.SCHEMA_CHANGED,
    Reason.SOURCE_CHANGED,
    Reason.UPSTREAM_CHANGED,
    Reason.CHECKS_CHANGED,
    Reason.UPSTREAM_BLOCKED,
)
# The upstream node was built by an earlier run that this node was not part of.
BUILT_SINCE = "Built since"
VIEW_CHANGED = "View changed"


def add_root_causes(plan: Plan, project: Project, observed: Observed) -> Plan:
    """The plan, in which every node that something above made run (or blocked) names what started it."""
    decided: dict[str, PlannedNode] = {}
    for planned in plan.nodes:
        if planned.action == "skip" or planned.reason not in _CASCADED:
            decided[planned.name] = planned
            continue
        node = project.nodes.get(planned.name)
        roots = (
            _iter_roots(node, planned, project, observed, decided)
            if node is not None
            else _iter_python_roots(planned, decided)
        )
        roots_by_name = {root.name: root for root in roots}
        decided[planned.name] = replace(planned, root=tuple(roots_by_name[name] for name in sorted(roots_by_name)))
    return replace(plan, nodes=tuple(decided.values()))


def _iter_python_roots(planned: PlannedNode, decided: Mapping[str, PlannedNode]) -> Iterator[Root]:
    """What is behind a Python node that waits for others, or is blocked with them."""
    for name in planned.upstream:
        above = decided.get(name)
        if above is not None and (above.action == "blocked" or is_producing_rows(above)):
            yield from above.root or (Root(above.name, str(above.reason)),)


def _iter_roots(
    node: Node, planned: PlannedNode, project: Project, observed: Observed, decided: Mapping[str, PlannedNode]
) -> Iterator[Root]:
    if planned.reason is Reason.UPSTREAM_BLOCKED:
        above = (decided[name] for name in planned.upstream if name in decided)
        for upstream_name in above:
            if upstream_name.action == "blocked":
                yield from upstream_name.root or (Root(upstream_name.name, str(upstream_name.reason)),)
        return
    if planned.reason is Reason.CHECKS_CHANGED:
        names = node.after if node.kind == "view" else node.watches
        inputs = list_inputs_of_names(names, project) if planned.pending else ()
        yield from (root for i in inputs for root in _iter_running_roots(i, decided, project))
        return
    yield from _iter_changed_roots(node, planned.reason, project, observed, decided)


def _iter_changed_roots(
    node: Node, reason: Reason, project: Project, observed: Observed, decided: Mapping[str, PlannedNode]
) -> Iterator[Root]:
    """What is behind the inputs that are not as they were, and behind those that are about to be made again."""
    current = observed.get(node)
    changed = list_changed_inputs(node, project, current, observed.relations) if current is not None else ()
    yield from (Root(name, str(Reason.SOURCE_CHANGED)) for name in node.upstream if name in observed.opaque)
    inputs = [i for i in list_inputs(node, project) if i.name not in list_quiet_lookups(node)]
    running = {i.key for i in inputs if is_producing_rows(decided.get(project.loaders.get(i.name, i.name)))}
    for upstream_input in changed:
        if upstream_input.external and current is not None and upstream_input.key in current.sources:
            other_columns = reason is Reason.SCHEMA_CHANGED
            yield Root(upstream_input.name, str(reason if other_columns else Reason.SOURCE_CHANGED))
        elif upstream_input.key not in running and not upstream_input.external:
            yield Root(upstream_input.name, VIEW_CHANGED if upstream_input.view else BUILT_SINCE)
    for upstream_input in inputs:
        yield from _iter_running_roots(upstream_input, decided, project)


def _iter_running_roots(upstream_input: Input, decided: Mapping[str, PlannedNode], project: Project) -> Iterator[Root]:
    above = decided.get(project.loaders.get(upstream_input.name, upstream_input.name))
    if above is not None and is_producing_rows(above):
        yield from above.root or (Root(above.name, str(above.reason)),)
