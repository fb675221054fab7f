"""A lake in memory: tables, views and state in dictionaries, for tests; the contract suite runs on it too."""

from __future__ import annotations

import itertools
import json
import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from sqb.errors.lake import LakeError, UnsupportedType
from sqb.lake.commit.views import build_view_columns, build_view_document, is_swap_done, list_view_columns
from sqb.lake.metadata.table_state import VIEW_TEXT, compute_columns_token, compute_text_token, parse_state
from sqb.lake.port import (
    CLONE_MADE,
    CLONE_OF,
    CLONE_ROOTS,
    CLONE_SNAPSHOT,
    CLONE_TAG,
    STAGE_SCHEMA,
    Base,
    ChangedFiles,
    ColumnRanges,
    Columns,
    ColumnState,
    FileScan,
    Lake,
    NotInStatistics,
    PastSnapshot,
    Pointer,
    PublishedCommit,
    Run,
    RunHandle,
    ScanFile,
    Shape,
    SnapshotInfo,
    Stage,
    StateTables,
    TableState,
    ViewSwap,
    build_conflict,
    format_shape_key,
)
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
    Row,
    StateTable,
    find_latest_fingerprints,
    find_latest_freshness,
)
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import MODEL, PREFIX, CommitIdentity
from sqb.project.models.partitioning import parse_partition, parse_sort
from sqb.types.arrow import to_file_type
from sqb.types.iceberg import parse_stored_type


