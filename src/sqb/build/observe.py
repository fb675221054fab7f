"""Looking at the lake: what stands at every relation that the project builds or reads. Nothing here starts Java."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqb import identity
from sqb.build.python_record import python_seen
from sqb.build.source_files import look_at_files, standing_of_files
from sqb.compiled import External, Node, Project
from sqb.errors import Errors, UnknownReference
from sqb.lake.files import Listing
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import STATE_TABLES, Pointer, TableState
from sqb.lake.state import refuse_newer_identity, refuse_newer_state
from sqb.lake.versions_of_refs import state_at_time, state_at_version
from sqb.names import Relation, did_you_mean
from sqb.plan.observed import KEPT, Observed, Standing, Version, changed_inputs, inputs_of
from sqb.plan.python_nodes import PythonSeen
from sqb.plan.settings import settings_change
from sqb.workspace import Workspace, write_atomically


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the lake: the pointers of one moment, and the states behind those that matter."""

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


def open_lake(workspace: Workspace) -> IcebergLake:
    """The lake that a workspace's connection names."""
    return IcebergLake(workspace.place, cache=workspace.folder / "cache")


def look(workspace: Workspace, lake: IcebergLake) -> Look:
    """See what stands; a reference to a table that does not exist is reported with all others of its kind."""
    project = workspace.project
    pointers = lake.pointers()
    externals, files = _find_externals(project, pointers, workspace.root)
    wanted = {n.relation for n in project} | set(externals.values())
    state_tables = {Relation(schema, name) for schema in project.schemas for name in STATE_TABLES}
    found = lake.tables(pointers[r] for r in (*wanted, *state_tables) if r in pointers)
    states = {r: s for r, s in found.items() if r in wanted}
    _refuse_newer(found, state_tables)
    relations = {r: standing_of(s) for r, s in states.items()}
    relations |= {project.externals[name].relation: standing_of_files(listing) for name, listing in files.items()}
    for name, relation in externals.items():
        # An external is looked up by the name that queries use, whatever the catalog's spelling.
        relations.setdefault(project.externals[name].relation, relations[relation])
    travelled = _states_at_versions(project, lake, pointers, externals)
    states = {**states, **travelled}
    relations |= {r: standing_of(s) for r, s in travelled.items()}
    if others := _relations_elsewhere(project, relations):
        there = lake.tables(pointers[r] for r in others if r in pointers and r not in states)
        _refuse_newer(there, ())
        states = {**states, **there}
        relations |= {r: standing_of(s) for r, s in there.items()}
    opaque = frozenset(n for n, r in externals.items() if states[r].is_view)
    observed = Observed(
        relations,
        known=_known(project, lake, relations, pointers),
        renewed=_renewed(project, lake, relations, workspace.folder / "cache" / "renewed.json"),
        opaque=opaque,
        python=_python(project, lake),
    )
    locations = {name: pointers[r].location for name, r in externals.items()}
    return Look(observed, states, externals, files, locations, workspace.connection.catalog.name)


def _refuse_newer(found: Mapping[Relation, TableState], state_tables: Collection[Relation]) -> None:
    """Before anything is decided: what a newer sqb left may not mean what it seems to mean here."""
    for relation, state in found.items():
        if relation in state_tables:
            refuse_newer_state(relation, state.properties)
        else:
            refuse_newer_identity(relation, state.identity)


def _relations_elsewhere(project: Project, relations: Mapping[Relation, Standing]) -> set[Relation]:
    """What matters of the target that this one looks at; nothing where everything here stands as it is defined."""
    if project.elsewhere is None:
        return set()
    standing = ((n, relations.get(n.relation)) for n in project)
    follows = project.elsewhere.how == "defer"
    current = (
        s is not None and _is_as_defined(n, project, s) and (follows or _is_current(n, project, s, relations))
        for n, s in standing
    )
    if all(current):
        return set()
    return set(project.elsewhere.relations.values())


