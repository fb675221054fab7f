"""Which version each node of a project is to have, and the project with its nodes at the tables of these versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb import identity
from sqb.compiled import Hook, Node, Project
from sqb.environments.naming import PHYSICAL, logical_of, physical_relation
from sqb.names import Relation


def expected_versions(project: Project) -> dict[str, str]:
    """The version that each node is to have: of its definition, of all above it, and of the tables that sources are."""
    found: dict[str, str] = {}
    for node in project:
        above = [found[u] for u in node.upstream if u in found]
        sources = [f"{u} {project.externals[u].relation}" for u in node.upstream if u in project.externals]
        found[node.name] = identity.version_hash(node.version_hash, (*above, *sources))
    return found


def physical_project(project: Project) -> Project:
    """The project as it is built into environments: every node at the table of its version."""
    versions = expected_versions(project)
    moved = {n.relation: physical_relation(n.relation, versions[n.name]) for n in project}
    nodes = {n.name: _moved(n, versions[n.name], moved) for n in project}
    python = {name: replace(p, schema=f"{p.schema}__{PHYSICAL}") for name, p in project.python.items()}
    tests = tuple(
        t if t.variant is None else replace(t, variant=_moved(t.variant, versions[t.model], moved))
        for t in project.tests
    )
    schemas = tuple(f"{schema}__{PHYSICAL}" for schema in project.schemas)
    return replace(project, nodes=nodes, python=python, tests=tests, schemas=schemas, elsewhere=None)


def _moved(node: Node, version: str, moved: Mapping[Relation, Relation]) -> Node:
    hooks = tuple(_moved_hook(h, moved) for h in node.hooks)
    return replace(node, relation=moved[node.relation], version_hash=version, hooks=hooks)


def _moved_hook(hook: Hook, moved: Mapping[Relation, Relation]) -> Hook:
    return replace(hook, relations=tuple(moved.get(r, r) for r in hook.relations))


def todays_name(key: str, project: Project, by_logical: Mapping[Relation, str]) -> str:
    """The name of an input as today's version of the node has it, for one that was written with another version's."""
    logical = logical_of(Relation.parse(key)) if " " not in key else None
    name = by_logical.get(logical) if logical is not None else None
    return str(project.nodes[name].relation) if name is not None else key
