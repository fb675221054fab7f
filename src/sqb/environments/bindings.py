"""What an environment shows after a build: bindings of the nodes that it made, by what stands in their tables now."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from sqb.build.observe import passed_checks
from sqb.build.render import live_names, pinned, render
from sqb.compiled import Function, Node, Project
from sqb.environments.entering import Entered
from sqb.environments.stale import function_name
from sqb.environments.values import Binding, Ref, Version
from sqb.environments.versions import settings_token, sources_token
from sqb.lake.metadata import columns_token, schema_columns
from sqb.lake.port import TableState
from sqb.lake.views import columns_from_states
from sqb.names import Relation, quote
from sqb.plan.observed import inputs_of

States = Mapping[Relation, TableState]


def new_refs(
    entered: Entered, names: Collection[str], states: States, externals: Mapping[str, Relation], everything: bool
) -> dict[str, Ref]:
    """What the environment shows when these nodes are shown as they stand; with `everything` also nothing else."""
    project = entered.project
    gone = set(entered.removed) if everything else set()
    refs = {name: ref for name, ref in entered.refs.items() if name not in gone}
    moved = [project.nodes[n] for n in to_move(entered, names, states)]
    columns = entered.lake.view_columns([n.relation for n in moved]) if moved else {}
    for node in moved:
        text = _as_built(columns[node.relation], states[node.relation])
        bound = _binding(node, entered, states, externals, text)
        refs[node.name] = _ref(bound, entered.refs.get(node.name))
    for name in names:
        node = project.nodes[name]
        if node.checks_hash and node.kind != "view":
            refs[name] = replace(refs[name], checks=passed_checks(states[node.relation]))
    for function in project.functions:
        if function.used and _has_come(function, project, refs):
            bound = _function(function)
            refs[bound.name] = _ref(bound, entered.refs.get(bound.name))
    return refs


def to_move(entered: Entered, names: Collection[str], states: States) -> list[str]:
    """The nodes that are not shown as they stand."""
    return [n for n in names if not _is_bound(entered.project.nodes[n], entered, states)]


def _has_come(function: Function, project: Project, refs: Mapping[str, Ref]) -> bool:
    """Whether all models that use a function are shown as it makes them."""
    users = (n for n in project if function.name in n.functions)
    return all(n.name in refs and refs[n.name].binding.version_hash == n.version_hash for n in users)


def _ref(bound: Binding, before: Ref | None) -> Ref:
    return Ref(bound, before.base, before.location) if before is not None else Ref(bound)


def _is_bound(node: Node, entered: Entered, states: States) -> bool:
    """Whether a node is shown as it stands already."""
    ref = entered.refs.get(node.name)
    if ref is None or ref.binding.version_hash != node.version_hash or ref.binding.description != node.description:
        return False
    if ref.binding.logical != entered.direct.nodes[node.name].relation:
        return False
    if ref.binding.reads != _reads(node, entered, states):
        return False
    # The columns of a view may change with those of a source, which no version and no snapshot tells of.
    return node.kind != "view" or node.relation not in states or _fits(ref.binding.columns, states[node.relation])


def _fits(columns: str, state: TableState) -> bool:
    """Whether the columns of a view on a relation are those that the relation has in a state of it."""
    return _token(columns) == _token(columns_from_states(state.snapshot_columns))


def _token(columns: str) -> str:
    return columns_token(schema_columns({"fields": json.loads(columns)}))


def _as_built(columns: str, state: TableState) -> str:
    """The columns of a relation as this build made them, also where somebody has changed them since."""
    return columns if _fits(columns, state) else columns_from_states(state.snapshot_columns)


def _reads(node: Node, entered: Entered, states: States) -> tuple[tuple[str, int], ...]:
    """The tables and snapshots that the node's view shows rows of."""
    if node.kind != "view":
        relations = [node.relation]
    else:
        inputs = inputs_of(node, entered.project)
        relations = [i.relation for i in inputs if not i.external and not i.view and i.relation is not None]
    found = ((str(r), states[r].snapshot_id) for r in relations if r in states)
    return tuple(sorted((r, s) for r, s in found if s is not None))


def _binding(node: Node, entered: Entered, states: States, externals: Mapping[str, Relation], columns: str) -> Binding:
    catalog = entered.workspace.connection.catalog.name
    state = states[node.relation]
    text_of = _shown_names(entered, states, externals)
    if node.kind == "view":
        text = render(node, text_of, live_names(entered.project, catalog, externals)).sql.strip()
    else:
        text = f"SELECT * FROM {pinned(quote(catalog, node.relation.schema, node.relation.name), state)}"
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
        upstream={u: entered.project.nodes[u].version_hash for u in node.upstream if u in entered.project.nodes},
        reads=_reads(node, entered, states),
        logical=entered.direct.nodes[node.name].relation,
    )


def _shown_names(entered: Entered, states: States, externals: Mapping[str, Relation]) -> Callable[[str], str]:
    """References in the text of a view: tables of nodes at the snapshots of this build, sources as they are."""
    project, catalog = entered.project, entered.workspace.connection.catalog.name
    live = live_names(project, catalog, externals)

    def text_of(name: str) -> str:
        node = project.nodes.get(name)
        if node is None:
            return live(name)
        if node.kind == "view":
            return f"({render(node, text_of, live).sql}\n)"
        return pinned(quote(catalog, node.relation.schema, node.relation.name), states[node.relation])

    return text_of


def _function(function: Function) -> Binding:
    return Binding(function_name(function.name), "function", function.language, function.hash, function.hash)


def versions_of(entered: Entered, names: Collection[str], run_id: str) -> list[Version]:
    """What the versions of these nodes are, to be told later from others."""
    from sqb.sql.canonical import canonical_stamp  # nothing unchanged asks for versions of libraries

    now = datetime.now(UTC)
    stamp = canonical_stamp()
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
            sources=sources_token(entered.direct.nodes[node.name], entered.direct),
            settings=settings_token(node, entered.direct),
        )
        for node in (entered.project.nodes[n] for n in names if n in entered.project.nodes)
    ]
