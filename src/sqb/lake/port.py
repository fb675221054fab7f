"""The storage port: the operations that the rest of sqb calls on a lake, and the values that they return.

Planning uses only `list_pointers` and `read_tables`, which must not load pyiceberg. Every write is conditional on what
the caller has read (`Base`), and carries its identity in the same commit as its rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, overload

from sqb.errors.lake import Conflict
from sqb.lake.state.rows import (
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
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity

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
    """The catalog's entry for one relation: where its current metadata is, and whether it is a view."""

    relation: Relation
    location: str
    is_view: bool = False


class ColumnState(NamedTuple):
    """A column as the table's metadata has it: the field id tells a renamed column from a new one."""

    name: str
    type: str
    id: int = 0


class Columns(Sequence[ColumnState]):
    """The columns of a table in order, decoded on first access: a plan holds tens of thousands and needs few."""

    __slots__ = ("_decoded", "text")

    def __init__(self, text: str = "[]") -> None:
        self.text = text
        self._decoded: tuple[ColumnState, ...] | None = None

    @classmethod
    def of(cls, columns: Iterable[ColumnState]) -> Columns:
        return cls(json.dumps(list(columns), separators=(",", ":")))

    def to_cache(self) -> str:
        """What stands for it in a cache."""
        return self.text

    @classmethod
    def from_cache(cls, text: str) -> Columns:
        """What `to_cache` stands for."""
        return cls(text)

    def _decode(self) -> tuple[ColumnState, ...]:
        if self._decoded is None:
            self._decoded = tuple(map(ColumnState._make, json.loads(self.text)))
        return self._decoded

    @overload
    def __getitem__(self, index: int) -> ColumnState: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ColumnState, ...]: ...
    def __getitem__(self, index: int | slice) -> ColumnState | tuple[ColumnState, ...]:
        return self._decode()[index]

    def __iter__(self) -> Iterator[ColumnState]:
        return iter(self._decode())

    def __len__(self) -> int:
        return len(self._decode())

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Columns) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Columns({self.text})"


