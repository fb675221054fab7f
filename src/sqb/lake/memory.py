"""A lake in memory, with the same manners as the real one: for tests, and for trying out a build without storage.

Rows are kept as lists, so that a test can read them; `rows`, `properties` and the `…_as_stranger` methods exist for
tests alone.
"""

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

from sqb.errors import LakeError, UnsupportedType
from sqb.lake.metadata import IDENTITY_PREFIX, columns_token, state_of, text_token
from sqb.lake.port import (
    CLONE_MADE,
    CLONE_OF,
    CLONE_ROOTS,
    CLONE_SNAPSHOT,
    CLONE_TAG,
    STAGE_SCHEMA,
    Base,
    Columns,
    ColumnState,
    Held,
    HeldFile,
    Lake,
    Pointer,
    Published,
    Run,
    RunHandle,
    Shape,
    SnapshotInfo,
    Stage,
    TableState,
    ViewMove,
    conflict,
    shape_key,
)
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
    Row,
    StateTable,
    latest_fingerprints,
    latest_freshness,
)
from sqb.lake.views import columns_from_states, columns_of, stands_as_wanted, view_document
from sqb.names import Relation
from sqb.project.layout import parse_partition, parse_sort

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


def _new_location() -> str:
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
    location: str = field(default_factory=_new_location)


@dataclass(slots=True)
class _Filling:
    shape: Shape
    rows: list[tuple[Any, ...]] = field(default_factory=list)


