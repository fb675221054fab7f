"""A lake of Iceberg tables, in any catalog and any storage.

Planning needs the catalog's pointers and the metadata files behind them; pyiceberg is loaded on the first write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqb.errors.connections import StorageUnreachable
from sqb.errors.lake import CatalogUnreachable, CommitUnknown, LakeError, LakeUnreadable
from sqb.lake.catalog.base import LakeCatalog
from sqb.lake.commit.views import list_view_columns
from sqb.lake.concurrency import map_concurrently
from sqb.lake.metadata.cache import Cache
from sqb.lake.metadata.files import interpret_document, read_document
from sqb.lake.metadata.history import read_history
from sqb.lake.metadata.refs import find_state_at_time, find_state_at_version
from sqb.lake.metadata.table_state import find_commit_ms, parse_lineage, parse_state
from sqb.lake.port import (
    STAGE_SCHEMA,
    Base,
    ChangedFiles,
    ColumnRanges,
    FileScan,
    Lake,
    PastSnapshot,
    Pointer,
    PublishedCommit,
    Run,
    RunHandle,
    Shape,
    SnapshotInfo,
    Stage,
    StateTables,
    TableState,
    ViewSwap,
)
from sqb.lake.state.iceberg import IcebergStateTables
from sqb.lake.storage.base import RunTracker, Storage
from sqb.lake.storage.locations import get_parent, normalize_folder
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation, is_object_store

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from sqb.lake.commit.writer import CommitResult, Writer
    from sqb.lake.state.tables import Journal

Result = TypeVar("Result")

# How long stages are not discarded after the lake was unreachable, so that the error is reported without delay.
_SILENT_SECONDS = 10.0


class IcebergLake(Lake):
    """A lake of Iceberg tables: a catalog lists them, a storage holds their files."""

    def __init__(
        self,
        place: LakeLocation,
        cache: Path | None = None,
        wrap_state: Callable[[StateTables], StateTables] | None = None,
    ) -> None:
        self.place = place
        self.storage = open_storage(place)
        self.catalog = open_catalog(place, self.storage)
        self._cache = Cache(cache) if cache else None
        self._pointers: Mapping[Relation, Pointer] | None = None
        self._open_lock = threading.RLock()
        # When the lake was last unreachable for this thread.
        self._last_failure = threading.local()
        self._wrap_state = wrap_state

    # --- reading, without pyiceberg -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.place.name

    @cached_property
    def state_tables(self) -> IcebergStateTables:
        """The state tables that it holds itself."""
        return IcebergStateTables(self, self._cache)

    @cached_property
    def state(self) -> StateTables:
        return self._wrap_state(self.state_tables) if self._wrap_state is not None else self.state_tables

    @property
    def warehouse(self) -> str:
        """Where its files are: a local path or an address in an object store."""
        return self.storage.root

    def list_pointers(self) -> Mapping[Relation, Pointer]:
        if not self.exists():
            return {}
        self._pointers = self.catalog.list_pointers()
        return self._pointers

    def load_pointers(self) -> Mapping[Relation, Pointer]:
        """List all pointers with their metadata loaded; a relation that is dropped meanwhile is left out."""
        pointers = self.list_pointers()
        self.catalog.fetch(pointers.values())
        return {relation: pointers[relation] for relation in pointers}

    def read_tables(self, pointers: Iterable[Pointer]) -> Mapping[Relation, TableState]:
        requested = list(pointers)
        self.catalog.fetch(requested)
        cached = self._cache.get_states(p.location for p in requested) if self._cache else {}
        missing = [p for p in requested if p.location not in cached]
        states = self._read_states(missing) if missing else {}
        if self._cache and states:
            self._cache.put_states(
                states, self.catalog.get_live_locations(self._pointers) if self._pointers is not None else None
            )
            self._cache.save()
        return {p.relation: cached.get(p.location) or states[p.location] for p in requested}

    def _read_states(self, pointers: Sequence[Pointer]) -> dict[str, TableState]:
        states = map_concurrently(lambda p: self._read(p, parse_state), pointers, self.storage.readers)
        return {pointer.location: state for pointer, state in zip(pointers, states, strict=True)}

    def load_document(self, pointer: Pointer) -> dict[str, Any]:
        """Load the metadata document behind a pointer."""
        return self._read(pointer, dict)

    def _read(self, pointer: Pointer, interpret: Callable[[Mapping[str, Any]], Result]) -> Result:
        document = self.catalog.get_document(pointer)
        if document is not None:
            return interpret_document(pointer, lambda: document, interpret)
        return read_document(pointer, self.storage, interpret)

    def exists(self) -> bool:
        return self.catalog.exists()

    # --- writing --------------------------------------------------------------------------------------------------

    @cached_property
    def _pyiceberg_catalog(self) -> Catalog:
        return self.catalog.open_pyiceberg()

    @cached_property
    def writer(self) -> Writer:
        """The part that commits; loading it takes most of a second."""
        from sqb.lake.commit.writer import Writer  # start-up stays free of pyiceberg

        self.catalog.initialise()
        return Writer(self._pyiceberg_catalog, self.warehouse, self.catalog.swap, self.storage.remove_folder)

    @cached_property
    def _journal(self) -> Journal:
        from sqb.lake.state.tables import Journal  # start-up stays free of pyiceberg

        return Journal(self._pyiceberg_catalog, lambda schema: self.ensure_schemas([schema]))

    def replace_metadata(self, relation: Relation, before: str, after: str) -> bool:
        """Point a table to another metadata file; False when `before` is no longer its current one."""
        return self.catalog.replace_metadata(relation, before, after)

    def rename(self, pointer: Pointer, target: Relation) -> bool:
        with self.translate_errors():
            return self.catalog.rename(pointer, target)

    def drop_if_current(self, pointer: Pointer) -> bool:
        return self.catalog.drop_if_current(pointer)

    def drop_empty_schemas(self, schemas: Iterable[str]) -> None:
        self.catalog.drop_empty_schemas(schemas)

    def publish_view(self, staged: Relation, target: Relation, base: Base | None) -> None:
        """Replace the relation at `base` by a view that was created under another name, in one step."""
        view = self._find_staged_view(staged)
        if view is None:
            raise LakeError(f"there is no view {staged} to put in the place of {target}")
        with self.translate_errors():
            self.catalog.publish_view(view, target, base)
        self._remove_stage_folder(view)

    def swap_views(self, swaps: Sequence[ViewSwap]) -> Mapping[Relation, str]:
        with self.translate_errors():
            return self.catalog.swap_views(swaps)

    def read_view_columns(self, relations: Iterable[Relation]) -> Mapping[Relation, str]:
        pointers = self.list_pointers()
        existing = [pointers[r] for r in relations if r in pointers]
        self.catalog.fetch(existing)
        return {p.relation: self._read(p, list_view_columns) for p in existing}

    def discard_view(self, staged: Relation) -> None:
        """Remove a view that was created under another name."""
        view = self._find_staged_view(staged)
        if view is not None:
            self.drop_stage(staged)
            self._remove_stage_folder(view)

    def drop_stage(self, staged: Relation) -> None:
        """Drop a stage from the catalog; its files are left."""
        self.catalog.drop(staged)

    def _find_staged_view(self, staged: Relation) -> Pointer | None:
        pointer = self.list_pointers().get(staged)
        return pointer if pointer is not None and pointer.is_view else None

    def _remove_stage_folder(self, view: Pointer) -> None:
        folder = get_parent(get_parent(view.location))
        if normalize_folder(get_parent(folder)) == normalize_folder(f"{self.warehouse}/{STAGE_SCHEMA}"):
            self.storage.remove_folder(folder)

    def open_for_writing(self) -> Writer:
        """The writer, loaded once however many threads ask."""
        with self._open_lock, self.translate_errors():
            return self.writer

    def ensure_schemas(self, schemas: Iterable[str]) -> None:
        with self.translate_errors():
            self.open_for_writing().ensure_schemas(schemas, {"exists": "true"})

    def hold_run(self, run_id: str, owner: str) -> AbstractContextManager[RunHandle]:
        return self.run_tracker.hold(run_id, owner)

    def list_runs(self) -> Mapping[str, Run]:
        return self.run_tracker.list_runs()

    def settle_run(self, run_id: str) -> None:
        self.run_tracker.settle(run_id)

    @cached_property
    def run_tracker(self) -> RunTracker:
        """Which runs are alive: by local files where there are any, else by the catalog or the storage."""
        tracker = self.catalog.open_run_tracker() if self.place.folder is None else None
        return tracker or self.storage.open_run_tracker()

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        with self.translate_errors():
            return self.open_for_writing().stage(target, shape, base, run_id, view)

    def publish(
        self, stage: Stage, summary: Mapping[str, str], replaced_files: Collection[str] | None = None
    ) -> PublishedCommit:
        with self.translate_errors():
            return self._cache_commit(self.open_for_writing().publish(stage, summary, replaced_files))

    def has_snapshot(self, relation: Relation, snapshot_id: int) -> bool:
        pointer = self.list_pointers().get(relation)
        if pointer is None or pointer.is_view:
            return False
        return self._read(pointer, lambda d: any(s["snapshot-id"] == snapshot_id for s in d.get("snapshots") or ()))

    def find_changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> Mapping[str, Sequence[Any]]:
        with self.translate_errors():
            return self.open_for_writing().find_changed_partitions(relation, snapshots)

    def find_changed_ranges(
        self, relation: Relation, old: int, new: int, columns: Collection[str]
    ) -> Mapping[str, ColumnRanges]:
        from sqb.lake.metadata.changed_ranges import read_changed_ranges  # only plans with something to follow

        document = self._load_table_document(relation)
        with self.translate_errors():
            return read_changed_ranges(document, self.storage, old, new, columns) if document is not None else {}

    def count_rows_in_ranges(
        self, relation: Relation, snapshot_id: int, column: str, ranges: ColumnRanges
    ) -> int | None:
        from sqb.lake.metadata.changed_ranges import count_rows_in_ranges  # only plans with something to follow

        document = self._load_table_document(relation)
        with self.translate_errors():
            if document is None:
                return None
            return count_rows_in_ranges(document, self.storage, snapshot_id, column, ranges)

    def _load_table_document(self, relation: Relation) -> dict[str, Any] | None:
        pointer = self.list_pointers().get(relation)
        if pointer is None or pointer.is_view:
            return None
        self.catalog.fetch([pointer])
        return self.load_document(pointer)

    def find_files_with_values(self, relation: Relation, column: str, values: Collection[Any]) -> Sequence[str] | None:
        with self.translate_errors():
            return self.open_for_writing().find_files_with_values(relation, column, values)

    def stage_changed_files(
        self, relation: Relation, old: int, new: int, columns: Collection[str], run_id: str
    ) -> ChangedFiles | None:
        from sqb.lake.commit.scratch import (  # start-up stays free of pyiceberg
            build_scratch_relation,
            stage_changed_files,
        )

        pointer = self.list_pointers().get(relation)
        if pointer is None or pointer.is_view:
            return None
        with self.translate_errors():
            self.open_for_writing()
            self.catalog.fetch([pointer])
            document, target = self.load_document(pointer), build_scratch_relation(relation, run_id)
            return stage_changed_files(document, old, new, columns, target, self.storage, self.catalog)

    def drop_changed_files(self, changed: ChangedFiles) -> None:
        from sqb.lake.commit.scratch import build_scratch_folder  # start-up stays free of pyiceberg

        if changed.parts:
            # What cannot be dropped now is left to the janitor.
            with suppress(LakeError), self.translate_errors():
                self.drop_stage(changed.relation)
                self.storage.remove_folder(build_scratch_folder(self.storage, changed.relation))

    def read_lineage(self, relation: Relation) -> tuple[SnapshotInfo, ...]:
        pointer = self.list_pointers().get(relation)
        if pointer is None or pointer.is_view:
            return ()
        return self._read(pointer, parse_lineage)

    def read_history(self, pointer: Pointer) -> Mapping[int, PastSnapshot]:
        return self._read(pointer, read_history)

    def read_first_rows(self, relation: Relation, limit: int) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        with self.translate_errors():
            return self.open_for_writing().read_first_rows(relation, limit)

    def read_state_at_version(self, pointer: Pointer, version: str) -> TableState | None:
        return self._read(pointer, lambda document: find_state_at_version(document, version))

    def read_state_at_time(self, pointer: Pointer, text: str, zone: str) -> TableState | None:
        return self._read(pointer, lambda document: find_state_at_time(document, text, zone))

    def read_commit_time(self, relation: Relation, snapshot_id: int) -> datetime | None:
        pointer = self.list_pointers().get(relation)
        committed = self._read(pointer, lambda d: find_commit_ms(d, snapshot_id)) if pointer is not None else None
        return None if committed is None else datetime.fromtimestamp(committed / 1000, UTC)

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        with self.translate_errors():
            self.open_for_writing().fill(stage, columns)

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        with self.translate_errors():
            self.open_for_writing().fill_batches(stage, batches)

    def find_files_with_keys(self, relation: Relation, base: Base, keys: Any) -> FileScan:
        with self.translate_errors():
            return self.open_for_writing().find_files_with_keys(relation, base, keys)

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> PublishedCommit:
        with self.translate_errors():
            return self._cache_commit(self.open_for_writing().touch(target, base, summary))

    def set_properties(self, target: Relation, base: Base, properties: Mapping[str, str]) -> PublishedCommit:
        with self.translate_errors():
            return self._cache_commit(self.open_for_writing().set_properties(target, base, properties))

    def clone(
        self,
        source: Relation,
        snapshot_id: int,
        target: Relation,
        summary: Mapping[str, str],
        base: Base | None,
        run_id: str,
    ) -> PublishedCommit:
        from sqb.lake.clones.clone import make_clone  # start-up stays free of pyiceberg

        with self.translate_errors():
            self.ensure_schemas([target.schema])
            published, location = make_clone(self, source, snapshot_id, target, summary, base, run_id)
        if self._cache:
            self._cache.put_states({location: published.state})
        return published

    def discard(self, stage: Stage) -> None:
        if time.monotonic() - getattr(self._last_failure, "at", -_SILENT_SECONDS) < _SILENT_SECONDS:
            # The janitor finds what is left.
            return
        with self.translate_errors():
            self.open_for_writing().discard(stage)

    def _cache_commit(self, committed: CommitResult) -> PublishedCommit:
        if self._cache:
            self._cache.put_states({committed.location: committed.published.state})
        return committed.published

    def close(self) -> None:
        """Close connections; the next call opens new ones."""
        self.catalog.close()
        engine = getattr(self.__dict__.get("_pyiceberg_catalog"), "engine", None)
        if engine is not None:
            engine.dispose()

    def read_column_maximum(self, pointer: Pointer, column: str, filter_: str | None) -> object:
        from sqb.lake.metadata.column_stats import compute_column_maximum  # start-up stays free of pyiceberg

        with self.translate_errors():
            return compute_column_maximum(self.load_document(pointer), column, filter_, self.storage.get_io_options())

    def read_column_minimum(self, pointer: Pointer, column: str) -> object:
        from sqb.lake.metadata.column_stats import compute_column_minimum  # start-up stays free of pyiceberg

        with self.translate_errors():
            return compute_column_minimum(self.load_document(pointer), column, self.storage.get_io_options())

    def get_cached_answers(self, keys: Iterable[str]) -> Mapping[str, str]:
        return self._cache.get_answers(keys) if self._cache else {}

    def cache_answers(self, answers: Mapping[str, str]) -> None:
        if self._cache:
            self._cache.put_answers(answers)

    # --- state ----------------------------------------------------------------------------------------------------

    def open_journal(self) -> Journal:
        """The part that appends to state tables, loaded once however many threads ask."""
        with self._open_lock:
            return self._journal

    def open_journal_for_writing(self) -> Journal:
        """The same, with a catalog to write to."""
        self.open_for_writing()
        return self.open_journal()

    def find_state_locations(self, table: str, schemas: Iterable[str]) -> Mapping[str, str]:
        """Where the metadata of a state table is now, in each of the schemas that have it."""
        if not self.exists():
            return {}
        return self.catalog.find_state_locations(table, sorted(set(schemas)))

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate errors of databases, SQLAlchemy and storages to sqb's errors."""
        try:
            with self._translate_driver_errors():
                yield
        except (CatalogUnreachable, StorageUnreachable, CommitUnknown):
            self._last_failure.at = time.monotonic()
            raise

    @contextmanager
    def _translate_driver_errors(self) -> Iterator[None]:
        try:
            yield
        except LakeError:
            raise
        except Exception as error:
            # pyiceberg's, which is not loaded just to be compared with.
            if type(error).__name__ == "CommitStateUnknownException":
                raise CommitUnknown(
                    "the catalog did not say whether a change took place: "
                    + self.place.hide(str(error).partition("\n")[0]),
                    hint="run the command again: it starts from what is there now",
                ) from error
            explained = self.storage.explain(error) or self.catalog.explain(error)
            if explained is not None:
                raise explained from error
            if isinstance(error, OSError):
                raise LakeError(f"{self.warehouse}: {error}") from error
            raise