def format_shape_key(schema_id: int, token: str) -> str:
    """Format the key of one set of columns that a table has or had; field ids count."""
    return f"{schema_id}:{token}"


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table or view, derived from one immutable metadata file alone."""

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
    # What the commit that made the rows says of them; empty when sqb did not make them.
    identity: CommitIdentity = CommitIdentity()
    # The table was made by sqb once, but its rows, columns or view text are not those that sqb left.
    drifted: bool = False
    # The sqb.* properties of the table itself, which may be set after its rows were published.
    properties: Mapping[str, str] = field(default_factory=dict)
    # What the last commit that sqb made says, where the rows are not from it any more.
    last_identity: CommitIdentity = CommitIdentity()
    # The columns that it had before, as far as its metadata remembers, by `format_shape_key`.
    former_columns: Mapping[str, Columns] = field(default_factory=dict)
    # When its rows were committed, compactions and commits without files not counted, and when sqb last committed; in
    # milliseconds since 1970.
    rows_ms: int | None = None
    made_ms: int | None = None

    @property
    def base(self) -> Base:
        return Base(self.uuid, self.snapshot_id, self.schema_id)

    @property
    def known_identity(self) -> CommitIdentity:
        """The identity of the rows, or the last that sqb left where something else has written since."""
        return self.identity or self.last_identity


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """What one snapshot did, from its summary; None where the summary does not say."""

    id: int
    operation: str
    added_rows: int | None
    removed_rows: int | None
    # It, or one before it, has files that hide rows of other files.
    has_delete_files: bool = False
    # Its columns are the ones that the table has today, by their ids too.
    has_same_columns: bool = True
    # Data files, and their bytes.
    added_files: int | None = None
    removed_files: int | None = None
    added_bytes: int | None = None
    removed_bytes: int | None = None
    # What its new delete files hold: places of rows, or values that may stand in one row, in many or in none.
    deletes: int | None = None
    # Rows keep their ids when they are written anew.
    has_row_ids: bool = False
    # About how many rows the data files have whose rows its new delete files hide.
    rows_beside_hidden: int | None = None


@dataclass(frozen=True, slots=True)
class PastSnapshot:
    """One snapshot of a table that can still be read."""

    id: int
    at: datetime
    columns: Columns
    parent: int | None = None
    operation: str = ""
    # As far as its summary tells; None where it does not. Removed rows include those that delete files hide.
    added_rows: int | None = None
    removed_rows: int | None = None
    rows: int | None = None
    run_id: str = ""
    # The figures of the checks that passed on its rows, a JSON mapping; "" where it records none.
    figures: str = ""


@dataclass(frozen=True, slots=True)
class Base:
    """The version of a table that a write starts from; the write is refused when the table has moved on."""

    uuid: str
    snapshot_id: int | None
    schema_id: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column to be written: its name, its type in Spark's JSON notation, and its comment."""

    name: str
    type: Any
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns, layout and properties that a table gets."""

    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    # Rows that are there already stay: a column may only become wider, and keeps its values.
    keeps_rows: bool = False
    # Another tool lays out the table: its partitions, sort order and properties stay as they are.
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
    # The view that it replaces.
    view: Base | None = None
    # Spark sorts rows by range before it writes them here.
    is_range_sorted: bool = False


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A data file of a table, and the way to its rows: in their order, as Arrow batches of some columns."""

    path: str
    read: Callable[[Sequence[str]], Iterator[Any]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class FileScan:
    """Files that may hold certain rows; a full scan lists all files, and only all of them can be replaced."""

    files: tuple[ScanFile, ...]
    is_full_scan: bool = False


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some files of a table as a snapshot of an invisible one: all of their rows, or those that deletes hide."""

    snapshot_id: int
    # 1 where these rows are there now and were not before, -1 where it is the other way round.
    sign: int
    is_hidden: bool
    # At most so many.
    rows: int
    # Every row has an id that it keeps for life, and the sequence number of its last change.
    has_row_ids: bool = False


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """An invisible table with the files that tell what changed in another, to be dropped once they are read.

    The sum of its parts is the change, with rows that only moved among them once more and once less.
    """

    relation: Relation
    parts: tuple[FilePart, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """Ranges of values of a column, in order: whole numbers, days since 1970 or microseconds since then."""

    kind: Literal["bigint", "date", "timestamp"]
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is alive or that ended without being finished; `alive` is None where that is unknown."""

    id: str
    alive: bool | None
    owner: str
    started: float
    # A later command has recorded the history that it did not record itself.
    settled: bool = False


@dataclass(slots=True)
class RunHandle:
    """What a run holds while it is alive; one that is not finished when it ends leaves a trace."""

    finished: bool = False


@dataclass(frozen=True, slots=True)
class ViewSwap:
    """A view to create or replace, or to remove where `text` is None; `before` is its current metadata file."""

    relation: Relation
    text: str | None
    # Its columns, a JSON list of fields as Iceberg writes them.
    columns: str = "[]"
    properties: Mapping[str, str] = field(default_factory=dict)
    # "" where the catalog has no such view yet.
    before: str = ""


@dataclass(frozen=True, slots=True)
class PublishedCommit:
    """A commit that is visible now."""

    snapshot_id: int
    state: TableState


class Relations(Protocol):
    """The catalog: which tables and views there are, and their states."""

    @property
    def name(self) -> str:
        """The name under which Spark and dbt know the catalog."""

    def exists(self) -> bool:
        """Whether there is a catalog at all."""

    def list_pointers(self) -> Mapping[Relation, Pointer]:
        """Every relation of the catalog, in one query."""

    def read_tables(self, pointers: Iterable[Pointer]) -> Mapping[Relation, TableState]:
        """The state behind each pointer."""

    def read_commit_time(self, relation: Relation, snapshot_id: int) -> datetime | None:
        """When a snapshot of a table, or a version of a view, was made."""

    def ensure_schemas(self, schemas: Iterable[str]) -> None:
        """Create the schemas that are not there yet, and the catalog itself where there is none."""

    def drop_empty_schemas(self, schemas: Iterable[str]) -> None:
        """Drop those of the schemas that hold no relation and have no properties of their own."""

    def rename(self, pointer: Pointer, target: Relation) -> bool:
        """Give a relation another name, in one step; False when it has changed since, or when the name is taken.

        Its rows, snapshots and files stay what and where they are.
        """

    def drop_if_current(self, pointer: Pointer) -> bool:
        """Drop a relation from the catalog; False when its metadata file has changed since."""


class Tables(Relations, Protocol):
    """Tables: their snapshots and files, and the commits that change them."""

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        """Create an empty, invisible twin with the shape that `target` gets.

        `base` is the table that it continues, `view` the view whose place it takes.
        """

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        """Append small rows, given column by column, to a stage without Spark."""

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        """Append Arrow record batches with columns of the stage to it without Spark, a file at a time."""

    def publish(
        self, stage: Stage, summary: Mapping[str, str], replaced_files: Collection[str] | None = None
    ) -> PublishedCommit:
        """Make the stage's rows the rows of its target, in one commit that carries `summary`.

        They take the place of all rows, or of those in `replaced_files`; with an empty collection they are added.
        """

    def discard(self, stage: Stage) -> None:
        """Remove a stage and everything written to it."""

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> PublishedCommit:
        """Commit a new identity without touching a row."""

    def set_properties(self, target: Relation, base: Base, properties: Mapping[str, str]) -> PublishedCommit:
        """Set properties of a table without a new snapshot, whatever its snapshot is; refused for another table."""

    def clone(
        self,
        source: Relation,
        snapshot_id: int,
        target: Relation,
        summary: Mapping[str, str],
        base: Base | None,
        run_id: str,
    ) -> PublishedCommit:
        """Make `target` a table with the rows of a snapshot of `source`, without writing one of them.

        It replaces the table or view at `base`, under the identity in `summary`; the files are shared, and stay for
        as long as either table needs them.
        """

    def has_snapshot(self, relation: Relation, snapshot_id: int) -> bool:
        """Whether a snapshot of a table can still be read, on whatever branch it is."""

    def read_lineage(self, relation: Relation) -> tuple[SnapshotInfo, ...]:
        """The snapshots that led to a table's current one, newest first; those that expired are not among them."""

    def read_history(self, pointer: Pointer) -> Mapping[int, PastSnapshot]:
        """Every snapshot of a table that can still be read, by its id, oldest first."""

    def read_first_rows(self, relation: Relation, limit: int) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """The names of a table's columns, and at most so many of its rows, any of them; nothing where there is none."""

    def read_state_at_version(self, pointer: Pointer, version: str) -> TableState | None:
        """A table at a snapshot, a tag or a branch; None where it has no such version."""

    def read_state_at_time(self, pointer: Pointer, text: str, zone: str) -> TableState | None:
        """A table as it was at a time; None where it was not there yet, or the time cannot be parsed."""

    def find_changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> Mapping[str, Sequence[Any]]:
        """For each column that partitions all files which these snapshots added or removed: the values it had."""

    def find_changed_ranges(
        self, relation: Relation, old: int, new: int, columns: Collection[str]
    ) -> Mapping[str, ColumnRanges]:
        """Between which values of these columns the rows lie that changed between two snapshots, as far as is known."""

    def count_rows_in_ranges(
        self, relation: Relation, snapshot_id: int, column: str, ranges: ColumnRanges
    ) -> int | None:
        """The rows of a table's files that may hold such values; None where that is not known."""

    def find_files_with_values(self, relation: Relation, column: str, values: Collection[Any]) -> Sequence[str] | None:
        """The data files that hold these values of a column; None when the column does not partition all files."""

    def stage_changed_files(
        self, relation: Relation, old: int, new: int, columns: Collection[str], run_id: str
    ) -> ChangedFiles | None:
        """Make an invisible table of the files that tell what changed in some columns between two snapshots.

        None where files do not tell it, or where this lake cannot; then the rows have to be compared.
        """

    def drop_changed_files(self, changed: ChangedFiles) -> None:
        """Drop what `stage_changed_files` made; the files that it lists belong to another table, and stay."""

    def find_files_with_keys(self, relation: Relation, base: Base, keys: Any) -> FileScan:
        """The data files of a table that may hold rows with these keys, an Arrow table of values by columns' names."""

    def read_column_maximum(self, pointer: Pointer, column: str, filter_: str | None) -> object:
        """Read the exact maximum of a column from the statistics of a table's files; raises `NotInStatistics`."""

    def read_column_minimum(self, pointer: Pointer, column: str) -> object:
        """Read the exact minimum of a column from the statistics of a table's files; raises `NotInStatistics`."""

    def get_cached_answers(self, keys: Iterable[str]) -> Mapping[str, str]:
        """The answers to questions about tables that were cached under these keys, as far as there are any."""

    def cache_answers(self, answers: Mapping[str, str]) -> None:
        """Cache answers to questions about tables, where the lake has a cache."""


class Views(Relations, Protocol):
    """Views, which are made without Spark or put in place after Spark has made them."""

    def read_view_columns(self, relations: Iterable[Relation]) -> Mapping[Relation, str]:
        """The columns of tables and views as a view on them needs them: a JSON list of Iceberg's fields."""

    def publish_view(self, staged: Relation, target: Relation, base: Base | None) -> None:
        """Replace the relation at `base` by a view that was created under another name, in one step."""

    def discard_view(self, staged: Relation) -> None:
        """Remove a view that was created under another name."""

    def swap_views(self, swaps: Sequence[ViewSwap]) -> Mapping[Relation, str]:
        """Create, replace and remove views at once, and return the current metadata file of each.

        All changes are applied or none, where the catalog has transactions; refused when a view has changed since.
        """


class Runs(Protocol):
    """Which runs are alive."""

    def hold_run(self, run_id: str, owner: str) -> AbstractContextManager[RunHandle]:
        """Register a run as alive for the duration of the context; `owner` says whose run it is."""

    def list_runs(self) -> Mapping[str, Run]:
        """Every run that is alive, or that ended without being finished."""

    def settle_run(self, run_id: str) -> None:
        """Record that the history of a dead run is complete."""


class StateTables(Protocol):
    """The `_sqlbuild_*` tables: the history of nodes, sources, tests and checks."""

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        """Append the fingerprints of nodes, with one commit per target schema."""

    def append_node_results(self, rows: Iterable[NodeResult]) -> None:
        """Append the results of nodes, with one commit per target schema."""

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        """Append observed versions of sources, with one commit per target schema."""

    def append_failures(self, rows: Iterable[FailedRow]) -> None:
        """Add rows that violate checks, with one commit per target schema."""

    def read_failures(self, schemas: Iterable[str]) -> Sequence[FailedRow]:
        """The rows that violated checks in these schemas, oldest first."""

    def read_fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        """The latest fingerprint of each node in these schemas."""

    def read_freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        """The latest observation of each source in these schemas."""

    def read_node_results(
        self,
        schemas: Iterable[str],
        *,
        node_name: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[NodeResult]:
        """Read the results of nodes in these schemas, newest first."""


class Lake(Tables, Views, Runs, Protocol):
    """A catalog and its storage: all that a build asks for."""

    @property
    def state(self) -> StateTables:
        """Its state tables; those of an environment where the lake was opened for one."""


class NotInStatistics(Exception):
    """The statistics of a table's files do not hold the exact value; it has to be read from the rows."""


def build_conflict(target: Relation, what: str = "another build or a manual write changed it") -> Conflict:
    """Build the error of a write to a table that has changed since the writer read it."""
    return Conflict(
        f"{target} moved while it was being built: {what}; nothing was overwritten",
        hint="run the build again: it starts from what is there now",
    )
