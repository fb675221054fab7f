"""The embedded lake: Iceberg's JDBC catalog on SQLite.

Planning needs one SQL query and the metadata files behind it; pyiceberg is loaded on the first write.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqb.errors import LakeError, LakeFull, LakeMoved, LakeUnreadable, NotACatalog
from sqb.lake.cache import Cache
from sqb.lake.catalog_tables import (
    TABLES,
    drop_empty_schemas,
    drop_rows,
    exchange_row,
    forget_row,
    is_being_made,
    point_rows,
    rows_of,
    schema_property,
)
from sqb.lake.metadata import committed_ms, damaged, lineage_of, parse_metadata, state_of
from sqb.lake.port import (
    STAGE_SCHEMA,
    Base,
    Held,
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
)
from sqb.lake.runs import Runs
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
    latest_fingerprints,
    latest_freshness,
)
from sqb.lake.views import ViewMoves, columns_of, remove_written, write_view
from sqb.names import Relation

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from sqb.lake.journal import Appended, Journal
    from sqb.lake.writer import Committed, Writer

Read = TypeVar("Read")

_WAREHOUSE = "sqb.warehouse"
_BUSY_SECONDS = 30


class IcebergLake(Lake):
    """A lake whose catalog is a SQLite file and whose warehouse is a folder."""

    def __init__(self, database: Path, warehouse: Path, name: str = "lake", cache: Path | None = None) -> None:
        self.database = database
        self.warehouse = warehouse
        self.name = name
        self._cache = Cache(cache) if cache else None
        self._live: frozenset[str] | None = None
        self._opening = threading.RLock()

    # --- reading, without pyiceberg -------------------------------------------------------------------------------

    def pointers(self) -> Mapping[Relation, Pointer]:
        if not self.exists():
            return {}
        with self._connected() as connection:
            if is_being_made(connection):
                return {}
            rows = connection.execute(
                "SELECT table_namespace, table_name, metadata_location, iceberg_type FROM iceberg_tables"
                " WHERE catalog_name = ? AND metadata_location IS NOT NULL",
                (self.name,),
            ).fetchall()
            self._refuse_if_moved(connection)
        found = (Pointer(Relation(ns, name), location, kind == "VIEW") for ns, name, location, kind in rows)
        pointers = {p.relation: p for p in found}
        self._live = frozenset(p.location for p in pointers.values())
        return pointers

    def tables(self, pointers: Iterable[Pointer]) -> Mapping[Relation, TableState]:
        wanted = list(pointers)
        known = self._cache.states(p.location for p in wanted) if self._cache else {}
        read = {p.location: self._state(p) for p in wanted if p.location not in known}
        if self._cache and read:
            self._cache.keep_states(read, self._live)
            self._cache.save()
        return {p.relation: known.get(p.location) or read[p.location] for p in wanted}

    def _state(self, pointer: Pointer) -> TableState:
        return self._read(pointer, state_of)

    def document(self, pointer: Pointer) -> dict[str, Any]:
        """The metadata document behind a pointer, as it is."""
        return self._read(pointer, dict)

    def _read(self, pointer: Pointer, meaning: Callable[[Mapping[str, Any]], Read]) -> Read:
        path = local_path(pointer.location)
        try:
            with open(path, "rb") as file:
                return meaning(parse_metadata(file.read()))
        except PermissionError as error:
            raise self._unreadable(path, "read") from error
        except (OSError, ValueError, TypeError, LookupError, AttributeError, StopIteration, EOFError) as error:
            raise damaged(pointer.relation, path) from error

    def exists(self) -> bool:
        """Whether there is a catalog at all."""
        try:
            return self.database.stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError as error:
            raise self._unreadable(self.database, "read") from error

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not os.access(self.database, os.R_OK):
            raise self._unreadable(self.database, "read")
        try:
            connection = sqlite3.connect(self.database, timeout=_BUSY_SECONDS)
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> LakeError:
        text = str(error)
        if "no such table" in text or "not a database" in text or "malformed" in text:
            return NotACatalog(
                f"{self.database} is not an Iceberg catalog database: {text}",
                hint="point `uri` of the connection's catalog to another file, or move this one away",
            )
        if "full" in text:
            return LakeFull(f"no space left for {self.database}", hint="free some space and run the build again")
        if "unable to open" in text or "readonly" in text:
            return self._unreadable(self.database, "open")
        return LakeError(f"{self.database}: {text}")

    def _unreadable(self, path: Path | str, verb: str) -> LakeUnreadable:
        return LakeUnreadable(
            f"cannot {verb} {path}", hint="check the permissions of the lake's folder, and who made its files"
        )

    def _refuse_if_moved(self, connection: sqlite3.Connection) -> None:
        made_in = schema_property(connection, self.name, STAGE_SCHEMA, _WAREHOUSE)
        if made_in is not None and os.path.realpath(made_in) != os.path.realpath(self.warehouse):
            raise LakeMoved(
                f"this lake was made in {made_in}, but the project's warehouse is now {self.warehouse}",
                hint="Iceberg keeps absolute paths, so a lake cannot be moved or copied: move the project back, or"
                " delete the lake folder and build again",
            )

    # --- writing --------------------------------------------------------------------------------------------------

    @cached_property
    def _catalog(self) -> Catalog:
        from sqb.lake.sqlite_catalog import SqliteCatalog  # start-up stays free of pyiceberg

        uri = f"sqlite:///{self.database}?timeout={_BUSY_SECONDS}"
        return SqliteCatalog(self.name, uri=uri, warehouse=str(self.warehouse))

    @cached_property
    def writer(self) -> Writer:
        """The part that commits; loading it takes most of a second."""
        from sqb.lake.writer import Writer  # start-up stays free of pyiceberg

        self._initialise()
        return Writer(self._catalog, str(self.warehouse), self._swap, self._remove_folder)

    @cached_property
    def _journal(self) -> Journal:
        from sqb.lake.journal import Journal  # start-up stays free of pyiceberg

        return Journal(self._catalog, lambda schema: self.ensure_schemas([schema]))

    def _initialise(self) -> None:
        try:
            self.database.parent.mkdir(parents=True, exist_ok=True)
            self.warehouse.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise self._unreadable(error.filename or self.database.parent, "write to") from error
        for folder in (self.database.parent, self.warehouse):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise self._unreadable(folder, "write to")
        with suppress(FileExistsError):
            self.database.touch(exist_ok=False)
        with self._connected() as connection:
            if self._is_initialised(connection):
                self._refuse_if_moved(connection)
                return
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(f"BEGIN IMMEDIATE; {TABLES} COMMIT;")
            connection.executemany(
                "INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)",
                [
                    (self.name, STAGE_SCHEMA, "exists", "true"),
                    (self.name, STAGE_SCHEMA, _WAREHOUSE, str(self.warehouse)),
                ],
            )
            connection.commit()

    def _is_initialised(self, connection: sqlite3.Connection) -> bool:
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_namespace_properties'").fetchone()
        return bool(found) and schema_property(connection, self.name, STAGE_SCHEMA, _WAREHOUSE) is not None

    def _swap(self, target: Relation, location: str, base: Base | None) -> None:
        """Put a table in the place of what stood at `base`, in one step."""
        with self._at_base(target, base) as connection:
            point_rows(connection, self.name, "TABLE", [(target, location, None)])

    def exchange(self, relation: Relation, before: str, after: str) -> bool:
        """Let a table be described by another metadata file; False when `before` is not its metadata any more."""
        with self._connected() as connection:
            return exchange_row(connection, self.name, Pointer(relation, before), after)

    def forget(self, pointer: Pointer) -> bool:
        """Take a relation out of the catalog; False when it is not where it was any more."""
        with self._connected() as connection:
            return forget_row(connection, self.name, pointer)

    def forget_schemas(self, schemas: Iterable[str]) -> None:
        """Take schemas out of the catalog that hold nothing, and of which nothing but their being there is said."""
        with self._connected() as connection:
            drop_empty_schemas(connection, self.name, schemas)

    def publish_view(self, staged: Relation, target: Relation, base: Base | None) -> None:
        """Put a view that was made under another name in the place of what stood at `base`, in one step."""
        made = self._staged_view(staged)
        if made is None:
            raise LakeError(f"there is no view {staged} to put in the place of {target}")
        folder = self.warehouse / target.schema / target.name
        with self._explaining():
            path = write_view(folder, {**self.document(made), "location": str(folder)})
        try:
            with self._at_base(target, base) as connection:
                point_rows(connection, self.name, "VIEW", [(target, path, None)])
                drop_rows(connection, self.name, [staged])
        except BaseException:
            remove_written([path])
            raise
        self._remove_stage_folder(made)

    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        with self._explaining():
            self._initialise()
            return ViewMoves(self.name, self.warehouse, self._connected, self._view).make(moves)

    def _view(self, pointer: Pointer) -> Mapping[str, Any] | None:
        """The metadata of a view that can be read."""
        try:
            document = self.document(pointer)
        except LakeError:
            return None
        return document if "view-uuid" in document else None

    def view_columns(self, relations: Iterable[Relation]) -> Mapping[Relation, str]:
        pointers = self.pointers()
        return {r: self._read(pointers[r], columns_of) for r in relations if r in pointers}

    def discard_view(self, staged: Relation) -> None:
        """Remove a view that was made under another name."""
        made = self._staged_view(staged)
        if made is not None:
            self.drop_stage(staged)
            self._remove_stage_folder(made)

    def drop_stage(self, staged: Relation) -> None:
        """Take a stage out of the catalog, whatever became of its files."""
        with self._connected() as connection:
            drop_rows(connection, self.name, [staged])
            connection.commit()

    def _staged_view(self, staged: Relation) -> Pointer | None:
        found = self.pointers().get(staged)
        return found if found is not None and found.is_view else None

    @contextmanager
    def _at_base(self, target: Relation, base: Base | None) -> Iterator[sqlite3.Connection]:
        """A transaction in which nobody else can write, while `target` is what the caller has seen."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            found = rows_of(connection, self.name, target.schema, target.name).get(target)
            if found is None and base is not None:
                raise conflict(target, "it was dropped")
            if found is not None and base is None:
                raise conflict(target, "it was created")
            if found is not None and self._state(found).base != base:
                raise conflict(target)
            yield connection
            connection.commit()

    def _remove_stage_folder(self, made: Pointer) -> None:
        folder = Path(local_path(made.location)).parent.parent
        if folder.parent == self.warehouse / STAGE_SCHEMA:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_folder(self, folder: str) -> None:
        """Remove a folder, and those above it up to the table's own that it leaves empty."""
        shutil.rmtree(folder, ignore_errors=True)
        for parent in Path(folder).parents:
            # Schemas' folders stay: other threads are about to write below them.
            if self.warehouse not in parent.parents or parent.parent == self.warehouse:
                return
            try:
                parent.rmdir()
            except OSError:
                return

    def open_for_writing(self) -> Writer:
        """The writer, loaded once however many threads ask."""
        with self._opening, self._explaining():
            return self.writer

    def ensure_schemas(self, schemas: Iterable[str]) -> None:
        with self._explaining():
            self.open_for_writing().ensure_schemas(schemas, {"exists": "true"})

    def running(self, run_id: str, owner: str) -> AbstractContextManager[RunHandle]:
        return self.run_files.hold(run_id, owner)

    def runs(self) -> Mapping[str, Run]:
        return self.run_files.all()

    def settle(self, run_id: str) -> None:
        self.run_files.settle(run_id)

    @cached_property
    def run_files(self) -> Runs:
        """The files by which runs are known to be alive."""
        return Runs(self.warehouse / STAGE_SCHEMA / "_runs")

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        with self._explaining():
            return self.open_for_writing().stage(target, shape, base, run_id, view)

    def publish(self, stage: Stage, summary: Mapping[str, str], gone: Collection[str] | None = None) -> Published:
        with self._explaining():
            return self._noted(self.open_for_writing().publish(stage, summary, gone))

    def has_snapshot(self, relation: Relation, snapshot_id: int) -> bool:
        pointer = self.pointers().get(relation)
        if pointer is None or pointer.is_view:
            return False
        return self._read(pointer, lambda d: any(s["snapshot-id"] == snapshot_id for s in d.get("snapshots") or ()))

    def changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> Mapping[str, Sequence[Any]]:
        with self._explaining():
            return self.open_for_writing().changed_partitions(relation, snapshots)

    def files_with(self, relation: Relation, column: str, values: Collection[Any]) -> Sequence[str] | None:
        with self._explaining():
            return self.open_for_writing().files_with(relation, column, values)

    def lineage(self, relation: Relation) -> tuple[SnapshotInfo, ...]:
        pointer = self.pointers().get(relation)
        if pointer is None or pointer.is_view:
            return ()
        return self._read(pointer, lineage_of)

    def committed_at(self, relation: Relation, snapshot_id: int) -> datetime | None:
        pointer = self.pointers().get(relation)
        moment = self._read(pointer, lambda d: committed_ms(d, snapshot_id)) if pointer is not None else None
        return None if moment is None else datetime.fromtimestamp(moment / 1000, UTC)

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        with self._explaining():
            self.open_for_writing().fill(stage, columns)

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        with self._explaining():
            self.open_for_writing().fill_batches(stage, batches)

    def held_near(self, relation: Relation, base: Base, keys: Any) -> Held:
        with self._explaining():
            return self.open_for_writing().held_near(relation, base, keys)

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> Published:
        with self._explaining():
            return self._noted(self.open_for_writing().touch(target, base, summary))

    def mark(self, target: Relation, base: Base, properties: Mapping[str, str]) -> Published:
        with self._explaining():
            return self._noted(self.open_for_writing().mark(target, base, properties))

    def clone(
        self,
        source: Relation,
        snapshot_id: int,
        target: Relation,
        summary: Mapping[str, str],
        base: Base | None,
        run_id: str,
    ) -> Published:
        from sqb.lake.clone import make_clone  # start-up stays free of pyiceberg

        with self._explaining():
            self.ensure_schemas([target.schema])
            published, location = make_clone(self, self._swap, source, snapshot_id, target, summary, base, run_id)
        if self._cache:
            self._cache.keep_states({location: published.state})
        return published

    def discard(self, stage: Stage) -> None:
        with self._explaining():
            self.open_for_writing().discard(stage)

    def _noted(self, committed: Committed) -> Published:
        if self._cache:
            self._cache.keep_states({committed.location: committed.published.state})
        return committed.published

    # --- state ----------------------------------------------------------------------------------------------------

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        rows = list(rows)
        for appended in self._appending(lambda journal: journal.append(FINGERPRINTS, rows)):
            self._note_fingerprints(appended, rows)
        if self._cache:
            self._cache.save()

    def append_node_results(self, rows: Iterable[NodeResult]) -> None:
        self._appending(lambda journal: journal.append(NODE_RESULTS, rows))

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        rows = list(rows)
        for appended in self._appending(lambda journal: journal.append(FRESHNESS, rows)):
            known = self._cache.freshness(appended.schema, appended.previous or "") if self._cache else None
            if self._cache and (known is not None or appended.previous is None):
                added = (row for row in rows if row.target_schema == appended.schema)
                latest = latest_freshness((*(known or ()), *added))
                self._cache.keep_freshness(appended.schema, appended.location, latest.values())
                self._cache.save()

    def append_failures(self, rows: Iterable[FailedRow]) -> None:
        self._appending(lambda journal: journal.append(FAILURES, rows))

    def failures(self, schemas: Iterable[str]) -> Sequence[FailedRow]:
        found = self._state_locations(FAILURES.name, schemas)
        with self._explaining():
            return [row for schema in found for row in self.open_journal().read(FAILURES, schema)]

    def fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        found: dict[FingerprintKey, Fingerprint] = {}
        for schema, location in self._state_locations(FINGERPRINTS.name, schemas).items():
            known = self._cache.fingerprints(schema, location) if self._cache else None
            if known is None:
                with self._explaining():
                    known = list(latest_fingerprints(self.open_journal().read(FINGERPRINTS, schema)).values())
                if self._cache:
                    self._cache.keep_fingerprints(schema, location, known)
                    self._cache.save()
            found.update((row.key, row) for row in known)
        return found

    def freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        found: dict[tuple[str, str], FreshnessRow] = {}
        for schema, location in self._state_locations(FRESHNESS.name, schemas).items():
            known = self._cache.freshness(schema, location) if self._cache else None
            if known is None:
                with self._explaining():
                    known = list(latest_freshness(self.open_journal().read(FRESHNESS, schema)).values())
                if self._cache:
                    self._cache.keep_freshness(schema, location, known)
                    self._cache.save()
            found.update((row.key, row) for row in known)
        return found

    def column_maximum(self, pointer: Pointer, column: str, filter_: str | None) -> object:
        """The greatest value of a column as the statistics of a table's files tell it exactly; raises `Untold`."""
        from sqb.lake.statistics import column_maximum  # start-up stays free of pyiceberg

        with self._explaining():
            return column_maximum(self.document(pointer), column, filter_)

    @property
    def cache(self) -> Cache | None:
        """What was derived from the catalog's pointers, where it is kept."""
        return self._cache

    def node_results(
        self,
        schemas: Iterable[str],
        *,
        node_name: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[NodeResult]:
        def wanted(row: NodeResult) -> bool:
            return node_name in (None, row.node_name) and run_id in (None, row.run_id)

        rows: list[NodeResult] = []
        with self._explaining():
            for schema in self._state_locations(NODE_RESULTS.name, schemas):
                rows += self.open_journal().newest(NODE_RESULTS, schema, limit, wanted)
        return sorted(rows, key=lambda row: row.ts, reverse=True)[:limit]

    def _appending(self, append: Callable[[Journal], list[Appended]]) -> list[Appended]:
        with self._explaining():
            self.open_for_writing()
            return append(self.open_journal())

    def open_journal(self) -> Journal:
        """The part that appends to state tables, loaded once however many threads ask."""
        with self._opening:
            return self._journal

    def _note_fingerprints(self, appended: Appended, rows: Iterable[Fingerprint]) -> None:
        """Keep the cache right without reading: what it knew of the version before, and the rows added to it."""
        if self._cache is None:
            return
        before = self._cache.fingerprints(appended.schema, appended.previous) if appended.previous else ()
        if before is None:
            return
        added = (row for row in rows if row.target_schema == appended.schema)
        latest = latest_fingerprints((*before, *added))
        self._cache.keep_fingerprints(appended.schema, appended.location, latest.values())

    def keep_fingerprints(self, schema: str, before: str, after: str) -> None:
        """Keep what is known of a state table whose rows were only pruned and put together."""
        known = self._cache.fingerprints(schema, before) if self._cache else None
        if self._cache and known is not None:
            self._cache.keep_fingerprints(schema, after, known)
            self._cache.save()

    def _state_locations(self, table: str, schemas: Iterable[str]) -> Mapping[str, str]:
        """Where the metadata of a state table is now, in each of the schemas that have it."""
        if not self.exists():
            return {}
        with self._connected() as connection:
            if is_being_made(connection):
                return {}
            found: dict[str, str] = dict(
                connection.execute(
                    "SELECT table_namespace, metadata_location FROM iceberg_tables"
                    " WHERE catalog_name = ? AND table_name = ? AND metadata_location IS NOT NULL",
                    (self.name, table),
                ).fetchall()
            )
        return {schema: found[schema] for schema in sorted(set(schemas)) if schema in found}

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn what SQLite, SQLAlchemy and the file system say into errors of ours."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise LakeFull(f"no space left in {self.warehouse}", hint="free some space and build again") from error
            if isinstance(error, PermissionError):
                raise self._unreadable(error.filename or self.warehouse, "write to") from error
            raise LakeError(f"{self.warehouse}: {error}") from error
        except LakeError:
            raise
        except Exception as error:
            cause = getattr(error, "orig", None)
            if isinstance(cause, sqlite3.Error):
                raise self._explained(cause) from error
            raise


def local_path(location: str) -> str:
    """The file-system path in a location such as `file:///a/b` or `/a/b`."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    return location
