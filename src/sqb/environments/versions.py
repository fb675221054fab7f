"""Which version each node of a project is to have, and the project with its nodes at the tables of these versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb import identity
from sqb.compiled import Hook, Node, Project
from sqb.environments.naming import PHYSICAL, logical_of, physical_relation
from sqb.environments.port import VersionKey
from sqb.environments.values import Binding, Ref, Version
from sqb.names import Relation
from sqb.project.session_settings import other_than_default


def expected_versions(project: Project, kept: Mapping[str, Binding] | None = None) -> dict[str, str]:
    """The version that each node is to have: of its definition, of all above it, and of the sources that it reads.

    `kept` are bound versions of nodes whose definitions and sources are the same, though their hashes were made by
    other code: they stay what they are as long as everything above them does.
    """
    found: dict[str, str] = {}
    for node in project:
        above = {u: found[u] for u in node.upstream if u in found}
        bound = (kept or {}).get(node.name)
        if bound is not None and dict(bound.upstream) == above:
            found[node.name] = bound.version_hash
        else:
            session = settings_token(node, project)
            own = (sources_token(node, project), *([f"settings {session}"] if session else []))
            parts = (*own, *(f"{u} {version}" for u, version in above.items()))
            found[node.name] = identity.version_hash(node.local_hash, parts)
    return found


def sources_token(node: Node, project: Project) -> str:
    """What the sources are that a node reads: which tables, and how they are declared; "" when it reads none."""
    names = sorted(u for u in node.upstream if u in project.externals)
    declared = (project.sources[u].token if u in project.sources else "" for u in names)
    parts = [f"{u} {project.externals[u].relation} {token}" for u, token in zip(names, declared, strict=True)]
    return identity.digest("sources", *parts) if parts else ""


def settings_token(node: Node, project: Project) -> str:
    """What the sessions are that make a node's rows, "" where the project says nothing about it."""
    others = other_than_default(project.session) if node.type == "model" else {}
    return identity.digest("settings", *(f"{key}={value}" for key, value in sorted(others.items()))) if others else ""


def physical_project(project: Project, kept: Mapping[str, Binding] | None = None) -> Project:
    """The project as it is built into environments: every node at the table of its version."""
    versions = expected_versions(project, kept)
    moved = {n.relation: physical_relation(n.relation, versions[n.name]) for n in project}
    nodes = {n.name: _moved(n, versions[n.name], moved) for n in project}
    python = {name: replace(p, schema=f"{p.schema}__{PHYSICAL}") for name, p in project.python.items()}
    tests = tuple(
        t if t.variant is None else replace(t, variant=_moved(t.variant, versions[t.model], moved))
        for t in project.tests
    )
    schemas = tuple(f"{schema}__{PHYSICAL}" for schema in project.schemas)
    return replace(project, nodes=nodes, python=python, tests=tests, schemas=schemas, elsewhere=None)


def kept_versions(
    project: Project, refs: Mapping[str, Ref], versions: Mapping[VersionKey, Version]
) -> dict[str, Binding]:
    """Bound versions that are the project's own, once the definitions behind them are read with today's code."""
    from sqb.build.observe import renewed_hash  # loads the parser, which nothing unchanged needs
    from sqb.sql.canonical import canonical_stamp

    stamp, found = canonical_stamp(), {}
    if all(version.canonical == stamp for version in versions.values()):
        return {}
    for node in project:
        bound = refs[node.name].binding if node.name in refs else None
        known = versions.get((node.name, bound.version_hash)) if bound is not None else None
        if bound is None or known is None or known.sources != sources_token(node, project):
            continue
        if known.settings not in (None, settings_token(node, project)):
            continue
        old = known.canonical != stamp and node.type == "model"
        local = (renewed_hash(known.definition) or known.local_hash) if old else known.local_hash
        if local == node.local_hash:
            found[node.name] = bound
    return found


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
