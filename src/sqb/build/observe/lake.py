"""Observes the lake: the current state of every relation that the project builds or reads. Nothing here starts Java."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqb import identity
from sqb.build.observe.renames import find_renames, project_renames
from sqb.cache.files import read_value, write_value
from sqb.compile.model import External, Node, Project
from sqb.errors.base import Errors
from sqb.errors.project import UnknownReference
from sqb.lake.port import STATE_TABLES, Lake, Pointer, Tables, TableState
from sqb.lake.state.rows import refuse_newer_identity, refuse_newer_state
from sqb.light_dataclass import dataclass
from sqb.names import Relation, suggest_nearest
from sqb.plan.changes.session_settings import describe_settings_change
from sqb.plan.observed import (
    Input,
    Observed,
    RelationState,
    Version,
    list_changed_inputs,
    list_inputs,
)
from sqb.plan.python_nodes import LastPythonRun
from sqb.plan.recorded.commit_identity import CHECKS, FIGURES, CommitIdentity
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.lake.storage.file_sources import Listing


@dataclass(frozen=True, slots=True)
class LakeState:
    """The lake at one moment: its pointers, and the states of the relations that matter."""

    observed: Observed
    states: Mapping[Relation, TableState]
    # The relation behind each external name, as the catalog spells it.
    externals: Mapping[str, Relation] = field(default_factory=dict)
    # The files of sources that are read from files, by the sources' names.
    files: Mapping[str, Listing] = field(default_factory=dict)
    # Where the metadata of each external table is: while it is the same, so is what was derived from it.
    locations: Mapping[str, str] = field(default_factory=dict)
    # The name of the catalog in SQL.
    catalog: str = "lake"
    # In a virtual environment: the state of the version that each new one begins as, by the node's name.
    priors: Mapping[str, TableState] = field(default_factory=dict)

    def project_priors(self, project: Project) -> LakeState:
        """The lake in which new versions have begun: at their relations are the tables that they are cloned from."""
        begun = {project.nodes[name].relation: s for name, s in self.priors.items() if not s.is_view}
        return replace(self, states={**self.states, **begun}) if begun else self


def observe_lake(workspace: Workspace, lake: Lake, is_renamed: bool = False) -> LakeState:
    """Read the current state of the lake; all references to tables that do not exist are reported together.

    With `is_renamed` the tables of renamed models are where they will be, as a build renames them first.
    """
    project = workspace.project
    pointers = lake.list_pointers()
    if is_renamed:
        pointers = project_renames(pointers, find_renames(project, lake, pointers))
    externals, files = _find_externals(project, pointers, workspace.root)
    relations_needed = {n.relation for n in project} | set(externals.values())
    state_tables = {Relation(schema, name) for schema in project.schemas for name in STATE_TABLES}
    tables = lake.read_tables(pointers[r] for r in (*relations_needed, *state_tables) if r in pointers)
    states = {r: s for r, s in tables.items() if r in relations_needed}
    _check_sqb_version(tables, state_tables)
    relations = {r: build_relation_state(s) for r, s in states.items()}
    if files:
        from sqb.build.observe.files import build_files_state

        relations |= {project.externals[name].relation: build_files_state(listing) for name, listing in files.items()}
    for name, relation in externals.items():
        # An external is looked up by the name that queries use, whatever the catalog's spelling.
        relations.setdefault(project.externals[name].relation, relations[relation])
    travelled = _read_states_at_versions(project, lake, pointers, externals)
    states = {**states, **travelled}
    relations |= {r: build_relation_state(s) for r, s in travelled.items()}
    if others := _list_relations_elsewhere(project, relations):
        other_tables = lake.read_tables(pointers[r] for r in others if r in pointers and r not in states)
        _check_sqb_version(other_tables, ())
        states = {**states, **other_tables}
        relations |= {r: build_relation_state(s) for r, s in other_tables.items()}
    opaque = frozenset(n for n, r in externals.items() if states[r].is_view)
    observed = Observed(
        relations,
        known_nodes=_find_known_nodes(project, lake, relations, pointers),
        renewed_hashes=_renew_hashes(project, lake, relations, workspace.folder / "cache" / "renewed.json"),
        opaque=opaque,
        python=_read_python_runs(project, lake),
    )
    locations = {name: pointers[r].location for name, r in externals.items()}
    return LakeState(observed, states, externals, files, locations, workspace.connection.catalog.name)


def _check_sqb_version(tables: Mapping[Relation, TableState], state_tables: Collection[Relation]) -> None:
    """Before anything is decided: what a newer sqb left may not mean what it seems to mean here."""
    for relation, state in tables.items():
        if relation in state_tables:
            refuse_newer_state(relation, state.properties)
        else:
            refuse_newer_identity(relation, state.identity)


def _list_relations_elsewhere(project: Project, relations: Mapping[Relation, RelationState]) -> set[Relation]:
    """What matters of the target that this one looks at; none where every relation is as defined."""
    if project.other_target is None:
        return set()
    states = ((n, relations.get(n.relation)) for n in project)
    follows = project.other_target.how == "defer"
    current = (
        s is not None
        and _has_current_definition(n, project, s)
        and (follows or _is_up_to_date(n, project, s, relations))
        for n, s in states
    )
    if all(current):
        return set()
    return set(project.other_target.relations.values())


def _read_states_at_versions(
    project: Project, lake: Lake, pointers: Mapping[Relation, Pointer], externals: Mapping[str, Relation]
) -> dict[Relation, TableState]:
    """Tables at the versions that queries ask for: what a branch, a tag or a time means at this moment."""
    states: dict[Relation, TableState] = {}
    for upstream_input in list_pinned_inputs(project):
        node = project.nodes.get(upstream_input.name)
        relation = node.relation if node is not None else externals.get(upstream_input.name)
        if (
            upstream_input.relation is None
            or upstream_input.relation in states
            or relation is None
            or relation not in pointers
        ):
            continue
        state = _read_state_at_version(upstream_input, lake, pointers[relation], project)
        if state is not None:
            states[upstream_input.relation] = state
    return states


def list_pinned_inputs(project: Project) -> list[Input]:
    """The tables of which queries ask for a version themselves, each with that version."""
    return [i for n in project if _may_pin_version(n, project) for i in list_inputs(n, project) if i.travel is not None]


def read_pinned_versions(
    name: str, pinned_inputs: Sequence[Input], project: Project, lake: Lake
) -> dict[Relation, TableState]:
    """The versions of a node's table that queries ask for, after the node has been built; mostly there are none."""
    pinned_inputs = [i for i in pinned_inputs if i.name == name and i.relation is not None]
    pointer = lake.list_pointers().get(project.nodes[name].relation) if pinned_inputs else None
    if pointer is None:
        return {}
    states = ((i.relation, _read_state_at_version(i, lake, pointer, project)) for i in pinned_inputs)
    return {relation: state for relation, state in states if relation is not None and state is not None}