def build_batches(
    columns: Iterable[ColumnState], rows: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Some columns of rows."""
    values = dict(zip((c.name for c in columns), zip(*rows, strict=True), strict=False))
    kinds = {c.name: to_file_type(parse_stored_type(c.type)) for c in columns}
    arrays = [pa.array(values.get(name, ()), kinds[name]) for name in names]
    yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, kinds[name]) for name in names]))


_TYPES = {
    "byte": "int",
    "tinyint": "int",
    "short": "int",
    "smallint": "int",
    "integer": "int",
    "bigint": "long",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_SAME = frozenset(("boolean", "int", "long", "float", "double", "date", "string", "binary"))
# The one file that all rows of a table are in.
_ALL_ROWS = "memory:rows"
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def _make_location() -> str:
    return f"memory:{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class _Version:
    """A table or view as one commit left it."""

    state: TableState
    rows: tuple[tuple[Any, ...], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    # Properties that the model gave and may take back.
    owned: frozenset[str] = frozenset()
    layout: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    last_id: int = 0
    location: str = field(default_factory=_make_location)


@dataclass(slots=True)
class _OpenStage:
    shape: Shape
    rows: list[tuple[Any, ...]] = field(default_factory=list)


class MemoryLake(Lake):
    """Tables, views and state in dictionaries."""

    def __init__(self, transactions: bool = True) -> None:
        # Without them views are swapped one by one, as in a catalog without transactions.
        self.transactions = transactions
        # How many views can still be swapped before that fails, for tests.
        self.swaps_left: int | None = None
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._current: dict[Relation, _Version] = {}
        self._history: dict[str, _Version] = {}
        self._stages: dict[Relation, _OpenStage] = {}
        self._schemas: set[str] = set()
        self._state = MemoryStateTables(self)
        self._runs: dict[str, Run] = {}
        self._commit_times: dict[tuple[Relation, int], datetime] = {}
        self._tags: dict[Relation, dict[str, int]] = {}
        self._answers: dict[str, str] = {}
        self._snapshot_ids = itertools.count(1)
        self.lock = threading.RLock()

    @property
    def name(self) -> str:
        return "memory"

    @property
    def state(self) -> StateTables:
        return self._state

    # --- reading --------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        return True

    def list_pointers(self) -> Mapping[Relation, Pointer]:
        with self.lock:
            return {r: Pointer(r, v.location, v.state.is_view) for r, v in self._current.items()}

    def read_tables(self, pointers: Iterable[Pointer]) -> Mapping[Relation, TableState]:
        return {p.relation: self._history[p.location].state for p in pointers}

    # --- writing --------------------------------------------------------------------------------------------------

    def ensure_schemas(self, schemas: Iterable[str]) -> None:
        with self.lock:
            self._schemas.update(schemas)

    @contextmanager
    def hold_run(self, run_id: str, owner: str) -> Iterator[RunHandle]:
        handle = RunHandle()
        self._runs[run_id] = Run(run_id, True, owner, datetime.now(UTC).timestamp())
        try:
            yield handle
        finally:
            run = self._runs.pop(run_id)
            if not handle.finished:
                self._runs[run_id] = replace(run, alive=False)

    def list_runs(self) -> Mapping[str, Run]:
        return dict(self._runs)

    def settle_run(self, run_id: str) -> None:
        if run_id in self._runs:
            self._runs[run_id] = replace(self._runs[run_id], settled=True)

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        with self.lock:
            old = self._get_version_at(target, base)
            _refuse_bad_layout(shape)
            columns, _ = _assign_columns(shape, old)
            same = old is not None and old == replace(
                _apply_shape(old, shape), state=replace(old.state, columns=columns)
            )
            relation = Relation(STAGE_SCHEMA, f"{target.schema}__{target.name}__{run_id}")
            self._stages[relation] = _OpenStage(shape)
            return Stage(relation, target, base, f"memory:{target}/{run_id}", same, view=view)

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        open_stage = self._stages[stage.relation]
        if len(columns) != len(open_stage.shape.columns):
            raise ValueError("a value is needed for every column of the stage")
        open_stage.rows.extend(zip(*columns, strict=True))

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        open_stage = self._stages[stage.relation]
        for batch in batches:
            values = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            nulls = [None] * batch.num_rows
            open_stage.rows.extend(zip(*(values.get(c.name, nulls) for c in open_stage.shape.columns), strict=True))

    def find_files_with_keys(self, relation: Relation, base: Base, keys: Any) -> FileScan:

        with self.lock:
            version = self._get_version_at(relation, base)
            assert version is not None
            return FileScan(
                (ScanFile(_ALL_ROWS, lambda names: build_batches(version.state.columns, version.rows, names)),)
            )

    def publish(
        self, stage: Stage, summary: Mapping[str, str], replaced_files: Collection[str] | None = None
    ) -> PublishedCommit:
        if replaced_files and set(replaced_files) != {_ALL_ROWS}:
            raise LakeError("rows in memory are not in files")
        with self.lock:
            old = self._get_version_at(stage.target, stage.base)
            current = self._current.get(stage.target)
            if stage.base is None and (current.state.base if current else None) != stage.view:
                raise build_conflict(stage.target)
            open_stage = self._stages.pop(stage.relation)
            columns, last_id = _assign_columns(open_stage.shape, old)
            state = TableState(
                uuid=old.state.uuid if old else str(uuid.uuid4()),
                location=f"memory:{stage.target}",
                schema_id=_derive_schema_id(columns, old),
                columns=columns,
                snapshot_columns=columns,
                columns_token=compute_columns_token(columns),
                former_columns=_derive_former_columns(columns, old),
            )
            shaped = _apply_shape(old or _Version(state), open_stage.shape)
            retained_rows = (
                _project_rows(old, columns)
                if old is not None and replaced_files is not None and not replaced_files
                else ()
            )
            rows = (*retained_rows, *open_stage.rows)
            version = replace(shaped, state=state, rows=rows, last_id=last_id, location=_make_location())
            return self._commit(stage.target, version, summary)

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> PublishedCommit:
        with self.lock:
            old = self._get_version_at(target, base)
            assert old is not None
            return self._commit(target, replace(old, location=_make_location()), summary, old.state.same_rows)

    def set_properties(self, target: Relation, base: Base, properties: Mapping[str, str]) -> PublishedCommit:
        with self.lock:
            old = self._current.get(target)
            if old is None or old.state.uuid != base.uuid or old.state.snapshot_id is None:
                raise build_conflict(target)
            merged = {**old.properties, **properties}
            state = replace(old.state, properties=_select_sqb_properties(merged))
            self.put(target, replace(old, state=state, properties=merged, location=_make_location()))
            return PublishedCommit(old.state.snapshot_id, state)

    def clone(
        self,
        source: Relation,
        snapshot_id: int,
        target: Relation,
        summary: Mapping[str, str],
        base: Base | None,
        run_id: str,
    ) -> PublishedCommit:
        with self.lock:
            if source not in self._current or (version := self._find_version(source, snapshot_id)) is None:
                raise build_conflict(source, f"its snapshot {snapshot_id} no longer exists")
            current = self._current.get(target)
            if (current.state.base if current else None) != base:
                raise build_conflict(target)
            tag = f"sqb_clone_{run_id}_{uuid.uuid4().hex[:8]}"
            roots = [[str(source), snapshot_id], *json.loads(version.properties.get(CLONE_ROOTS, "[]"))]
            for root, at in roots:
                self._tags.setdefault(Relation.parse(root), {})[tag] = at
            inherited = {
                k: v
                for k, v in version.properties.items()
                if k == MODEL or k not in _select_sqb_properties(version.properties)
            }
            properties = {
                **inherited,
                CLONE_OF: str(source),
                CLONE_SNAPSHOT: str(snapshot_id),
                CLONE_TAG: tag,
                CLONE_MADE: str(int(datetime.now(UTC).timestamp() * 1000)),
                CLONE_ROOTS: json.dumps(roots),
                "gc.enabled": "false",
            }
            state = replace(
                version.state,
                uuid=str(uuid.uuid4()),
                location=f"memory:{target}",
                same_rows=(snapshot_id,),
                identity=CommitIdentity.from_properties(summary),
                properties=_select_sqb_properties(properties),
            )
            self._schemas.add(target.schema)
            self._commit_times[target, snapshot_id] = self._commit_times[source, snapshot_id]
            self.put(target, replace(version, state=state, properties=properties, location=_make_location()))
            return PublishedCommit(snapshot_id, state)

    def _find_version(self, relation: Relation, snapshot_id: int) -> _Version | None:
        """A table as it was at one snapshot."""
        table_uuid = self._current[relation].state.uuid
        versions = (v for v in reversed(self._history.values()) if v.state.uuid == table_uuid)
        return next((v for v in versions if v.state.snapshot_id == snapshot_id), None)

    def has_snapshot(self, relation: Relation, snapshot_id: int) -> bool:
        return any(s.id == snapshot_id for s in self.read_lineage(relation))

    def find_changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> Mapping[str, Sequence[Any]]:
        return {}

    def find_changed_ranges(
        self, relation: Relation, old: int, new: int, columns: Collection[str]
    ) -> Mapping[str, ColumnRanges]:
        return {}

    def count_rows_in_ranges(
        self, relation: Relation, snapshot_id: int, column: str, ranges: ColumnRanges
    ) -> int | None:
        return None

    def find_files_with_values(self, relation: Relation, column: str, values: Collection[Any]) -> Sequence[str] | None:
        return None

    def stage_changed_files(
        self, relation: Relation, old: int, new: int, columns: Collection[str], run_id: str
    ) -> ChangedFiles | None:
        return None

    def drop_changed_files(self, changed: ChangedFiles) -> None:
        return None

    def read_lineage(self, relation: Relation) -> tuple[SnapshotInfo, ...]:
        with self.lock:
            version = self._current.get(relation)
        if version is None or version.state.snapshot_id is None:
            return ()
        return (SnapshotInfo(version.state.snapshot_id, "overwrite", None, None),)

    def read_history(self, pointer: Pointer) -> Mapping[int, PastSnapshot]:
        with self.lock:
            versions = [v for v in self._list_versions(pointer) if v.state.snapshot_id is not None]
        snapshots = [self._describe_snapshot(pointer.relation, version) for version in versions]
        return {snapshot.id: snapshot for snapshot in snapshots}

    def read_first_rows(self, relation: Relation, limit: int) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        with self.lock:
            version = self._current.get(relation)
        if version is None:
            return (), ()
        return [c.name for c in version.state.columns], version.rows[:limit]

    def read_state_at_version(self, pointer: Pointer, version: str) -> TableState | None:
        with self.lock:
            snapshot_id = int(version) if version.isdigit() else self._tags.get(pointer.relation, {}).get(version)
            states = (v.state for v in self._list_versions(pointer) if not v.state.is_view)
            return next((s for s in states if s.snapshot_id == snapshot_id is not None), None)

    def read_state_at_time(self, pointer: Pointer, text: str, zone: str) -> TableState | None:
        moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
        past = [s.id for s in self.read_history(pointer).values() if s.at <= moment]
        return self.read_state_at_version(pointer, str(past[-1])) if past else None

    def _list_versions(self, pointer: Pointer) -> list[_Version]:
        """A table's versions up to one of them, oldest first."""
        table_uuid = self._history[pointer.location].state.uuid
        versions = [v for v in self._history.values() if v.state.uuid == table_uuid]
        return versions[: 1 + [v.location for v in versions].index(pointer.location)]

    def _describe_snapshot(self, relation: Relation, version: _Version) -> PastSnapshot:
        state = version.state
        assert state.snapshot_id is not None
        at = self._commit_times[relation, state.snapshot_id]
        return PastSnapshot(state.snapshot_id, at, state.columns, rows=state.rows, run_id=state.identity.run_id)

    def read_column_maximum(self, pointer: Pointer, column: str, filter_: str | None) -> object:
        if filter_ is not None:
            raise NotInStatistics(filter_)
        return max(self._read_values(pointer, column), default=None)

    def read_column_minimum(self, pointer: Pointer, column: str) -> object:
        return min(self._read_values(pointer, column), default=None)

    def _read_values(self, pointer: Pointer, column: str) -> list[Any]:
        version = self._history[pointer.location]
        index = [c.name for c in version.state.columns].index(column)
        return [row[index] for row in version.rows if row[index] is not None]

    def get_cached_answers(self, keys: Iterable[str]) -> Mapping[str, str]:
        return {key: self._answers[key] for key in keys if key in self._answers}

    def cache_answers(self, answers: Mapping[str, str]) -> None:
        self._answers.update(answers)

    def discard(self, stage: Stage) -> None:
        with self.lock:
            self._stages.pop(stage.relation, None)

    def publish_view(self, staged: Relation, target: Relation, base: Base | None) -> None:
        """Replace the relation at `base` by a view that was created under another name, in one step."""
        with self.lock:
            if staged not in self._current or not self._current[staged].state.is_view:
                raise LakeError(f"there is no view {staged} to put in the place of {target}")
            current = self._current.get(target)
            if (current.state.base if current else None) != base:
                raise build_conflict(target)
            self._current[target] = self._current.pop(staged)
            self._commit_times[target, 1] = datetime.now(UTC)

    def discard_view(self, staged: Relation) -> None:
        """Remove a view that was created under another name."""
        with self.lock:
            self._current.pop(staged, None)

    def swap_views(self, swaps: Sequence[ViewSwap]) -> Mapping[Relation, str]:
        with self.lock:
            before = dict(self._current)
            try:
                locations = {move.relation: self._swap_view(move) for move in swaps}
            except BaseException:
                if self.transactions:
                    self._current = before
                raise
            return {relation: location for relation, location in locations.items() if location}

    def _swap_view(self, swap: ViewSwap) -> str:
        current = self._current.get(swap.relation)
        pointer = Pointer(swap.relation, current.location, current.state.is_view) if current is not None else None
        if is_swap_done(swap, pointer, lambda p: self._documents.get(p.location)):
            return pointer.location if pointer is not None else ""
        if self.swaps_left is not None:
            if self.swaps_left == 0:
                raise LakeError(f"the view {swap.relation} could not be moved")
            self.swaps_left -= 1
        if swap.text is None:
            del self._current[swap.relation]
            return ""
        document = build_view_document(swap, f"memory:{swap.relation}", self._documents.get(swap.before))
        version = _Version(parse_state(document), properties=document["properties"])
        self._documents[version.location] = document
        self._schemas.add(swap.relation.schema)
        self._commit_times[swap.relation, document["current-version-id"]] = datetime.now(UTC)
        self.put(swap.relation, version)
        return version.location

    def drop_empty_schemas(self, schemas: Iterable[str]) -> None:
        with self.lock:
            self._schemas -= set(schemas) - {relation.schema for relation in self._current}

    def read_view_columns(self, relations: Iterable[Relation]) -> Mapping[Relation, str]:
        with self.lock:
            return {r: self._build_view_columns(self._current[r]) for r in relations if r in self._current}

    def _build_view_columns(self, version: _Version) -> str:
        document = self._documents.get(version.location)
        return list_view_columns(document) if document is not None else build_view_columns(version.state.columns)

    def rename(self, pointer: Pointer, target: Relation) -> bool:
        with self.lock:
            current = self._current.get(pointer.relation)
            if current is None or current.location != pointer.location or target in self._current:
                return False
            self._current[target] = self._current.pop(pointer.relation)
            return True

    def drop_if_current(self, pointer: Pointer) -> bool:
        with self.lock:
            current = self._current.get(pointer.relation)
            if current is None or current.location != pointer.location:
                return False
            del self._current[pointer.relation]
            return True

    def read_commit_time(self, relation: Relation, snapshot_id: int) -> datetime | None:
        return self._commit_times.get((relation, snapshot_id))

    def _get_version_at(self, target: Relation, base: Base | None) -> _Version | None:
        """The table's version if it is the one that the caller has seen."""
        if base is None:
            return None
        current = self._current.get(target)
        if current is None or current.state.is_view or current.state.base != base:
            raise build_conflict(target)
        return current

    def _commit(
        self, target: Relation, version: _Version, summary: Mapping[str, str], same_rows: tuple[int, ...] = ()
    ) -> PublishedCommit:
        snapshot_id = next(self._snapshot_ids)
        identity = CommitIdentity.from_properties(summary)
        state = replace(
            version.state,
            properties=_select_sqb_properties(version.properties),
            snapshot_id=snapshot_id,
            same_rows=(snapshot_id, *same_rows),
            snapshot_columns=version.state.columns,
            rows=len(version.rows),
            identity=identity,
            drifted=bool(version.properties.get(MODEL)) and not identity,
            last_identity=CommitIdentity() if identity else version.state.known_identity,
        )
        self._commit_times[target, snapshot_id] = datetime.now(UTC)
        self.put(target, replace(version, state=state))
        return PublishedCommit(snapshot_id, state)

    def put(self, target: Relation, version: _Version) -> None:
        """Make this the current version of a relation."""
        self._current[target] = version
        self._history[version.location] = version

    # --- for tests ------------------------------------------------------------------------------------------------

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]:
        """The rows of a table."""
        return list(self._current[relation].rows)

    def properties(self, relation: Relation) -> Mapping[str, str]:
        """The properties of a table."""
        return self._current[relation].properties

    def tags(self, relation: Relation) -> Mapping[str, int]:
        """The tags of a table, with the snapshots that they hold."""
        return dict(self._tags.get(relation, {}))

    def put_view(self, relation: Relation, sql: str, properties: Mapping[str, str]) -> None:
        """Make a view as Spark would; `sqb.view_text` in its properties holds the digest of the intended text."""
        ours = _select_sqb_properties(properties)
        identity = CommitIdentity.from_properties(ours)
        drifted = bool(ours) and ours.get(VIEW_TEXT) != compute_text_token(sql)
        state = TableState(str(uuid.uuid4()), True, f"memory:{relation}", 1, (1,), identity=identity, drifted=drifted)
        state = replace(state, properties=ours)
        self._commit_times[relation, 1] = datetime.now(UTC)
        self.put(relation, _Version(state))

    def view_text(self, relation: Relation) -> str:
        """The query of a view that was made without Spark."""
        text: str = self._documents[self._current[relation].location]["versions"][0]["representations"][0]["sql"]
        return text

    def append_as_stranger(self, relation: Relation, columns: Sequence[Sequence[Any]]) -> None:
        """Add rows as a writer other than sqb does."""
        with self.lock:
            old = self._current[relation]
            rows = (*old.rows, *zip(*columns, strict=True))
            self._commit(relation, replace(old, rows=rows, location=_make_location()), {})

    def add_column_as_stranger(self, relation: Relation, name: str) -> None:
        """Add a column without writing, as ALTER TABLE does."""
        with self.lock:
            old = self._current[relation]
            columns = Columns.of([*old.state.columns, ColumnState(name, '"string"', old.last_id + 1)])
            state = replace(
                old.state,
                columns=columns,
                columns_token=compute_columns_token(columns),
                schema_id=old.state.schema_id + 1,
                drifted=True,
            )
            rows = tuple((*row, None) for row in old.rows)
            altered = replace(old, state=state, rows=rows, last_id=old.last_id + 1, location=_make_location())
            self.put(relation, altered)

    def drop_as_stranger(self, relation: Relation) -> None:
        """Drop a table or view."""
        with self.lock:
            del self._current[relation]


