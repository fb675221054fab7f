"""Values of virtual environments: bindings, refs, environments, checkpoints. No I/O here.

A *version* of a node is what its definition and everything above it make of it; it has one hash and one physical table.
A *binding* is one version at one snapshot, with the text of the view that shows it. An environment is a set of bindings
by the nodes' names, its *refs*; a checkpoint is such a set that was finished at some time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from sqb.identity import digest
from sqb.names import Relation

NodeType = Literal["model", "seed", "function"]


class Status(StrEnum):
    """What an environment is fit for."""

    # All nodes are at the versions that the project had when it was last built or promoted to.
    FINALIZED = "finalized"
    # Some nodes are not: a part was built.
    ACTIVE = "active"
    # Nothing may be done with it until it is attached again.
    DETACHED = "detached"

    @property
    def label(self) -> str:
        """The status as plans and builds say it: what is active is being worked on."""
        return "working" if self is Status.ACTIVE else str(self)


@dataclass(frozen=True, slots=True)
class Binding:
    """One version of a node at one snapshot, and the view that shows it. Never changes; its id is made of its content.

    A function has no relation: it is written into the queries that call it, and its version is all there is of it.
    """

    name: str
    type: NodeType
    kind: str
    local_hash: str
    version_hash: str
    # The physical table or view; None for a function.
    relation: Relation | None = None
    snapshot_id: int | None = None
    # The query of the logical view, and its columns: a JSON list of Iceberg's fields.
    text: str = ""
    columns: str = "[]"
    description: str = ""
    # The versions of the nodes that this version is made from, by their names.
    upstream: Mapping[str, str] = field(default_factory=dict)
    # The physical tables and snapshots that its view reads: its own table, or what a view is made from.
    reads: tuple[tuple[str, int], ...] = ()
    # The relation of the model where there are no environments: what the names of views are made of.
    logical: Relation = Relation("", "")

    @property
    def id(self) -> str:
        return digest("binding", json.dumps(self.to_data(), sort_keys=True))

    def to_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "kind": self.kind,
            "local_hash": self.local_hash,
            "version_hash": self.version_hash,
            "relation": str(self.relation) if self.relation is not None else None,
            "snapshot_id": self.snapshot_id,
            "text": self.text,
            "columns": self.columns,
            "description": self.description,
            "upstream": dict(self.upstream),
            "reads": [list(r) for r in self.reads],
            "logical": str(self.logical),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Binding:
        relation = data["relation"]
        return cls(
            **{
                **data,
                "relation": Relation.parse(relation) if relation is not None else None,
                "reads": tuple((r, s) for r, s in data["reads"]),
                "logical": Relation.parse(data["logical"]),
            }
        )


@dataclass(frozen=True, slots=True)
class Ref:
    """What an environment shows for one node."""

    binding: Binding
    # The version at which this environment and its baseline last agreed on the node; "" where they never did.
    base: str = ""
    # The metadata file of the logical view as it was last made here; another location is the work of another writer.
    location: str = ""
    # The token of the checks that passed on these rows in this environment; others may have other checks.
    checks: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """What a version of a node is: kept to tell what changed, and to know which tables are whose."""

    name: str
    version_hash: str
    local_hash: str
    query_hash: str
    config_hash: str
    # By which rules the hashes were made, and what they were made from.
    canonical: str
    definition: str
    # The hashes of the functions and macros that it uses.
    functions: Mapping[str, str] = field(default_factory=dict)
    relation: Relation | None = None
    created_at: datetime | None = None
    run_id: str = ""
    # Of the sources that it reads: which tables they are, and how they are declared.
    sources: str = ""
    # Of the sessions that make its rows, where the project says something about them; None when it was not recorded.
    settings: str | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment without its refs."""

    name: str
    status: Status
    created_at: datetime
    updated_at: datetime
    created_by: str = ""
    # The environment that it began as.
    baseline: str = ""
    # The checkpoint that it is at, or that it left with a build of a part; "" before the first.
    checkpoint: str = ""
    run_id: str = ""
    # Seconds that it lives after its last build or promotion; for ever if None.
    ttl: float | None = None
    # The status to return to when it is attached again.
    was: str = ""
    # The checkpoint of its baseline that it began as; "" where there was none.
    began: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What an environment showed once everything in it fitted together."""

    id: str
    environment: str
    # The one before it, "" for the first: rolling back goes along these.
    parent: str
    created_at: datetime
    # build, promote
    reason: str
    # In words, for people: what was promoted from where.
    detail: str
    run_id: str
    git: str
    # The ids of bindings by the nodes' names.
    refs: Mapping[str, str]
    # Of increasing number within an environment, for people to type.
    number: int = 0
    # The environment that was promoted to this one; "" for another reason.
    promoted_from: str = ""


@dataclass(frozen=True, slots=True)
class Journal:
    """What an environment is about to become: written before views change, gone when the refs have followed."""

    id: str
    environment: Environment
    # All refs that it will have; their locations are filled in when the views have been made.
    refs: Mapping[str, Ref]
    # The views to make or, without a text, to remove, and the metadata file that each is at now ("" for none).
    moves: tuple[Move, ...]
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One view of an environment that is made, replaced or removed."""

    relation: Relation
    # None when it is removed.
    name: str | None
    before: str = ""


@dataclass(frozen=True, slots=True)
class LockInfo:
    """Who works on an environment."""

    environment: str
    owner: str
    since: datetime
    token: str
    # Whether the holder is alive; None where that is unknown.
    alive: bool | None = True
