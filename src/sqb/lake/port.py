"""The storage port: what the rest of sqb may ask of a lake, and the values it answers with.

Planning uses only `pointers` and `tables`, which must not load pyiceberg. Everything that writes is conditional on
what the caller has seen (`Base`), and carries its identity in the same commit as its rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, overload

from sqb.errors import Conflict
from sqb.lake.state import (
    FAILURES,
    FINGERPRINTS,
    FRESHNESS,
    NODE_RESULTS,
    FailedRow,
    Fingerprint,
    FingerprintKey,
    FreshnessRow,
    NodeResult,
)
from sqb.names import Relation

STAGE_SCHEMA = "_sqlbuild_stage"
STATE_TABLES = (FINGERPRINTS.name, FRESHNESS.name, NODE_RESULTS.name, FAILURES.name)
# Properties of a clone: the table and snapshot that it was made from, the tag that keeps their files, and every table
# that has this tag.
CLONE_OF = "sqb.clone_of"
CLONE_SNAPSHOT = "sqb.clone_snapshot"
CLONE_TAG = "sqb.clone_tag"
CLONE_ROOTS = "sqb.clone_roots"
# When it was made, in milliseconds since 1970.
CLONE_MADE = "sqb.clone_made"


@dataclass(frozen=True, slots=True)
class Pointer:
    """What the catalog says of one relation: where its metadata is now, and whether it is a view."""

    relation: Relation
    location: str
    is_view: bool = False


class ColumnState(NamedTuple):
    """A column as the table's metadata has it: the field id tells a renamed column from a new one."""

    name: str
    type: str
    id: int = 0


class Columns(Sequence[ColumnState]):
    """The columns of a table in order, decoded when somebody looks: a plan holds tens of thousands and needs few."""

    __slots__ = ("_decoded", "text")

    def __init__(self, text: str = "[]") -> None:
        self.text = text
        self._decoded: tuple[ColumnState, ...] | None = None

    @classmethod
    def of(cls, columns: Iterable[ColumnState]) -> Columns:
        return cls(json.dumps(list(columns), separators=(",", ":")))

    def _columns(self) -> tuple[ColumnState, ...]:
        if self._decoded is None:
            self._decoded = tuple(map(ColumnState._make, json.loads(self.text)))
        return self._decoded

    @overload
    def __getitem__(self, index: int) -> ColumnState: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ColumnState, ...]: ...
    def __getitem__(self, index: int | slice) -> ColumnState | tuple[ColumnState, ...]:
        return self._columns()[index]

    def __iter__(self) -> Iterator[ColumnState]:
        return iter(self._columns())

    def __len__(self) -> int:
        return len(self._columns())

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Columns) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Columns({self.text})"


def shape_key(schema_id: int, token: str) -> str:
    """What tells the columns of one table from those that it had at another time, by their ids too."""
    return f"{schema_id}:{token}"


@dataclass(frozen=True, slots=True)
class TableState:
    """What one metadata file says of a table or view; a pure function of that immutable file."""

    uuid: str
    is_view: bool = False
    location: str = ""
    snapshot_id: int | None = None
    # Snapshots with the same rows as the current one: itself and those before it, as far as nothing but compactions
    # and commits without files lies between.
    same_rows: tuple[int, ...] = ()
    schema_id: int = 0
    # The schema of the current snapshot; it differs from `columns` after an ALTER TABLE without a write.
    snapshot_columns: Columns = Columns()
    columns: Columns = Columns()
    columns_token: str = ""
    rows: int | None = None
    # The sqb.* properties of the commit that made the rows; empty when sqb did not make them.
    identity: Mapping[str, str] = field(default_factory=dict)
    # The table was made by sqb once, but its rows, columns or view text are not those that sqb left.
    drifted: bool = False
    # The sqb.* properties of the table itself: what was said of it after its rows had been published.
    properties: Mapping[str, str] = field(default_factory=dict)
    # The sqb.* properties of the last commit that sqb made, where the rows are not from it any more.
    left: Mapping[str, str] = field(default_factory=dict)
    # The columns that it had before, as far as its metadata remembers, by `shape_key`.
    former: Mapping[str, Columns] = field(default_factory=dict)
    # When its rows came, compactions and commits without files not counted, and when sqb last committed to it; in
    # milliseconds since 1970.
    rows_ms: int | None = None
    made_ms: int | None = None

    @property
    def base(self) -> Base:
        return Base(self.uuid, self.snapshot_id, self.schema_id)


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """What one snapshot did, as far as its summary tells; None where it does not."""

    id: int
    operation: str
    added_rows: int | None
    removed_rows: int | None
    # It, or one before it, has files that hide rows of other files.
    delete_files: bool = False
    # Its columns are the ones that the table has today, by their ids too.
    same_columns: bool = True