class MemoryStateTables(StateTables):
    """The state tables of a lake in memory; the lake shows that they are there."""

    def __init__(self, lake: MemoryLake) -> None:
        self._lake = lake
        self._rows: dict[Relation, list[Any]] = {}

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        self._append(FINGERPRINTS, rows)

    def append_node_results(self, rows: Iterable[NodeResult]) -> None:
        self._append(NODE_RESULTS, rows)

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        self._append(FRESHNESS, rows)

    def append_failures(self, rows: Iterable[FailedRow]) -> None:
        self._append(FAILURES, rows)

    def read_failures(self, schemas: Iterable[str]) -> Sequence[FailedRow]:
        return self._read(FAILURES, schemas)

    def read_fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        return find_latest_fingerprints(self._read(FINGERPRINTS, schemas))

    def read_freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        return find_latest_freshness(self._read(FRESHNESS, schemas))

    def read_node_results(
        self,
        schemas: Iterable[str],
        *,
        node_name: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[NodeResult]:
        rows = (
            row
            for row in reversed(self._read(NODE_RESULTS, schemas))
            if node_name in (None, row.node_name) and run_id in (None, row.run_id)
        )
        return sorted(rows, key=lambda row: row.ts, reverse=True)[:limit]

    def _append(self, table: StateTable[Row], rows: Iterable[Row]) -> None:
        with self._lake.lock:
            for schema, group in table.group_by_schema(rows).items():
                self._lake.ensure_schemas([schema])
                relation = table.get_relation(schema)
                self._rows.setdefault(relation, []).extend(group)
                self._lake.put(relation, _Version(TableState(str(uuid.uuid4()))))

    def _read(self, table: StateTable[Row], schemas: Iterable[str]) -> list[Row]:
        with self._lake.lock:
            return [row for schema in sorted(set(schemas)) for row in self._rows.get(table.get_relation(schema), ())]


def _assign_columns(shape: Shape, old: _Version | None) -> tuple[Columns, int]:
    """The columns for a shape; one that keeps its name and type keeps its id, every other gets one never used."""
    present = {(c.name, c.type): c for c in old.state.columns} if old else {}
    last_id = old.last_id if old else 0
    columns: list[ColumnState] = []
    for column in shape.columns:
        text = json.dumps(_convert_type(column.type, column.name), separators=(",", ":"))
        column_state = present.get((column.name, text))
        if column_state is None:
            last_id += 1
            column_state = ColumnState(column.name, text, last_id)
        columns.append(column_state)
    return Columns.of(columns), last_id


def _project_rows(old: _Version, columns: Columns) -> tuple[tuple[Any, ...], ...]:
    """The rows of a version with other columns; those that it did not have are NULL."""
    names = [c.name for c in old.state.columns]
    return tuple(tuple(dict(zip(names, row, strict=True)).get(c.name) for c in columns) for row in old.rows)


def _apply_shape(old: _Version, shape: Shape) -> _Version:
    """The version with the layout and properties of a shape; what only an earlier shape had set goes."""
    inherited = {k: v for k, v in old.properties.items() if k not in old.owned}
    owned = frozenset(k for k in shape.properties if not k.startswith(PREFIX))
    layout = (shape.partitioned_by, shape.sorted_by)
    return replace(old, properties={**inherited, **shape.properties}, owned=owned, layout=layout)


def _select_sqb_properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in properties.items() if k.startswith(PREFIX)}


