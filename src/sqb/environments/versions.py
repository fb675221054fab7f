"""Which version each node of a project is to have, and the project with its nodes at the tables of these versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb import identity
from sqb.compile.model import Hook, Node, Project
from sqb.compile.source_model import list_nested_tokens
from sqb.environments.model import Binding, Ref, Version
from sqb.environments.naming import PHYSICAL, build_physical_relation, parse_logical_relation
from sqb.environments.state.store import VersionKey
from sqb.names import Relation
from sqb.project.config.session_settings import list_non_default


def compute_versions(project: Project, unchanged: Mapping[str, Binding] | None = None) -> dict[str, str]:
    """The version that each node is to have: of its definition, of all above it, and of the sources that it reads.

    `kept` are bound versions of nodes whose definitions and sources are the same, though their hashes were made by
    other code: they stay what they are as long as everything above them does.
    """
    versions: dict[str, str] = {}
    for node in project:
        above = {u: versions[u] for u in node.upstream if u in versions}
        bound = (unchanged or {}).get(node.name)
        if bound is not None and dict(bound.upstream) == above:
            versions[node.name] = bound.version_hash
        else:
            session = compute_settings_token(node, project)
            inputs = (compute_sources_token(node, project), *([f"settings {session}"] if session else []))
            parts = (*inputs, *(f"{u} {version}" for u, version in above.items()))
            versions[node.name] = identity.compute_version_hash(node.local_hash, parts)
    return versions


def compute_sources_token(node: Node, project: Project) -> str:
    """What the sources are that a node reads: which tables, and how they are declared; "" when it reads none."""
    names = sorted(u for u in node.upstream if u in project.externals)
    declared = (project.sources[u].token if u in project.sources else "" for u in names)
    parts = [f"{u} {project.externals[u].relation} {token}" for u, token in zip(names, declared, strict=True)]
    parts += list_nested_tokens(names, project.sources)
    return identity.digest("sources", *parts) if parts else ""


def compute_settings_token(node: Node, project: Project) -> str:
    """What the sessions are that make a node's rows, "" where the project says nothing about it."""
    others = list_non_default(project.session) if node.type == "model" else {}
    return identity.digest("settings", *(f"{key}={value}" for key, value in sorted(others.items()))) if others else ""


def build_physical_project(project: Project, unchanged: Mapping[str, Binding] | None = None) -> Project:
    """The project as it is built into environments: every node at the table of its version."""
    versions = compute_versions(project, unchanged)
    relations = {n.relation: build_physical_relation(n.relation, versions[n.name]) for n in project}
    nodes = {n.name: _move_node(n, versions[n.name], relations) for n in project}
    python = {name: replace(p, schema=f"{p.schema}__{PHYSICAL}") for name, p in project.python.items()}
    tests = tuple(
        t if t.variant is None else replace(t, variant=_move_node(t.variant, versions[t.model], relations))
        for t in project.tests
    )
    schemas = tuple(f"{schema}__{PHYSICAL}" for schema in project.schemas)
    return replace(project, nodes=nodes, python=python, tests=tests, schemas=schemas, other_target=None)


def find_unchanged_versions(
    project: Project, refs: Mapping[str, Ref], versions: Mapping[VersionKey, Version]
) -> dict[str, Binding]:
    """Bound versions that are the project's own, once the definitions behind them are read with today's code."""
    from sqb.build.observe.lake import compute_renewed_hash  # loads the parser, which nothing unchanged needs
    from sqb.sql.analysis.canonical import compute_canonical_stamp

    stamp, unchanged = compute_canonical_stamp(), {}
    if all(version.canonical == stamp for version in versions.values()):
        return {}
    for node in project:
        bound = refs[node.name].binding if node.name in refs else None
        known = versions.get((node.name, bound.version_hash)) if bound is not None else None
        if bound is None or known is None or known.sources != compute_sources_token(node, project):
            continue
        if known.settings not in (None, compute_settings_token(node, project)):
            continue
        old = known.canonical != stamp and node.type == "model"
        local = (compute_renewed_hash(known.definition) or known.local_hash) if old else known.local_hash
        if local == node.local_hash:
            unchanged[node.name] = bound
    return unchanged


def _move_node(node: Node, version: str, relations: Mapping[Relation, Relation]) -> Node:
    hooks = tuple(_move_hook(h, relations) for h in node.hooks)
    relation = relations[node.relation]
    # A version is known by its own table: one under another name is another version, which begins as a clone.
    former = (relation,) * len(node.former_relations)
    return replace(node, relation=relation, former_relations=former, version_hash=version, hooks=hooks)


def _move_hook(hook: Hook, relations: Mapping[Relation, Relation]) -> Hook:
    return replace(hook, relations=tuple(relations.get(r, r) for r in hook.relations))


def resolve_input_name(key: str, project: Project, by_logical: Mapping[Relation, str]) -> str:
    """The name of an input as today's version of the node has it, for one that was written with another version's."""
    logical = parse_logical_relation(Relation.parse(key)) if " " not in key else None
    name = by_logical.get(logical) if logical is not None else None
    return str(project.nodes[name].relation) if name is not None else key
