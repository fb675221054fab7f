"""What started a cascade: behind every node that runs because of something above it, the nodes and sources that did.

Pure: works on a plan whose decisions have been made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqb.compiled import Node, Project
from sqb.plan.above import makes_rows
from sqb.plan.observed import Input, Observed, changed_inputs, inputs_of, inputs_of_names, quiet_lookups
from sqb.plan.values import Plan, PlannedNode, Reason, Root

_CASCADED = (
    Reason.SCHEMA_CHANGED,
    Reason.SOURCE_CHANGED,
    Reason.UPSTREAM_CHANGED,
    Reason.CHECKS_CHANGED,
    Reason.UPSTREAM_BLOCKED,
)
# What stands above was built by an earlier run that this node was not part of.
BUILT_SINCE = "Built since"
VIEW_CHANGED = "View changed"


def with_roots(plan: Plan, project: Project, observed: Observed) -> Plan:
    """The plan, in which every node that something above made run (or blocked) names what started it."""
    if not any(node.reason in _CASCADED for node in plan.nodes):
        return plan
    told: dict[str, PlannedNode] = {}
    for planned in plan.nodes:
        if planned.action == "skip" or planned.reason not in _CASCADED:
            told[planned.name] = planned
            continue
        node = project.nodes.get(planned.name)
        roots = _roots(node, planned, project, observed, told) if node is not None else _above_python(planned, told)
        found = {root.name: root for root in roots}
        told[planned.name] = replace(planned, root=tuple(found[name] for name in sorted(found)))
    return replace(plan, nodes=tuple(told.values()))


def _above_python(planned: PlannedNode, told: Mapping[str, PlannedNode]) -> Iterator[Root]:
    """What is behind a Python node that waits for others, or is blocked with them."""
    for name in planned.upstream:
        above = told.get(name)
        if above is not None and (above.action == "blocked" or makes_rows(above)):
            yield from above.root or (Root(above.name, str(above.reason)),)


def _roots(
    node: Node, planned: PlannedNode, project: Project, observed: Observed, told: Mapping[str, PlannedNode]
) -> Iterator[Root]:
    if planned.reason is Reason.UPSTREAM_BLOCKED:
        above = (told[name] for name in planned.upstream if name in told)
        for one in above:
            if one.action == "blocked":
                yield from one.root or (Root(one.name, str(one.reason)),)
        return
    if planned.reason is Reason.CHECKS_CHANGED:
        names = node.after if node.kind == "view" else node.watches
        inputs = inputs_of_names(names, project) if planned.pending else ()
        yield from (root for i in inputs for root in _behind_running(i, told, project))
        return
    yield from _of_changed(node, planned.reason, project, observed, told)


def _of_changed(
    node: Node, reason: Reason, project: Project, observed: Observed, told: Mapping[str, PlannedNode]
) -> Iterator[Root]:
    """What is behind the inputs that are not as they were, and behind those that are about to be made again."""
    standing = observed.of(node)
    changed = changed_inputs(node, project, standing, observed.relations) if standing is not None else ()
    yield from (Root(name, str(Reason.SOURCE_CHANGED)) for name in node.upstream if name in observed.opaque)
    inputs = [i for i in inputs_of(node, project) if i.name not in quiet_lookups(node)]
    running = {i.key for i in inputs if makes_rows(told.get(project.loaders.get(i.name, i.name)))}
    for one in changed:
        if one.external and standing is not None and one.key in standing.sources:
            other_columns = reason is Reason.SCHEMA_CHANGED
            yield Root(one.name, str(reason if other_columns else Reason.SOURCE_CHANGED))
        elif one.key not in running and not one.external:
            yield Root(one.name, VIEW_CHANGED if one.view else BUILT_SINCE)
    for one in inputs:
        yield from _behind_running(one, told, project)


def _behind_running(one: Input, told: Mapping[str, PlannedNode], project: Project) -> Iterator[Root]:
    above = told.get(project.loaders.get(one.name, one.name))
    if above is not None and makes_rows(above):
        yield from above.root or (Root(above.name, str(above.reason)),)