def open_storage(place: LakeLocation) -> Storage:
    """The storage of a place's warehouse."""
    if place.folder is not None:
        from sqb.lake.storage.local import LocalStorage  # each storage is loaded where it is used

        return LocalStorage(place.folder)
    if is_object_store(place.root):
        from sqb.lake.storage.s3 import ObjectStorage

        return ObjectStorage(place)
    if place.type == "rest":
        raise LakeUnreadable(
            f"the connection {place.connection} does not say where the files of its warehouse are",
            hint="where `warehouse` is but a name, add the option `location` to the connection's catalog: a local"
            " folder or an address such as s3://bucket/path",
        )
    where = f"is at {place.warehouse}, which sqb cannot read" if place.warehouse else "is nowhere"
    raise LakeUnreadable(
        f"the warehouse of the connection {place.connection} {where}",
        hint="set `warehouse` of the connection's catalog to a local folder or an address such as s3://bucket/path",
    )


def open_catalog(place: LakeLocation, storage: Storage) -> LakeCatalog:
    """Open the catalog of a place."""
    if place.database is not None:
        from sqb.lake.catalog.sqlite import SqliteLakeCatalog  # each catalog is loaded where it is used

        return SqliteLakeCatalog(place, storage)
    if place.type == "rest":
        from sqb.lake.catalog.rest.catalog import RestLakeCatalog

        return RestLakeCatalog(place, storage)
    if place.is_postgres:
        from sqb.lake.catalog.postgres import PostgresLakeCatalog

        return PostgresLakeCatalog(place, storage)
    from sqb.lake.catalog.pyiceberg import PyIcebergLakeCatalog

    return PyIcebergLakeCatalog(place, storage)
