"""A dbt project as planning sees it, what is known of the world, and the plan: frozen values.

Nothing here runs dbt, reads files or looks at the lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqb.names import Relation

Action = Literal["run", "skip", "blocked"]
Reason = Literal[
    "first run",
    "relation missing",
    "checksum changed",
    "full refresh",
    "upstream_changed",
    "source_freshness_changed",
    "source_freshness_error",
    "requested",
    "no change",
]
# What is built, in dbt's words; everything else that is run only looks at it.
BUILT = ("model", "seed", "snapshot")
# What each command of dbt runs.
RUN_BY = {
    "build": (*BUILT, "test", "unit_test"),
    "run": ("model",),
    "test": ("test", "unit_test"),
    "seed": ("seed",),
    "snapshot": ("snapshot",),
}
# Of its rows in the state tables.
NODE_TYPE = "dbt"


@dataclass(frozen=True, slots=True)
class DbtNode:
    """A model, seed, snapshot, test or unit test of the manifest."""

    unique_id: str
    # model, seed, snapshot, test or unit_test.
    resource_type: str
    name: str
    fqn: tuple[str, ...]
    package: str
    # None for what leaves no relation: ephemeral models, tests.
    relation: Relation | None
    # The schema whose `_sqlbuild_fingerprints` holds its row.
    schema: str
    # table, view, incremental, ephemeral, seed, snapshot, test, unit or a materialisation of the project's own.
    materialized: str
    # sql or python.
    language: str
    # dbt's own.
    checksum: str
    identity: str
    # The hashes that the identity is made of, by what they are about: see `identity.PARTS`.
    parts: Mapping[str, str] = field(default_factory=dict)
    # The nodes and sources that it reads, by unique id, in dbt's order.
    depends_on: tuple[str, ...] = ()
    # The node that a test belongs to.
    attached: str | None = None
    # Its file, relative to the dbt project.
    path: str = ""
    # As it is written in its file.
    code: str = ""
    # The same compiled SQL means the same rows: no hooks, not incremental, not Python.
    determined_by_sql: bool = False
    # Of a model with versions: the one that its name means.
    is_latest: bool = True

    @property
    def is_built(self) -> bool:
        """Whether it leaves a relation behind."""
        return self.resource_type in BUILT and self.materialized != "ephemeral"

    @property
    def is_ephemeral(self) -> bool:
        return self.resource_type == "model" and self.materialized == "ephemeral"

    @property
    def is_test(self) -> bool:
        return self.resource_type in ("test", "unit_test")


@dataclass(frozen=True, slots=True)
class DbtSource:
    """A source of the manifest and its freshness policy; ages in seconds."""

    unique_id: str
    # `source.table`, as people call it.
    name: str
    relation: Relation
    # A column, or an expression that is asked of Spark.
    loaded_at_field: str | None = None
    loaded_at_query: str | None = None
    filter: str | None = None
    warn_after: float | None = None
    error_after: float | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class DbtProject:
    """A summary of a manifest: what planning needs of it, nodes in an order in which they can run."""

    name: str
    dbt_version: str
    nodes: Mapping[str, DbtNode]
    sources: Mapping[str, DbtSource] = field(default_factory=dict)
    # The unique ids that `dbt ls` selected, by the arguments that it was given (see `manifest.encode_selection`).
    selections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adapter: str = "spark"

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas that hold state of its nodes."""
        return tuple(sorted({n.schema for n in self.nodes.values()}))