def _read_state_at_version(pinned: Input, lake: Tables, pointer: Pointer, project: Project) -> TableState | None:
    assert pinned.travel is not None
    if pinned.travel.kind == "version":
        return lake.read_state_at_version(pointer, pinned.travel.value)
    zone = project.session.get("spark.sql.session.timeZone", "UTC")
    return lake.read_state_at_time(pointer, pinned.travel.value, zone)


def _may_pin_version(node: Node, project: Project) -> bool:
    """Whether a query asks for a version itself, or reads a source whose expression may."""
    return any(slot.is_pinned for slot in node.slots) or any(
        slot.is_pinned
        for name in node.upstream
        if name in project.sources and (query := project.sources[name].expression) is not None
        for slot in query.slots
    )


def _has_current_definition(node: Node, project: Project, current: RelationState) -> bool:
    return current.local_hash == node.local_hash and describe_settings_change(node, project, current.identity) is None


def _is_up_to_date(
    node: Node, project: Project, current: RelationState, relations: Mapping[Relation, RelationState]
) -> bool:
    return not current.drifted and not list_changed_inputs(node, project, current, relations)


def build_relation_state(state: TableState) -> RelationState:
    """A table's state in the words of planning."""
    content = None if state.drifted else state.identity.content or None
    version = Version(
        state.snapshot_id,
        state.same_rows,
        content,
        state.columns_token,
        schema_id=state.schema_id,
        shape=state.columns,
        former=state.former_columns,
        unchanged_columns="" if state.drifted else state.identity.unchanged_columns,
    )
    checks = read_passed_checks(state).checks
    made_at = state.made_ms / 1000 if state.made_ms is not None else None
    return RelationState(
        state.is_view,
        version,
        state.identity,
        state.drifted,
        state.rows,
        checks,
        state.properties,
        state.last_identity,
        made_at,
        state.snapshot_columns != state.columns,
    )