class MemoryLake(Lake):
    """Tables, views and state in dictionaries."""

    def __init__(self, transactions: bool = True) -> None:
        # Without them views are moved one by one, as in a catalog that knows no better.
        self.transactions = transactions
        # How many views can still be moved before that fails, for tests.
        self.moves_left: int | None = None
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._now: dict[Relation, _Version] = {}
        self._history: dict[str, _Version] = {}
        self._stages: dict[Relation, _Filling] = {}
        self._schemas: set[str] = set()
        self._state: dict[Relation, list[Any]] = {}
        self._runs: dict[str, Run] = {}
        self._moments: dict[tuple[Relation, int], datetime] = {}
        self._tags: dict[Relation, dict[str, int]] = {}
        self._snapshot_ids = itertools.count(1)
        self._lock = threading.RLock()

    # --- reading --------------------------------------------------------------------------------------------------

    def pointers(self) -> Mapping[Relation, Pointer]:
        with self._lock:
            return {r: Pointer(r, v.location, v.state.is_view) for r, v in self._now.items()}

    def tables(self, pointers: Iterable[Pointer]) -> Mapping[Relation, TableState]:
        return {p.relation: self._history[p.location].state for p in pointers}

    # --- writing --------------------------------------------------------------------------------------------------

    def ensure_schemas(self, schemas: Iterable[str]) -> None:
        with self._lock:
            self._schemas.update(schemas)

    @contextmanager
    def running(self, run_id: str, owner: str) -> Iterator[RunHandle]:
        handle = RunHandle()
        self._runs[run_id] = Run(run_id, True, owner, datetime.now(UTC).timestamp())
        try:
            yield handle
        finally:
            run = self._runs.pop(run_id)
            if not handle.finished:
                self._runs[run_id] = replace(run, alive=False)

    def runs(self) -> Mapping[str, Run]:
        return dict(self._runs)

    def settle(self, run_id: str) -> None:
        if run_id in self._runs:
            self._runs[run_id] = replace(self._runs[run_id], settled=True)

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        with self._lock:
            old = self._at(target, base)
            _refuse_bad_layout(shape)
            columns, _ = _columns(shape, old)
            same = old is not None and old == replace(_shaped(old, shape), state=replace(old.state, columns=columns))
            relation = Relation(STAGE_SCHEMA, f"{target.schema}__{target.name}__{run_id}")
            self._stages[relation] = _Filling(shape)
            return Stage(relation, target, base, f"memory:{target}/{run_id}", same, view=view)

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        filling = self._stages[stage.relation]
        if len(columns) != len(filling.shape.columns):
            raise ValueError("a value is needed for every column of the stage")
        filling.rows.extend(zip(*columns, strict=True))

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        filling = self._stages[stage.relation]
        for batch in batches:
            there = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            nothing = [None] * batch.num_rows
            filling.rows.extend(zip(*(there.get(c.name, nothing) for c in filling.shape.columns), strict=True))

    def held_near(self, relation: Relation, base: Base, keys: Any) -> Held:
        from sqb.lake.memory_rows import batches_of  # loads pyarrow, which nothing unchanged needs

        with self._lock:
            there = self._at(relation, base)
            assert there is not None
            return Held((HeldFile(_ALL_ROWS, lambda names: batches_of(there.state.columns, there.rows, names)),))

    def publish(self, stage: Stage, summary: Mapping[str, str], gone: Collection[str] | None = None) -> Published:
        if gone and set(gone) != {_ALL_ROWS}:
            raise LakeError("rows in memory are in no files")
        with self._lock:
            old = self._at(stage.target, stage.base)
            there = self._now.get(stage.target)
            if stage.base is None and (there.state.base if there else None) != stage.view:
                raise conflict(stage.target)
            filling = self._stages.pop(stage.relation)
            columns, last_id = _columns(filling.shape, old)
            state = TableState(
                uuid=old.state.uuid if old else str(uuid.uuid4()),
                location=f"memory:{stage.target}",
                schema_id=_schema_id(columns, old),
                columns=columns,
                snapshot_columns=columns,
                columns_token=columns_token(columns),
                former=_former(columns, old),
            )
            shaped = _shaped(old or _Version(state), filling.shape)
            staying = _with_columns(old, columns) if old is not None and gone is not None and not gone else ()
            rows = (*staying, *filling.rows)
            made = replace(shaped, state=state, rows=rows, last_id=last_id, location=_new_location())
            return self._commit(stage.target, made, summary)

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> Published:
        with self._lock:
            old = self._at(target, base)
            assert old is not None
            return self._commit(target, replace(old, location=_new_location()), summary, old.state.same_rows)

    def mark(self, target: Relation, base: Base, properties: Mapping[str, str]) -> Published:
        with self._lock:
            old = self._now.get(target)
            if old is None or old.state.uuid != base.uuid or old.state.snapshot_id is None:
                raise conflict(target)
            marked = {**old.properties, **properties}
            state = replace(old.state, properties=_own(marked))
            self._put(target, replace(old, state=state, properties=marked, location=_new_location()))
            return Published(old.state.snapshot_id, state)

    def clone(
        self,
        source: Relation,
        snapshot_id: int,
        target: Relation,
        summary: Mapping[str, str],
        base: Base | None,
        run_id: str,
    ) -> Published:
        with self._lock:
            if source not in self._now or (found := self._version(source, snapshot_id)) is None:
                raise conflict(source, f"its snapshot {snapshot_id} is not there any more")
            there = self._now.get(target)
            if (there.state.base if there else None) != base:
                raise conflict(target)
            tag = f"sqb_clone_{run_id}_{uuid.uuid4().hex[:8]}"
            roots = [[str(source), snapshot_id], *json.loads(found.properties.get(CLONE_ROOTS, "[]"))]
            for root, at in roots:
                self._tags.setdefault(Relation.parse(root), {})[tag] = at
            kept = {k: v for k, v in found.properties.items() if k == "sqb.model" or k not in _own(found.properties)}
            properties = {
                **kept,
                CLONE_OF: str(source),
                CLONE_SNAPSHOT: str(snapshot_id),
                CLONE_TAG: tag,
                CLONE_MADE: str(int(datetime.now(UTC).timestamp() * 1000)),
                CLONE_ROOTS: json.dumps(roots),
                "gc.enabled": "false",
            }
            state = replace(
                found.state,
                uuid=str(uuid.uuid4()),
                location=f"memory:{target}",
                same_rows=(snapshot_id,),
                identity=_own(summary),
                properties=_own(properties),
            )
            self._schemas.add(target.schema)
            self._moments[target, snapshot_id] = self._moments[source, snapshot_id]
            self._put(target, replace(found, state=state, properties=properties, location=_new_location()))
            return Published(snapshot_id, state)

    def _version(self, relation: Relation, snapshot_id: int) -> _Version | None:
        """A table as it was at one snapshot."""
        mine = self._now[relation].state.uuid
        versions = (v for v in reversed(self._history.values()) if v.state.uuid == mine)
        return next((v for v in versions if v.state.snapshot_id == snapshot_id), None)

    def has_snapshot(self, relation: Relation, snapshot_id: int) -> bool:
        return any(s.id == snapshot_id for s in self.lineage(relation))

    def changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> Mapping[str, Sequence[Any]]:
        return {}

    def files_with(self, relation: Relation, column: str, values: Collection[Any]) -> Sequence[str] | None:
        return None

    def lineage(self, relation: Relation) -> tuple[SnapshotInfo, ...]:
        with self._lock:
            found = self._now.get(relation)
        if found is None or found.state.snapshot_id is None:
            return ()
        return (SnapshotInfo(found.state.snapshot_id, "overwrite", None, None),)

    def discard(self, stage: Stage) -> None:
        with self._lock:
            self._stages.pop(stage.relation, None)

    def publish_view(self, staged: Relation, target: Relation, base: Base | None) -> None:
        """Put a view that was made under another name in the place of what stood at `base`, in one step."""
        with self._lock:
            if staged not in self._now or not self._now[staged].state.is_view:
                raise LakeError(f"there is no view {staged} to put in the place of {target}")
            there = self._now.get(target)
            if (there.state.base if there else None) != base:
                raise conflict(target)
            self._now[target] = self._now.pop(staged)
            self._moments[target, 1] = datetime.now(UTC)

    def discard_view(self, staged: Relation) -> None:
        """Remove a view that was made under another name."""
        with self._lock:
            self._now.pop(staged, None)

    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        with self._lock:
            before = dict(self._now)
            try:
                moved = {move.relation: self._move_view(move) for move in moves}
            except BaseException:
                if self.transactions:
                    self._now = before
                raise
            return {relation: location for relation, location in moved.items() if location}

    def _move_view(self, move: ViewMove) -> str:
        there = self._now.get(move.relation)
        pointer = Pointer(move.relation, there.location, there.state.is_view) if there is not None else None
        if stands_as_wanted(move, pointer, lambda p: self._documents.get(p.location)):
            return pointer.location if pointer is not None else ""
        if self.moves_left is not None:
            if self.moves_left == 0:
                raise LakeError(f"the view {move.relation} could not be moved")
            self.moves_left -= 1
        if move.text is None:
            del self._now[move.relation]
            return ""
        document = view_document(move, f"memory:{move.relation}", self._documents.get(move.before))
        version = _Version(state_of(document), properties=document["properties"])
        self._documents[version.location] = document
        self._schemas.add(move.relation.schema)
        self._moments[move.relation, document["current-version-id"]] = datetime.now(UTC)
        self._put(move.relation, version)
        return version.location

    def forget_schemas(self, schemas: Iterable[str]) -> None:
        with self._lock:
            self._schemas -= set(schemas) - {relation.schema for relation in self._now}

    def view_columns(self, relations: Iterable[Relation]) -> Mapping[Relation, str]:
        with self._lock:
            return {r: self._view_columns(self._now[r]) for r in relations if r in self._now}

    def _view_columns(self, version: _Version) -> str:
        document = self._documents.get(version.location)
        return columns_of(document) if document is not None else columns_from_states(version.state.columns)

    def committed_at(self, relation: Relation, snapshot_id: int) -> datetime | None:
        return self._moments.get((relation, snapshot_id))

    def _at(self, target: Relation, base: Base | None) -> _Version | None:
        """The table's version if it is the one that the caller has seen."""
        if base is None:
            return None
        now = self._now.get(target)
        if now is None or now.state.is_view or now.state.base != base:
            raise conflict(target)
        return now

    def _commit(
        self, target: Relation, made: _Version, summary: Mapping[str, str], same_rows: tuple[int, ...] = ()
    ) -> Published:
        snapshot_id = next(self._snapshot_ids)
        identity = _own(summary)
        state = replace(
            made.state,
            properties=_own(made.properties),
            snapshot_id=snapshot_id,
            same_rows=(snapshot_id, *same_rows),
            snapshot_columns=made.state.columns,
            rows=len(made.rows),
            identity=identity,
            drifted=bool(made.properties.get("sqb.model")) and not identity,
            left={} if identity else made.state.identity or made.state.left,
        )
        self._moments[target, snapshot_id] = datetime.now(UTC)
        self._put(target, replace(made, state=state))
        return Published(snapshot_id, state)

    def _put(self, target: Relation, version: _Version) -> None:
        self._now[target] = version
        self._history[version.location] = version

    # --- state ----------------------------------------------------------------------------------------------------

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        self._append(FINGERPRINTS, rows)

    def append_node_results(self, rows: Iterable[NodeResult]) -> None:
        self._append(NODE_RESULTS, rows)

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        self._append(FRESHNESS, rows)

    def append_failures(self, rows: Iterable[FailedRow]) -> None:
        self._append(FAILURES, rows)

    def failures(self, schemas: Iterable[str]) -> Sequence[FailedRow]:
        return self._read(FAILURES, schemas)

    def fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        return latest_fingerprints(self._read(FINGERPRINTS, schemas))

    def freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        return latest_freshness(self._read(FRESHNESS, schemas))

    def node_results(
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
        with self._lock:
            for schema, group in table.by_schema(rows).items():
                self._schemas.add(schema)
                relation = table.relation(schema)
                self._state.setdefault(relation, []).extend(group)
                self._put(relation, _Version(TableState(str(uuid.uuid4()))))

    def _read(self, table: StateTable[Row], schemas: Iterable[str]) -> list[Row]:
        with self._lock:
            return [row for schema in sorted(set(schemas)) for row in self._state.get(table.relation(schema), ())]

    # --- for tests ------------------------------------------------------------------------------------------------

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]:
        """The rows of a table."""
        return list(self._now[relation].rows)

    def properties(self, relation: Relation) -> Mapping[str, str]:
        """The properties of a table."""
        return self._now[relation].properties

    def tags(self, relation: Relation) -> Mapping[str, int]:
        """The tags of a table, with the snapshots that they hold."""
        return dict(self._tags.get(relation, {}))

    def put_view(self, relation: Relation, sql: str, properties: Mapping[str, str]) -> None:
        """Make a view as Spark would; `sqb.view_text` in its properties tells what the text was meant to be."""
        identity = _own(properties)
        drifted = bool(identity) and identity.get("sqb.view_text") != text_token(sql)
        state = TableState(str(uuid.uuid4()), True, f"memory:{relation}", 1, (1,), identity=identity, drifted=drifted)
        state = replace(state, properties=identity)
        self._moments[relation, 1] = datetime.now(UTC)
        self._put(relation, _Version(state))

    def view_text(self, relation: Relation) -> str:
        """The query of a view that was made without Spark."""
        text: str = self._documents[self._now[relation].location]["versions"][0]["representations"][0]["sql"]
        return text

    def append_as_stranger(self, relation: Relation, columns: Sequence[Sequence[Any]]) -> None:
        """Add rows as somebody would who knows nothing of sqb."""
        with self._lock:
            old = self._now[relation]
            rows = (*old.rows, *zip(*columns, strict=True))
            self._commit(relation, replace(old, rows=rows, location=_new_location()), {})

    def add_column_as_stranger(self, relation: Relation, name: str) -> None:
        """Add a column without writing, as ALTER TABLE does."""
        with self._lock:
            old = self._now[relation]
            columns = Columns.of([*old.state.columns, ColumnState(name, '"string"', old.last_id + 1)])
            state = replace(
                old.state,
                columns=columns,
                columns_token=columns_token(columns),
                schema_id=old.state.schema_id + 1,
                drifted=True,
            )
            rows = tuple((*row, None) for row in old.rows)
            altered = replace(old, state=state, rows=rows, last_id=old.last_id + 1, location=_new_location())
            self._put(relation, altered)

    def drop_as_stranger(self, relation: Relation) -> None:
        """Drop a table or view."""
        with self._lock:
            del self._now[relation]