@dataclass(frozen=True, slots=True)
class Base:
    """The version of a table that a write starts from; the write is refused when the table has moved on."""

    uuid: str
    snapshot_id: int | None
    schema_id: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column to be written: its name, its type in Spark's JSON notation, and what is said of it."""

    name: str
    type: Any
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table is to look like."""

    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    # Rows that are there already stay: a column may only become wider, and keeps its values.
    keeps_rows: bool = False
    # The table is somebody else's to lay out: what it has of partitions, order and properties stays as it is.
    keeps_layout: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """An invisible twin of the table to be: rows are written here once, then published or discarded."""

    relation: Relation
    target: Relation
    base: Base | None
    data_path: str
    # The target has these columns, this layout and these properties already.
    same_shape: bool = False
    twin: Any = None
    # The view whose place it takes.
    view: Base | None = None
    # Spark sorts rows by range before it writes them here.
    sorts: bool = False


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A data file of a table, and the way to its rows: in their order, as Arrow batches of some columns."""

    path: str
    read: Callable[[Sequence[str]], Iterator[Any]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Held:
    """Files that may hold certain rows; with `whole` they are all files, and only all of them can be replaced."""

    files: tuple[HeldFile, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is alive or that ended without being finished; None where nobody here can tell which."""

    id: str
    alive: bool | None
    owner: str
    started: float
    # What it should have written down has been looked after since.
    settled: bool = False


@dataclass(slots=True)
class RunHandle:
    """What a run holds while it is alive; one that is not finished when it ends leaves a trace."""

    finished: bool = False


@dataclass(frozen=True, slots=True)
class ViewMove:
    """A view that is to be made or replaced, or removed where it has no text; `before` is its metadata file now."""

    relation: Relation
    text: str | None
    # Its columns, a JSON list of fields as Iceberg writes them.
    columns: str = "[]"
    properties: Mapping[str, str] = field(default_factory=dict)
    # "" where nothing stands yet.
    before: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """A commit that is visible now."""

    snapshot_id: int
    state: TableState


class Lake(Protocol):
    """A catalog and its storage."""

    def pointers(self) -> Mapping[Relation, Pointer]:
        """Every relation of the catalog, in one query."""

    def tables(self, pointers: Iterable[Pointer]) -> Mapping[Relation, TableState]:
        """The state behind each pointer."""

    def ensure_schemas(self, schemas: Iterable[str]) -> None:
        """Create the schemas that are not there yet."""

    def running(self, run_id: str, owner: str) -> AbstractContextManager[RunHandle]:
        """Be known as alive; `owner` says whose run it is."""

    def runs(self) -> Mapping[str, Run]:
        """Every run that is alive, or that ended without being finished."""

    def settle(self, run_id: str) -> None:
        """Note that the history of a dead run has been looked after."""

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        """Make an empty, invisible twin with the shape that `target` is to have.

        `base` is the table that it continues, `view` the view whose place it takes.
        """

    def publish(self, stage: Stage, summary: Mapping[str, str], gone: Collection[str] | None = None) -> Published:
        """Make the stage's rows the rows of its target, in one commit that carries `summary`.

        They take the place of all rows, or of those in the data files `gone`; with no file gone they are added.
        """

    def has_snapshot(self, relation: Relation, snapshot_id: int) -> bool:
        """Whether a snapshot of a table can still be read, on whatever branch it is."""

    def changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> Mapping[str, Sequence[Any]]:
        """For each column that partitions all files which these snapshots added or removed: the values it had."""

    def files_with(self, relation: Relation, column: str, values: Collection[Any]) -> Sequence[str] | None:
        """The data files that hold these values of a column; None when the column does not partition all files."""

    def lineage(self, relation: Relation) -> tuple[SnapshotInfo, ...]:
        """The snapshots that led to a table's current one, newest first; those that expired are not among them."""

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        """Append small rows, given column by column, to a stage without Spark."""

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        """Append Arrow record batches with columns of the stage to it without Spark, a file at a time."""

    def held_near(self, relation: Relation, base: Base, keys: Any) -> Held:
        """The data files of a table that may hold rows with these keys, an Arrow table of values by columns' names."""

    def clone(
        self,
        source: Relation,
        snapshot_id: int,
        target: Relation,
        summary: Mapping[str, str],
        base: Base | None,
        run_id: str,
    ) -> Published:
        """Make `target` a table with the rows of a snapshot of `source`, without writing one of them.

        It takes the place of what stood at `base`, under the identity in `summary`; the files are shared, and stay for
        as long as either table needs them.
        """

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> Published:
        """Commit a new identity without touching a row."""

    def mark(self, target: Relation, base: Base, properties: Mapping[str, str]) -> Published:
        """Set properties of a table without a new snapshot, wherever its rows have got to; refused of another table."""

    def discard(self, stage: Stage) -> None:
        """Remove a stage and everything written to it."""

    def publish_view(self, staged: Relation, target: Relation, base: Base | None) -> None:
        """Put a view that was made under another name in the place of what stood at `base`, in one step."""

    def discard_view(self, staged: Relation) -> None:
        """Remove a view that was made under another name."""

    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        """Make, replace and remove views at once, and tell the metadata files of those that stand now.

        All of it happens or nothing, where the catalog has transactions; refused when one is not where it was.
        """

    def forget_schemas(self, schemas: Iterable[str]) -> None:
        """Take schemas out of the catalog that hold nothing, and of which nothing but their being there is said."""

    def view_columns(self, relations: Iterable[Relation]) -> Mapping[Relation, str]:
        """The columns of tables and views as a view on them needs them: a JSON list of Iceberg's fields."""

    def committed_at(self, relation: Relation, snapshot_id: int) -> datetime | None:
        """When a snapshot of a table, or a version of a view, was made."""

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        """Add what nodes are now, with one commit per target schema."""

    def append_node_results(self, rows: Iterable[NodeResult]) -> None:
        """Add how nodes ended, with one commit per target schema."""

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        """Add the versions of sources that were seen, with one commit per target schema."""

    def append_failures(self, rows: Iterable[FailedRow]) -> None:
        """Add rows that violate checks, with one commit per target schema."""

    def failures(self, schemas: Iterable[str]) -> Sequence[FailedRow]:
        """The rows that violated checks in these schemas, oldest first."""

    def fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        """The latest fingerprint of each node in these schemas."""

    def freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        """The latest observation of each source in these schemas."""

    def node_results(
        self,
        schemas: Iterable[str],
        *,
        node_name: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[NodeResult]:
        """How nodes ended in these schemas, newest first."""


def conflict(target: Relation, what: str = "another build or a manual write changed it") -> Conflict:
    """The error of a write to a table that is not what the writer has seen."""
    return Conflict(
        f"{target} moved while it was being built: {what}; nothing was overwritten",
        hint="run the build again: it starts from what is there now",
    )