def read_passed_checks(state: TableState) -> CommitIdentity:
    """The checks that passed on a table's rows: what their commit says, or was said of that very snapshot since."""
    committed = CommitIdentity(checks=state.identity.checks, figures=state.identity.figures)
    if state.is_view or (CHECKS not in state.properties and FIGURES not in state.properties):
        return committed
    texts = ((key, state.properties.get(key, "").partition(":")) for key in (CHECKS, FIGURES))
    since = {key: text for key, (snapshot, _, text) in texts if text and snapshot == str(state.snapshot_id)}
    return committed.merge(CommitIdentity.from_properties(since)) if since else committed


def encode_passed_checks(passed: CommitIdentity, state: TableState) -> dict[str, str]:
    """The properties by which a table says that checks have passed on its present rows, after their commit."""
    return {key: f"{state.snapshot_id}:{text}" for key, text in passed.to_properties().items()}


def _find_externals(
    project: Project, pointers: Mapping[Relation, Pointer], root: Path
) -> tuple[dict[str, Relation], Mapping[str, Listing]]:
    folded: dict[str, Relation] = {}
    for relation in pointers:
        folded.setdefault(str(relation).lower(), relation)
    errors = Errors()
    relations: dict[str, Relation] = {}
    files: Mapping[str, Listing] = {}
    if any(source.path is not None for source in project.sources.values()):
        from sqb.build.observe.files import list_all_sources  # few projects read files

        files = list_all_sources(project, root, errors)
    for external in project.externals.values():
        source = project.sources.get(external.name)
        if source is not None and not source.is_table:
            continue
        match = external.relation if external.relation in pointers else folded.get(str(external.relation).lower())
        if match is None and external.name in project.loaders:
            # Its loader makes it.
            continue
        if match is None:
            errors.add(_build_missing_error(external, project, pointers))
        else:
            relations[external.name] = match
    errors.raise_any()
    return relations, files


def _iter_readable_names(project: Project) -> Iterable[str]:
    """The names that can be read without a table of theirs in the catalog: others may be missing as well."""
    for node in project:
        yield from (node.name, node.name.rpartition(".")[2])
    yield from (s.name for s in project.sources.values() if not s.is_table or s.name in project.loaders)


def _build_missing_error(external: External, project: Project, pointers: Iterable[Relation]) -> UnknownReference:
    written = external.relation.name if external.relation.schema == "default" else external.name
    project_relations = [
        str(p) for p in pointers if p.name not in STATE_TABLES and not p.schema.startswith("_sqlbuild")
    ]
    hint = suggest_nearest(written, [*_iter_readable_names(project), *project_relations])
    if any(f.is_table and f.name == written.lower() for f in project.functions):
        hint = f"{written} is a table function: write {written}(…)"
    if external.dbt:
        return UnknownReference(
            f"dbt has not built {external.name} yet: {external.relation} is not in the catalog",
            at=external.at,
            hint="run `sqb dbt build`, which builds it and what reads it",
        )
    if external.declared:
        return UnknownReference(
            f'the declared source "{external.name}" is not in the catalog', at=external.at, hint=hint
        )
    return UnknownReference(
        f'no model, seed, source or table is called "{written}"',
        at=external.at,
        hint=hint or "tables of the catalog are read as schema.table; files belong in sources/ or seeds/",
    )