def _columns(shape: Shape, old: _Version | None) -> tuple[Columns, int]:
    """The columns for a shape; one that keeps its name and type keeps its id, every other gets one never used."""
    present = {(c.name, c.type): c for c in old.state.columns} if old else {}
    last_id = old.last_id if old else 0
    columns: list[ColumnState] = []
    for column in shape.columns:
        text = json.dumps(_type_text(column.type, column.name), separators=(",", ":"))
        known = present.get((column.name, text))
        if known is None:
            last_id += 1
            known = ColumnState(column.name, text, last_id)
        columns.append(known)
    return Columns.of(columns), last_id


def _with_columns(old: _Version, columns: Columns) -> tuple[tuple[Any, ...], ...]:
    """The rows of a version with other columns; those that it did not have are NULL."""
    names = [c.name for c in old.state.columns]
    return tuple(tuple(dict(zip(names, row, strict=True)).get(c.name) for c in columns) for row in old.rows)


def _shaped(old: _Version, shape: Shape) -> _Version:
    """The version with the layout and properties of a shape; what only an earlier shape had set goes."""
    kept = {k: v for k, v in old.properties.items() if k not in old.owned}
    owned = frozenset(k for k in shape.properties if not k.startswith(IDENTITY_PREFIX))
    layout = (shape.partitioned_by, shape.sorted_by)
    return replace(old, properties={**kept, **shape.properties}, owned=owned, layout=layout)


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in properties.items() if k.startswith(IDENTITY_PREFIX)}