def _states_at_versions(
    project: Project, lake: IcebergLake, pointers: Mapping[Relation, Pointer], externals: Mapping[str, Relation]
) -> dict[Relation, TableState]:
    """Tables at the versions that queries ask for: what a branch, a tag or a time means at this moment."""
    found: dict[Relation, TableState] = {}
    asked = [i for n in project if _may_ask(n, project) for i in inputs_of(n, project) if i.travel is not None]
    for one in asked:
        relation = externals.get(one.name)
        if one.travel is None or one.relation is None or one.relation in found or relation is None:
            continue
        document = lake.document(pointers[relation])
        if one.travel.kind == "version":
            state = state_at_version(document, one.travel.value)
        else:
            state = state_at_time(document, one.travel.value, project.session.get("spark.sql.session.timeZone", "UTC"))
        if state is not None:
            found[one.relation] = state
    return found


def _may_ask(node: Node, project: Project) -> bool:
    """Whether a query asks for a version itself, or reads a source whose expression may."""
    return any(slot.fixed for slot in node.slots) or any(
        slot.fixed
        for name in node.upstream
        if name in project.sources and (query := project.sources[name].expression) is not None
        for slot in query.slots
    )


def _is_as_defined(node: Node, project: Project, standing: Standing) -> bool:
    return standing.local_hash == node.local_hash and settings_change(node, project, standing.identity) is None


def _is_current(node: Node, project: Project, standing: Standing, relations: Mapping[Relation, Standing]) -> bool:
    return not standing.drifted and not changed_inputs(node, project, standing, relations)


def standing_of(state: TableState) -> Standing:
    """A table's state in the words of planning."""
    content = None if state.drifted else state.identity.get("sqb.content")
    version = Version(
        state.snapshot_id,
        state.same_rows,
        content,
        state.columns_token,
        schema_id=state.schema_id,
        shape=state.columns,
        former=state.former,
        kept="" if state.drifted else state.identity.get(KEPT, ""),
    )
    checks = passed_checks(state)
    made_at = state.made_ms / 1000 if state.made_ms is not None else None
    return Standing(
        state.is_view, version, state.identity, state.drifted, state.rows, checks, state.properties, state.left, made_at
    )


def passed_checks(state: TableState) -> str:
    """The token of the checks that passed on a table as it stands."""
    return said_of(state, "sqb.checks")


def said_of(state: TableState, key: str) -> str:
    """What the commit of a table's rows says, or what was said of that very snapshot since."""
    if state.is_view:
        return state.identity.get(key, "")
    snapshot, _, text = state.properties.get(key, "").partition(":")
    return text if text and snapshot == str(state.snapshot_id) else state.identity.get(key, "")


def _find_externals(
    project: Project, pointers: Mapping[Relation, Pointer], root: Path
) -> tuple[dict[str, Relation], dict[str, Listing]]:
    folded: dict[str, Relation] = {}
    for relation in pointers:
        folded.setdefault(str(relation).lower(), relation)
    errors = Errors()
    found: dict[str, Relation] = {}
    files = look_at_files(project, root, errors)
    for external in project.externals.values():
        source = project.sources.get(external.name)
        if source is not None and not source.is_table:
            continue
        match = external.relation if external.relation in pointers else folded.get(str(external.relation).lower())
        if match is None and external.name in project.loaders:
            # Its loader makes it.
            continue
        if match is None:
            errors.add(_not_there(external, project, pointers))
        else:
            found[external.name] = match
    errors.raise_any()
    return found, files


def _readable_names(project: Project) -> Iterable[str]:
    """The names that can be read without a table of theirs in the catalog: others may be missing as well."""
    for node in project:
        yield from (node.name, node.name.rpartition(".")[2])
    yield from (s.name for s in project.sources.values() if not s.is_table or s.name in project.loaders)


