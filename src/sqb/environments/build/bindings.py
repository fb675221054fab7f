"""The refs of an environment after a build: bindings of the built nodes at the current snapshots of their tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from sqb.build.node.render import build_live_names, format_pinned, render_query
from sqb.build.observe.lake import read_passed_checks
from sqb.compile.model import Function, Node, Project
from sqb.environments.model import Binding, Ref, Version
from sqb.environments.session import EnvironmentSession
from sqb.environments.staleness import format_function_name
from sqb.environments.versions import compute_settings_token, compute_sources_token
from sqb.lake.commit.views import build_view_columns
from sqb.lake.metadata.table_state import compute_columns_token, parse_columns
from sqb.lake.port import TableState
from sqb.names import Relation, quote
from sqb.plan.observed import list_inputs

States = Mapping[Relation, TableState]


def build_refs(
    session: EnvironmentSession,
    names: Collection[str],
    states: States,
    externals: Mapping[str, Relation],
    everything: bool,
) -> dict[str, Ref]:
    """Build the refs of the environment with these nodes as they are now; `everything` drops removed nodes."""
    project = session.project
    removed = set(session.removed) if everything else set()
    refs = {name: ref for name, ref in session.refs.items() if name not in removed}
    changed = [project.nodes[n] for n in list_changed_nodes(session, names, states)]
    columns = session.lake.read_view_columns([n.relation for n in changed]) if changed else {}
    for node in changed:
        text = _choose_columns(columns[node.relation], states[node.relation])
        binding = _build_binding(node, session, states, externals, text)
        refs[node.name] = _build_ref(binding, session.refs.get(node.name))
    for name in names:
        node = project.nodes[name]
        if node.checks_hash and node.kind != "view":
            refs[name] = replace(refs[name], checks=read_passed_checks(states[node.relation]).checks)
    for function in project.functions:
        if function.used and _is_function_current(function, project, refs):
            binding = _build_function_binding(function)
            refs[binding.name] = _build_ref(binding, session.refs.get(binding.name))
    return refs


def list_changed_nodes(session: EnvironmentSession, names: Collection[str], states: States) -> list[str]:
    """List the nodes whose binding is not at the current snapshot."""
    return [n for n in names if not _is_binding_current(session.project.nodes[n], session, states)]


def _is_function_current(function: Function, project: Project, refs: Mapping[str, Ref]) -> bool:
    """Whether all models that use a function are shown as it makes them."""
    users = (n for n in project if function.name in n.functions)
    return all(n.name in refs and refs[n.name].binding.version_hash == n.version_hash for n in users)


def _build_ref(binding: Binding, before: Ref | None) -> Ref:
    return Ref(binding, before.base, before.location) if before is not None else Ref(binding)


def _is_binding_current(node: Node, session: EnvironmentSession, states: States) -> bool:
    """Whether the binding of a node is at its current version and snapshots."""
    ref = session.refs.get(node.name)
    if ref is None or ref.binding.version_hash != node.version_hash or ref.binding.description != node.description:
        return False
    if ref.binding.logical != session.direct.nodes[node.name].relation:
        return False
    if ref.binding.reads != _list_reads(node, session, states):
        return False
    # The columns of a view may change with those of a source, which no version and no snapshot tells of.
    return (
        node.kind != "view" or node.relation not in states or _has_columns(ref.binding.columns, states[node.relation])
    )


def _has_columns(columns: str, state: TableState) -> bool:
    """Whether the columns of a view on a relation are those that the relation has in a state of it."""
    return _compute_columns_token(columns) == _compute_columns_token(build_view_columns(state.snapshot_columns))


def _compute_columns_token(columns: str) -> str:
    return compute_columns_token(parse_columns({"fields": json.loads(columns)}))


def _choose_columns(columns: str, state: TableState) -> str:
    """The columns of a relation as this build made them, also where another writer has changed them since."""
    return columns if _has_columns(columns, state) else build_view_columns(state.snapshot_columns)


def _list_reads(node: Node, session: EnvironmentSession, states: States) -> tuple[tuple[str, int], ...]:
    """The tables and snapshots that the node's view shows rows of."""
    if node.kind != "view":
        relations = [node.relation]
    else:
        inputs = list_inputs(node, session.project)
        relations = [i.relation for i in inputs if not i.external and not i.view and i.relation is not None]
    snapshots = ((str(r), states[r].snapshot_id) for r in relations if r in states)
    return tuple(sorted((r, s) for r, s in snapshots if s is not None))


def _build_binding(
    node: Node, session: EnvironmentSession, states: States, externals: Mapping[str, Relation], columns: str
) -> Binding:
    catalog = session.workspace.connection.catalog.name
    state = states[node.relation]
    render_name = _name_renderer(session, states, externals)
    if node.kind == "view":
        text = render_query(node, render_name, build_live_names(session.project, catalog, externals)).sql.strip()
    else:
        text = f"SELECT * FROM {format_pinned(quote(catalog, node.relation.schema, node.relation.name), state)}"
    return Binding(
        name=node.name,
        type="seed" if node.type == "seed" else "model",
        kind=node.kind,
        local_hash=node.local_hash,
        version_hash=node.version_hash,
        relation=node.relation,
        snapshot_id=None if node.kind == "view" else state.snapshot_id,
        text=text,
        columns=columns,
        description=node.description,
        upstream={u: session.project.nodes[u].version_hash for u in node.upstream if u in session.project.nodes},
        reads=_list_reads(node, session, states),
        logical=session.direct.nodes[node.name].relation,
    )


def _name_renderer(
    session: EnvironmentSession, states: States, externals: Mapping[str, Relation]
) -> Callable[[str], str]:
    """References in the text of a view: tables of nodes at the snapshots of this build, sources as they are."""
    project, catalog = session.project, session.workspace.connection.catalog.name
    live = build_live_names(project, catalog, externals)

    def text_of(name: str) -> str:
        node = project.nodes.get(name)
        if node is None:
            return live(name)
        if node.kind == "view":
            return f"({render_query(node, text_of, live).sql}\n)"
        return format_pinned(quote(catalog, node.relation.schema, node.relation.name), states[node.relation])

    return text_of


def _build_function_binding(function: Function) -> Binding:
    return Binding(format_function_name(function.name), "function", function.language, function.hash, function.hash)


def build_versions(session: EnvironmentSession, names: Collection[str], run_id: str) -> list[Version]:
    """Build the records of these nodes' versions, which the store keeps for comparisons."""
    from sqb.sql.analysis.canonical import compute_canonical_stamp  # nothing unchanged asks for versions of libraries

    now = datetime.now(UTC)
    stamp = compute_canonical_stamp()
    return [
        Version(
            name=node.name,
            version_hash=node.version_hash,
            local_hash=node.local_hash,
            query_hash=node.query_hash,
            config_hash=node.config_hash,
            canonical=stamp,
            definition=node.definition,
            functions=dict(node.functions),
            relation=node.relation,
            created_at=now,
            run_id=run_id,
            sources=compute_sources_token(session.direct.nodes[node.name], session.direct),
            settings=compute_settings_token(node, session.direct),
        )
        for node in (session.project.nodes[n] for n in names if n in session.project.nodes)
    ]