def _schema_id(columns: Columns, old: _Version | None) -> int:
    if old is None:
        return 0
    return old.state.schema_id if columns == old.state.columns else old.state.schema_id + 1


def _former(columns: Columns, old: _Version | None) -> Mapping[str, Columns]:
    if old is None or columns == old.state.columns:
        return old.state.former if old is not None else {}
    return {**old.state.former, shape_key(old.state.schema_id, old.state.columns_token): old.state.columns}


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
                raise UnsupportedType(f"{key}: `{text}` fits no column of the result")


def _type_text(spark_type: Any, column: str) -> Any:
    match spark_type:
        case str() if spark_type in _SAME or spark_type in _TYPES:
            return _TYPES.get(spark_type, spark_type)
        case str() if found := _DECIMAL.fullmatch(spark_type):
            return f"decimal({found[1]}, {found[2]})"
        case {"type": "struct", "fields": fields}:
            inner = [(f, _type_text(f["type"], f"{column}.{f['name']}")) for f in fields]
            return ["struct", [[f["name"], kind, not f["nullable"]] for f, kind in inner]]
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return ["list", _type_text(element, f"{column}.element"), not nullable]
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return ["map", _type_text(key, f"{column}.key"), _type_text(value, f"{column}.value"), not nullable]
        case _:
            raise UnsupportedType(f'column "{column}" has a type that an Iceberg table cannot hold: {spark_type}')
