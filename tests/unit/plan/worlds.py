"""Projects and lakes made by hand, in a few words: what planning is tested on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqb import identity
from sqb.compile.model import External, Node, NodeType, Project
from sqb.compile.python.model import PythonNode, PythonType
from sqb.names import At, Relation
from sqb.plan.changes.functions import encode_functions
from sqb.plan.model import Options, Reason
from sqb.plan.observed import Observed, RelationState, Version, list_inputs, list_versions_read, record_sources
from sqb.plan.python_nodes import LastPythonRun, iter_python_above, record_tables
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.replay import ReplayEvent, compute_replay, encode_events, encode_seen, parse_events

COLUMNS = "id long"


def node(
    name: str,
    *upstream: str,
    kind: str = "table",
    query: str = "q",
    config: str = "c",
    volatile: tuple[str, ...] = (),
    functions: Mapping[str, str] = {},
    **settings: Any,
) -> Node:
    """A node whose hashes are made from the given words."""
    type_: NodeType = "seed" if kind == "seed" else "model"
    return Node(
        name=name,
        type=type_,
        kind=kind,
        relation=Relation.parse(name),
        file=f"models/{name.replace('.', '/')}.sql",
        local_hash=identity.compute_local_hash(f"{name} {query}", config, functions),
        query_hash=f"{name} {query}",
        config_hash=config,
        version_hash=f"{name} {query} {config}",
        upstream=tuple(sorted(upstream)),
        volatile=volatile,
        settings=settings,
        functions=functions,
    )


def python(name: str, type: PythonType, *after: str, fills: str = "") -> PythonNode:
    """A Python node whose hashes are made from the given words; a loader fills a source."""
    return PythonNode(
        name,
        type,
        "replace" if fills else type,
        f"python/{name}.py",
        name,
        name,
        At(f"python/{name}.py", 1, 5),
        "default",
        f"{name} s c",
        f"{name} s",
        "c",
        {f"python/{name}.py": "m"},
        tuple(sorted(after)),
        fills=fills,
        relation=Relation.parse(fills) if fills else None,
    )


def project(*nodes: Node | PythonNode, externals: tuple[str, ...] = ()) -> Project:
    """The nodes as a project, in the given order."""
    models = [n for n in nodes if isinstance(n, Node)]
    functions = [n for n in nodes if isinstance(n, PythonNode)]
    return Project(
        "shop",
        "dev",
        {n.name: n for n in models},
        {e: External(e, Relation.parse(e), True, At("models/a.sql", 1, 1)) for e in externals},
        tuple(sorted({n.relation.schema for n in models})),
        python={n.name: n for n in functions},
        order=tuple(n.name for n in nodes) if functions else (),
    )


def ran(world: Project, relations: Mapping[Relation, RelationState], run_id: str = "run 1") -> dict[str, LastPythonRun]:
    """What is known of Python nodes after all of them have run."""
    return {
        n.name: LastPythonRun(
            run_id,
            n.local_hash,
            n.source_hash,
            n.config_hash,
            n.dependencies,
            record_tables(n, world, relations),
            dict.fromkeys(iter_python_above(n, world), run_id),
        )
        for n in world.python.values()
    }


def version(snapshot: int, content: str | None = None, columns: str = COLUMNS) -> Version:
    return Version(snapshot, (), content, columns)


def source(snapshot: int, columns: str = COLUMNS) -> RelationState:
    """A table that somebody else writes."""
    return RelationState(version=version(snapshot, columns=columns))


def built(world: Project, relations: Mapping[Relation, RelationState] = {}) -> dict[Relation, RelationState]:
    """What stands after everything was built once, on top of what stood before."""
    by_name = dict(relations)
    for index, one in enumerate(world):
        by_name[one.relation] = built_node(one, world, by_name, 100 + index)
    return by_name


def built_node(
    one: Node,
    world: Project,
    relations: Mapping[Relation, RelationState],
    snapshot: int,
    reason: Reason = Reason.FIRST_RUN,
    same_in: tuple[frozenset[str], ...] = (),
    **more: str,
) -> RelationState:
    """A node as it stands after it was built from what stood then, for a reason."""
    identity = CommitIdentity(
        model=one.name,
        local_hash=one.local_hash,
        query_hash=one.query_hash,
        config_hash=one.config_hash,
        sources=record_sources(list_versions_read(one, world, relations)),
        functions=encode_functions(one),
        written_hash=one.written_hash,
        **more,
    )
    if one.type == "model" and one.kind != "view":
        before = relations[one.relation].identity if one.relation in relations else CommitIdentity()
        done = compute_replay(one, reason, world, relations, Options())
        event = ReplayEvent(f"run {snapshot}", done, same_in) if done is not None else None
        replays, seen = encode_events(parse_events(before), event), encode_seen(list_inputs(one, world), relations)
        identity = replace(identity, replays=replays, replays_seen=seen)
    is_view = one.kind == "view"
    return RelationState(is_view, version(snapshot, None if is_view else f"rows of {snapshot}"), identity)


def observed(relations: Mapping[Relation, RelationState], known: tuple[str, ...] = ()) -> Observed:
    return Observed(relations, known_nodes=frozenset(known))


def changed(relations: Mapping[Relation, RelationState], name: str, **changes: object) -> dict[Relation, RelationState]:
    """The same lake, but for one relation."""
    relation = Relation.parse(name)
    return {**relations, relation: replace(relations[relation], **changes)}  # type: ignore[arg-type]


def without(relations: Mapping[Relation, RelationState], *names: str) -> dict[Relation, RelationState]:
    gone = {Relation.parse(name) for name in names}
    return {r: s for r, s in relations.items() if r not in gone}
