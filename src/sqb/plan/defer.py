"""What is read in another target: the models that are neither selected nor built here. Decided from values alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sqb.compiled import Node, Project
from sqb.plan.observed import Observed
from sqb.plan.values import PlannedNode


def deferred(project: Project, observed: Observed, selected: Collection[str] | None) -> Project:
    """The project with every model that is read elsewhere at the relation where it is read."""
    other = project.elsewhere
    if other is None or other.how != "defer" or selected is None:
        return project
    chosen = frozenset(selected)
    names: set[str] = set()
    here: set[str] = set()
    for name in {u for n in project if n.name in chosen for u in n.after if u in project.nodes}:
        found = {name, *_beneath(project.nodes[name], project)}
        # A view there reads what is there: all of it, or it cannot stand for the one that is missing here.
        there = not found & chosen and all(other.relations[n] in observed.relations for n in found)
        missing = there and any(observed.of(project.nodes[n]) is None for n in found)
        names |= found if missing else set()
        here |= set() if missing else found
    # What is above is not read, but by it one can tell whether what is read is up to date, there.
    above = {n for n in _above(names, project) - chosen - here if other.relations[n] in observed.relations}
    placed = names | above
    nodes = {n.name: replace(n, relation=other.relations[n.name]) if n.name in placed else n for n in project}
    return replace(project, nodes=nodes, elsewhere=replace(other, read=frozenset(names)))


def noting_reads(decided: PlannedNode, node: Node, project: Project) -> PlannedNode:
    """The decision about a node, with what it reads in another target."""
    read = project.elsewhere.read if project.elsewhere is not None else frozenset()
    found = [f"{name} from {project.nodes[name].relation}" for name in node.after if name in read]
    if not found:
        return decided
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return replace(decided, notices=(*decided.notices, f"reads {', '.join(found[:3])}{more}"))


def _above(names: Collection[str], project: Project) -> set[str]:
    """Everything that nodes are made from, directly or not."""
    found: set[str] = set()
    stack = list(names)
    while stack:
        for name in project.nodes[stack.pop()].after:
            if name in project.nodes and name not in found:
                found.add(name)
                stack.append(name)
    return found


def _beneath(node: Node, project: Project) -> Iterator[str]:
    """What stands beneath a view, down to the tables."""
    if node.kind == "view":
        for name in node.upstream:
            if name in project.nodes:
                yield name
                yield from _beneath(project.nodes[name], project)