def _derive_schema_id(columns: Columns, old: _Version | None) -> int:
    if old is None:
        return 0
    return old.state.schema_id if columns == old.state.columns else old.state.schema_id + 1


def _derive_former_columns(columns: Columns, old: _Version | None) -> Mapping[str, Columns]:
    if old is None or columns == old.state.columns:
        return old.state.former_columns if old is not None else {}
    return {
        **old.state.former_columns,
        format_shape_key(old.state.schema_id, old.state.columns_token): old.state.columns,
    }


def _refuse_bad_layout(shape: Shape) -> None:
    names = {c.name.lower() for c in shape.columns}
    layouts: tuple[tuple[str, tuple[str, ...], Callable[[str], Any]], ...] = (
        ("partitioned_by", shape.partitioned_by, parse_partition),
        ("sorted_by", shape.sorted_by, parse_sort),
    )
    for key, texts, parse in layouts:
        for text in texts:
            parsed = parse(text)
            if parsed is None or parsed.column.lower() not in names:
                raise UnsupportedType(f"{key}: `{text}` does not match a column of the result")


def _convert_type(spark_type: Any, column: str) -> Any:
    match spark_type:
        case str() if spark_type in _SAME or spark_type in _TYPES:
            return _TYPES.get(spark_type, spark_type)
        case str() if decimal := _DECIMAL.fullmatch(spark_type):
            return f"decimal({decimal[1]}, {decimal[2]})"
        case {"type": "struct", "fields": fields}:
            inner = [(f, _convert_type(f["type"], f"{column}.{f['name']}")) for f in fields]
            return ["struct", [[f["name"], kind, not f["nullable"]] for f, kind in inner]]
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return ["list", _convert_type(element, f"{column}.element"), not nullable]
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return ["map", _convert_type(key, f"{column}.key"), _convert_type(value, f"{column}.value"), not nullable]
        case _:
            raise UnsupportedType(f'column "{column}" has a type that an Iceberg table cannot hold: {spark_type}')
