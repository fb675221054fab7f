"""Projects and lakes made by hand, in a few words: what planning is tested on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqb import identity
from sqb.compiled import External, Node, NodeType, Project
from sqb.compiled_python import PythonNode, PythonType
from sqb.names import At, Relation
from sqb.plan.cascade import REPLAYS, SEEN, Event, events_in, record_events, record_seen
from sqb.plan.functions import recorded
from sqb.plan.observed import Observed, Standing, Version, inputs_of, versions_read
from sqb.plan.python_nodes import PythonSeen, python_above, recorded_tables
from sqb.plan.replaying import replay_now
from sqb.plan.values import Options, Reason

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
        local_hash=identity.local_hash(f"{name} {query}", config, functions),
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


def ran(world: Project, relations: Mapping[Relation, Standing], run_id: str = "run 1") -> dict[str, PythonSeen]:
    """What is known of Python nodes after all of them have run."""
    return {
        n.name: PythonSeen(
            run_id,
            n.local_hash,
            n.source_hash,
            n.config_hash,
            n.dependencies,
            recorded_tables(n, world, relations),
            dict.fromkeys(python_above(n, world), run_id),
        )
        for n in world.python.values()
    }


def version(snapshot: int, content: str | None = None, columns: str = COLUMNS) -> Version:
    return Version(snapshot, (), content, columns)


def source(snapshot: int, columns: str = COLUMNS) -> Standing:
    """A table that somebody else writes."""
    return Standing(version=version(snapshot, columns=columns))


def built(world: Project, relations: Mapping[Relation, Standing] = {}) -> dict[Relation, Standing]:
    """What stands after everything was built once, on top of what stood before."""
    found = dict(relations)
    for index, one in enumerate(world):
        found[one.relation] = built_node(one, world, found, 100 + index)
    return found


def built_node(
    one: Node,
    world: Project,
    relations: Mapping[Relation, Standing],
    snapshot: int,
    reason: Reason = Reason.FIRST_RUN,
    same_in: tuple[frozenset[str], ...] = (),
    **more: str,
) -> Standing:
    """A node as it stands after it was built from what stood then, for a reason."""
    read = {i.key: v.record() for i, v in versions_read(one, world, relations)}
    properties = {
        "sqb.model": one.name,
        "sqb.local_hash": one.local_hash,
        "sqb.query_hash": one.query_hash,
        "sqb.config_hash": one.config_hash,
        "sqb.sources": json.dumps(read),
        **recorded(one),
        **{f"sqb.{key}": text for key, text in more.items()},
    }
    if one.type == "model" and one.kind != "view":
        before = relations[one.relation].identity if one.relation in relations else {}
        done = replay_now(one, reason, world, relations, Options())
        event = Event(f"run {snapshot}", done, same_in) if done is not None else None
        properties[REPLAYS] = record_events(events_in(before), event)
        properties[SEEN] = record_seen(inputs_of(one, world), relations)
    is_view = one.kind == "view"
    return Standing(is_view, version(snapshot, None if is_view else f"rows of {snapshot}"), properties)


def observed(relations: Mapping[Relation, Standing], known: tuple[str, ...] = ()) -> Observed:
    return Observed(relations, known=frozenset(known))


def changed(relations: Mapping[Relation, Standing], name: str, **changes: object) -> dict[Relation, Standing]:
    """The same lake, but for one relation."""
    relation = Relation.parse(name)
    return {**relations, relation: replace(relations[relation], **changes)}  # type: ignore[arg-type]


def without(relations: Mapping[Relation, Standing], *names: str) -> dict[Relation, Standing]:
    gone = {Relation.parse(name) for name in names}
    return {r: s for r, s in relations.items() if r not in gone}