def _not_there(external: External, project: Project, pointers: Iterable[Relation]) -> UnknownReference:
    written = external.relation.name if external.relation.schema == "default" else external.name
    own = [str(p) for p in pointers if p.name not in STATE_TABLES and not p.schema.startswith("_sqlbuild")]
    hint = did_you_mean(written, [*_readable_names(project), *own])
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


def _python(project: Project, lake: IcebergLake) -> dict[str, PythonSeen]:
    """The last runs of Python nodes; not asked where there are none."""
    schemas = sorted({node.schema for node in project.python.values()})
    return python_seen(project, lake.fingerprints(schemas).values()) if schemas else {}


def _known(
    project: Project, lake: IcebergLake, relations: Mapping[Relation, Standing], pointers: Mapping[Relation, Pointer]
) -> frozenset[str]:
    """Nodes with a history; only asked when a relation is missing or strange, as the answer matters only then."""
    doubtful = [n for n in project if n.relation not in relations or not relations[n.relation].identity]
    if not doubtful or not any(p.name == "_sqlbuild_fingerprints" for p in pointers):
        return frozenset()
    history = lake.fingerprints(sorted({n.relation.schema for n in doubtful}))
    built = {(r.node_name, r.target_schema, r.target_name) for r in history.values() if r.node_type != "test"}
    return frozenset(n.name for n in doubtful if (n.name, n.relation.schema, n.relation.name) in built)


def _renewed(
    project: Project, lake: IcebergLake, relations: Mapping[Relation, Standing], cache: Path
) -> dict[str, str]:
    """Hashes of unchanged definitions under today's canonical form, for those that were written by other code.

    A newer parser must not rebuild the world: the stored text is made canonical again before two hashes are compared.
    """
    elsewhere = project.elsewhere.relations if project.elsewhere is not None else {}
    places = [(n, r) for n in project if n.type == "model" for r in (n.relation, elsewhere.get(n.name)) if r]
    differing = [(n, r) for n, r in places if r in relations and relations[r].local_hash not in ("", n.local_hash)]
    if not differing:
        return {}
    from sqb.sql.canonical import canonical_stamp  # an unchanged project does not ask for versions

    stamp = canonical_stamp()
    standing = [(r, relations[r]) for _, r in differing]
    old = [(r, s) for r, s in standing if (s.identity or s.left).get("sqb.canonical") != stamp]
    if not old:
        return {}
    kept = _kept(cache, stamp)
    missing = [r for r, s in old if s.local_hash not in kept]
    if missing:
        rows = lake.fingerprints(sorted({r.schema for r in missing}))
        kept |= {
            row.local_hash: renewed_hash(row.definition) or row.local_hash
            for row in rows.values()
            if row.node_type == "model"
        }
        write_atomically(cache, json.dumps({"stamp": stamp, "hashes": kept}))
    return {s.local_hash: kept[s.local_hash] for _, s in old if s.local_hash in kept}


def _kept(cache: Path, stamp: str) -> dict[str, str]:
    try:
        document = json.loads(cache.read_text())
        return dict(document["hashes"]) if document["stamp"] == stamp else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def renewed_hash(text: str) -> str | None:
    """The local hash that today's code gives to a stored definition; None when it cannot be read any more."""
    from sqb.sql.canonical import canonical_again  # loads the parser, which nothing unchanged needs

    try:
        definition = json.loads(text)
        spans = definition["references"]
        parts = canonical_again(definition["sql"], [(start, end) for start, end, _ in spans])
        query = identity.query_hash(parts, [name for _, _, name in spans])
        functions = dict(definition.get("functions", {}))
        for name, (declared, text, tables) in definition.get("bodies", {}).items():
            body = canonical_again(text, [(start, end) for start, end, _ in tables])
            functions[name] = identity.function_hash(declared, body, [logical for _, _, logical in tables])
        return identity.local_hash(query, identity.config_hash(definition["config"]), functions)
    except (ValueError, KeyError, TypeError):
        return None
