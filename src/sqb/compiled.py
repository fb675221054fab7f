"""The compiled project: every node with its resolved references and its identity, as plain data.

It is what planning and building work on, and what is kept in `.sqb/cache` between runs. It knows nothing of how the
files were read, nor of what is true in the lake.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

from sqb.names import At, Relation, place
from sqb.sql.spans import Piece, Reference, trace

NodeType = Literal["model", "seed"]


@dataclass(frozen=True, slots=True)
class External:
    """A table that the project reads and does not build."""

    name: str
    relation: Relation
    declared: bool
    # Where it is read first, for the error when it does not exist.
    at: At


@dataclass(frozen=True, slots=True)
class Node:
    """Something the project builds."""

    name: str
    type: NodeType
    kind: str
    relation: Relation
    file: str
    local_hash: str
    query_hash: str
    config_hash: str
    version_hash: str
    # Names of nodes and externals that it reads, each once, sorted.
    upstream: tuple[str, ...] = ()
    sql: str = ""
    slots: tuple[Reference, ...] = ()
    # The node or external behind each slot.
    reads: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    definition: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    volatile: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """All nodes, each after everything that it reads."""

    name: str
    target: str
    nodes: Mapping[str, Node]
    externals: Mapping[str, External]
    # Relations of nodes that are switched off or not of this target are not here.
    schemas: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())


def known_names(project: Project) -> list[str]:
    """The names that a reference could have meant, for a did-you-mean."""
    return [x for n in project for x in (n.name, n.name.rpartition(".")[2])] + list(project.externals)


def source_place(node: Node, text: str, offset: int, length: int) -> At:
    """Where in a model's file an offset of its query came from."""
    return place(text, trace(node.pieces, offset), node.file, length)


def dump(project: Project) -> str:
    """A project as text."""
    nodes = [
        [
            n.name,
            n.type,
            n.kind,
            [n.relation.schema, n.relation.name],
            n.file,
            [n.local_hash, n.query_hash, n.config_hash, n.version_hash],
            n.upstream,
            n.sql,
            [astuple(s) for s in n.slots],
            n.reads,
            [astuple(p) for p in n.pieces],
            n.settings,
            n.definition,
            n.tags,
            n.description,
            n.volatile,
        ]
        for n in project
    ]
    externals = [
        [e.name, e.relation.schema, e.relation.name, e.declared, astuple(e.at)] for e in project.externals.values()
    ]
    return json.dumps([project.name, project.target, nodes, externals, project.schemas], separators=(",", ":"))


def load(text: str) -> Project:
    """The project in a text that `dump` made."""
    name, target, nodes, externals, schemas = json.loads(text)
    return Project(
        name,
        target,
        {n[0]: _node(n) for n in nodes},
        {e[0]: External(e[0], Relation(e[1], e[2]), e[3], At(*e[4])) for e in externals},
        tuple(schemas),
    )


def _node(n: list[Any]) -> Node:
    local, query, config, version = n[5]
    return Node(
        n[0],
        n[1],
        n[2],
        Relation(*n[3]),
        n[4],
        local,
        query,
        config,
        version,
        tuple(n[6]),
        n[7],
        tuple(Reference(tuple(p), s, e, a, tuple(map(tuple, q)), k, f) for p, s, e, a, q, k, f in n[8]),
        tuple(n[9]),
        tuple(Piece(*p) for p in n[10]),
        n[11],
        n[12],
        tuple(n[13]),
        n[14],
        tuple(n[15]),
    )