# --- what is known of the world ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DbtVersion:
    """A version of the data of a relation, so that two can be compared."""

    # snapshot: the first of a table that has its rows; value: the greatest value of a column; beneath: of what a view
    # or ephemeral model reads; identity: of a definition, for those who do not look at rows; run: of the run that
    # built what is not in the catalog.
    kind: Literal["snapshot", "value", "beneath", "identity", "run"]
    value: str
    # Other values of the same rows.
    same: tuple[str, ...] = ()
    # A checksum of the rows, where one is known.
    content: str | None = None

    def to_record(self) -> list[Any]:
        """What is written beside what was made from it."""
        return [self.kind, self.value] if self.content is None else [self.kind, self.value, self.content]

    def is_same(self, recorded: list[Any] | None) -> bool:
        """Whether this is the version that was recorded."""
        if not recorded or recorded[0] != self.kind:
            return False
        if len(recorded) > 2 and self.content is not None and recorded[2] == self.content:
            return True
        return recorded[1] == self.value or recorded[1] in self.same


@dataclass(frozen=True, slots=True)
class DbtRelationState:
    """The current state of the relation of a node or source."""

    # In the catalog of the connection. What is not may have been dropped, or be somewhere else.
    exists: bool
    is_view: bool = False
    # None for views, and where it is unknown.
    version: DbtVersion | None = None
    # Only for sources: how old its data is, in seconds, where something tells.
    age: float | None = None


@dataclass(frozen=True, slots=True)
class DbtStored:
    """What a fingerprint tells of a node as it last succeeded."""

    unique_id: str
    identity: str
    checksum: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    compiled: str | None = None
    # Versions of what it was made from, by unique id, each as `DbtVersion.to_record` wrote it.
    inputs: Mapping[str, list[Any]] = field(default_factory=dict)
    # The relation that it was built as, and whether that was in the catalog afterwards.
    relation: Relation | None = None
    in_catalog: bool = True
    # Of its own rows after the run, where that was asked for.
    content: str | None = None
    # The snapshot that the run left.
    snapshot: str | None = None
    run_id: str = ""
    # As it was written in its file.
    code: str | None = None
    # The option with which dbt made something else of it than what it says, such as --empty.
    partial: str = ""


@dataclass(frozen=True, slots=True)
class DbtObserved:
    """What is known of the world when a plan is made, all by unique id."""

    stored: Mapping[str, DbtStored] = field(default_factory=dict)
    # Of nodes and sources; what is not here was not looked for, and is assumed to exist.
    states: Mapping[str, DbtRelationState] = field(default_factory=dict)
    # Changed models whose compiled SQL proved to mean the same.
    same_compiled: frozenset[str] = frozenset()
    # Sources that sqb models fill which are about to run or are blocked: the reason, by the source's id.
    pending: Mapping[str, str] = field(default_factory=dict)
    blocked: Mapping[str, str] = field(default_factory=dict)
    # What could not be observed, in words.
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DbtOptions:
    """What a plan is asked for."""

    # The ids that `dbt ls` selected; None for all.
    selected: tuple[str, ...] | None = None
    full_refresh: bool = False
    # `[dbt] replay_on_change`: forward_only or full.
    replay_on_change: str = "forward_only"
    # build, run, test, seed or snapshot: `RUN_BY` lists what it runs.
    command: str = "build"
    # Everything that is selected runs, whether it changed or not.
    everything: bool = False


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DbtPlanned:
    """What is to happen to one node, and why."""

    unique_id: str
    resource_type: str
    action: Action
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DbtPlan:
    """What dbt is to run, in an order in which it can run."""

    nodes: tuple[DbtPlanned, ...]
    # --full-refresh is to be given to dbt.
    full_refresh: bool = False
    # Changed models that may mean the same: `dbt compile` would tell.
    uncertain: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def filter_nodes(self, action: Action) -> tuple[DbtPlanned, ...]:
        return tuple(n for n in self.nodes if n.action == action)

    @property
    def models(self) -> tuple[DbtPlanned, ...]:
        return tuple(n for n in self.nodes if n.resource_type == "model")

    @property
    def others(self) -> tuple[DbtPlanned, ...]:
        """Seeds, snapshots and tests."""
        return tuple(n for n in self.nodes if n.resource_type != "model")

    @property
    def runs(self) -> tuple[str, ...]:
        """The unique ids that dbt is to run."""
        return tuple(n.unique_id for n in self.nodes if n.action == "run")
