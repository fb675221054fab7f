"""What is read in another target: the models that are neither selected nor built here. Decided from values alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sqb.compile.model import Node, Project
from sqb.plan.model import PlannedNode
from sqb.plan.observed import Observed


def defer_project(project: Project, observed: Observed, selected: Collection[str] | None) -> Project:
    """The project with every model that is read elsewhere at the relation where it is read."""
    other = project.other_target
    if other is None or other.how != "defer" or selected is None:
        return project
    chosen = frozenset(selected)
    names: set[str] = set()
    here: set[str] = set()
    for name in {u for n in project if n.name in chosen for u in n.after if u in project.nodes}:
        relations_read = {name, *_iter_tables_beneath(project.nodes[name], project)}
        # A view there reads what is there: all of it, or it cannot stand for the one that is missing here.
        exists_elsewhere = not relations_read & chosen and all(
            other.relations[n] in observed.relations for n in relations_read
        )
        missing = exists_elsewhere and any(observed.get(project.nodes[n]) is None for n in relations_read)
        names |= relations_read if missing else set()
        here |= set() if missing else relations_read
    # What is above is not read, but by it one can tell whether what is read is up to date, there.
    above = {n for n in _list_nodes_above(names, project) - chosen - here if other.relations[n] in observed.relations}
    placed = names | above
    nodes = {n.name: replace(n, relation=other.relations[n.name]) if n.name in placed else n for n in project}
    return replace(project, nodes=nodes, other_target=replace(other, read=frozenset(names)))


def add_deferred_reads(decided: PlannedNode, node: Node, project: Project) -> PlannedNode:
    """The decision about a node, with what it reads in another target."""
    read = project.other_target.read if project.other_target is not None else frozenset()
    texts = [f"{name} from {project.nodes[name].relation}" for name in node.after if name in read]
    if not texts:
        return decided
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return replace(decided, notices=(*decided.notices, f"reads {', '.join(texts[:3])}{more}"))


def _list_nodes_above(names: Collection[str], project: Project) -> set[str]:
    """Everything that nodes are made from, directly or not."""
    names_above: set[str] = set()
    stack = list(names)
    while stack:
        for name in project.nodes[stack.pop()].after:
            if name in project.nodes and name not in names_above:
                names_above.add(name)
                stack.append(name)
    return names_above


def _iter_tables_beneath(node: Node, project: Project) -> Iterator[str]:
    """The relations beneath a view, down to the tables."""
    if node.kind == "view":
        for name in node.upstream:
            if name in project.nodes:
                yield name
                yield from _iter_tables_beneath(project.nodes[name], project)