def _read_python_runs(project: Project, lake: Lake) -> dict[str, LastPythonRun]:
    """The last runs of Python nodes; not asked where there are none."""
    schemas = sorted({node.schema for node in project.python.values()})
    if not schemas:
        return {}
    from sqb.build.python.fingerprints import load_python_runs  # few projects have Python nodes

    return load_python_runs(project, lake.state.read_fingerprints(schemas).values())


def _find_known_nodes(
    project: Project,
    lake: Lake,
    relations: Mapping[Relation, RelationState],
    pointers: Mapping[Relation, Pointer],
) -> frozenset[str]:
    """Nodes with a history; only asked when a relation is missing or strange, as the answer matters only then."""
    doubtful = [n for n in project if n.relation not in relations or not relations[n.relation].identity]
    if not doubtful or not any(p.name == "_sqlbuild_fingerprints" for p in pointers):
        return frozenset()
    history = lake.state.read_fingerprints(sorted({n.relation.schema for n in doubtful}))
    built = {(r.node_name, r.target_schema, r.target_name) for r in history.values() if r.node_type != "test"}
    return frozenset(n.name for n in doubtful if (n.name, n.relation.schema, n.relation.name) in built)


def _renew_hashes(
    project: Project, lake: Lake, relations: Mapping[Relation, RelationState], cache: Path
) -> dict[str, str]:
    """Hashes of unchanged definitions under today's canonical form, for those that were written by other code.

    A newer parser must not rebuild the world: the stored text is made canonical again before two hashes are compared.
    """
    elsewhere = project.other_target.relations if project.other_target is not None else {}
    places = [(n, r) for n in project if n.type == "model" for r in (n.relation, elsewhere.get(n.name)) if r]
    differing = [(n, r) for n, r in places if r in relations and relations[r].local_hash not in ("", n.local_hash)]
    if not differing:
        return {}
    from sqb.sql.analysis.canonical import compute_canonical_stamp  # an unchanged project does not ask for versions

    stamp = compute_canonical_stamp()
    current = [(r, relations[r]) for _, r in differing]
    old = [(r, s) for r, s in current if s.known_identity.canonical != stamp]
    if not old:
        return {}
    cached = read_value(cache, stamp, dict[str, str]) or {}
    missing = [r for r, s in old if s.local_hash not in cached]
    if missing:
        rows = lake.state.read_fingerprints(sorted({r.schema for r in missing}))
        cached |= {
            row.local_hash: compute_renewed_hash(row.definition) or row.local_hash
            for row in rows.values()
            if row.node_type == "model"
        }
        write_value(cache, stamp, cached, dict[str, str])
    return {s.local_hash: cached[s.local_hash] for _, s in old if s.local_hash in cached}


def compute_renewed_hash(text: str) -> str | None:
    """The local hash that today's code gives to a stored definition; None when it cannot be read any more."""
    from sqb.sql.analysis.canonical import recompute_canonical  # loads the parser, which nothing unchanged needs

    try:
        definition = json.loads(text)
        spans = definition["references"]
        parts = recompute_canonical(definition["sql"], [(start, end) for start, end, _ in spans])
        query = identity.compute_query_hash(parts, [name for _, _, name in spans])
        functions = dict(definition.get("functions", {}))
        for name, (declared, text, tables) in definition.get("bodies", {}).items():
            body = recompute_canonical(text, [(start, end) for start, end, _ in tables])
            functions[name] = identity.compute_function_hash(declared, body, [logical for _, _, logical in tables])
        return identity.compute_local_hash(query, identity.compute_config_hash(definition["config"]), functions)
    except (ValueError, KeyError, TypeError):
        return None
