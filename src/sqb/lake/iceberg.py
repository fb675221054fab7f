"""A lake of Iceberg tables, in any catalog and any storage.

Planning needs the catalog's pointers and the metadata files behind them; pyiceberg is loaded on the first write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqb.errors import CatalogUnreachable, CommitUnknown, LakeError
from sqb.errors_connections import StorageUnreachable
from sqb.lake.at_once import at_once
from sqb.lake.cache import Cache
from sqb.lake.documents import meaning_of, read_document
from sqb.lake.locations import parent_of, real_folder
from sqb.lake.metadata import committed_ms, lineage_of, state_of
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
)
from sqb.lake.register import open_register
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
from sqb.lake.storage import RunKeeper, open_storage
from sqb.lake.views import columns_of
from sqb.names import Relation
from sqb.project.place import Place

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from sqb.lake.journal import Appended, Journal
    from sqb.lake.writer import Committed, Writer

Read = TypeVar("Read")

# For so long nothing is tidied up in a lake that was out of reach: whoever waits is to hear of that.
_SILENT_SECONDS = 10.0


class IcebergLake(Lake):
    """A lake of Iceberg tables: a register says which there are, a storage holds their files."""

    def __init__(self, place: Place, cache: Path | None = None) -> None:
        self.place = place
        self.name = place.name
        self.storage = open_storage(place)
        self.register = open_register(place, self.storage)
        self._cache = Cache(cache) if cache else None
        self._seen: Mapping[Relation, Pointer] | None = None
        self._opening = threading.RLock()
        # When this thread has waited for it in vain.
        self._unreached = threading.local()

    # --- reading, without pyiceberg -------------------------------------------------------------------------------

    @property
    def warehouse(self) -> str:
        """Where its files are: a local path or an address in an object store."""
        return self.storage.root

    def pointers(self) -> Mapping[Relation, Pointer]:
        if not self.exists():
            return {}
        self._seen = self.register.pointers()
        return self._seen

    def everything(self) -> Mapping[Relation, Pointer]:
        """The same with all metadata at hand, for whoever looks at all of it; what goes meanwhile is not among it."""
        pointers = self.pointers()
        self.register.fetch(pointers.values())
        return {relation: pointers[relation] for relation in pointers}

    def tables(self, pointers: Iterable[Pointer]) -> Mapping[Relation, TableState]:
        wanted = list(pointers)
        self.register.fetch(wanted)
        known = self._cache.states(p.location for p in wanted) if self._cache else {}
        read = self._states([p for p in wanted if p.location not in known])
        if self._cache and read:
            self._cache.keep_states(read, self.register.living(self._seen) if self._seen is not None else None)
            self._cache.save()
        return {p.relation: known.get(p.location) or read[p.location] for p in wanted}

    def _states(self, pointers: Sequence[Pointer]) -> dict[str, TableState]:
        states = at_once(lambda p: self._read(p, state_of), pointers, self.storage.readers)
        return {pointer.location: state for pointer, state in zip(pointers, states, strict=True)}

    def document(self, pointer: Pointer) -> dict[str, Any]:
        """The metadata document behind a pointer, as it is."""
        return self._read(pointer, dict)

    def _read(self, pointer: Pointer, meaning: Callable[[Mapping[str, Any]], Read]) -> Read:
        known = self.register.document(pointer)
        if known is not None:
            return meaning_of(pointer, lambda: known, meaning)
        return read_document(pointer, self.storage, meaning)

    def exists(self) -> bool:
        """Whether there is a catalog at all."""
        return self.register.exists()

    # --- writing --------------------------------------------------------------------------------------------------

    @cached_property
    def _catalog(self) -> Catalog:
        return self.register.catalog()

    @cached_property
    def writer(self) -> Writer:
        """The part that commits; loading it takes most of a second."""
        from sqb.lake.writer import Writer  # start-up stays free of pyiceberg

        self.register.initialise()
        return Writer(self._catalog, self.warehouse, self.register.swap, self.storage.remove_folder)

    @cached_property
    def _journal(self) -> Journal:
        from sqb.lake.journal import Journal  # start-up stays free of pyiceberg

        return Journal(self._catalog, lambda schema: self.ensure_schemas([schema]))

    def exchange(self, relation: Relation, before: str, after: str) -> bool:
        """Let a table be described by another metadata file; False when `before` is not its metadata any more."""
        return self.register.exchange(relation, before, after)

    def forget(self, pointer: Pointer) -> bool:
        """Take a relation out of the catalog; False when it is not where it was any more."""
        return self.register.forget(pointer)

    def forget_schemas(self, schemas: Iterable[str]) -> None:
        """Take schemas out of the catalog that hold nothing, and of which nothing but their being there is said."""
        self.register.forget_schemas(schemas)

    def publish_view(self, staged: Relation, target: Relation, base: Base | None) -> None:
        """Put a view that was made under another name in the place of what stood at `base`, in one step."""
        made = self._staged_view(staged)
        if made is None:
            raise LakeError(f"there is no view {staged} to put in the place of {target}")
        with self.explaining():
            self.register.publish_view(made, target, base)
        self._remove_stage_folder(made)

    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        with self.explaining():
            return self.register.move_views(moves)

    def view_columns(self, relations: Iterable[Relation]) -> Mapping[Relation, str]:
        pointers = self.pointers()
        found = [pointers[r] for r in relations if r in pointers]
        self.register.fetch(found)
        return {p.relation: self._read(p, columns_of) for p in found}

    def discard_view(self, staged: Relation) -> None:
        """Remove a view that was made under another name."""
        made = self._staged_view(staged)
        if made is not None:
            self.drop_stage(staged)
            self._remove_stage_folder(made)

    def drop_stage(self, staged: Relation) -> None:
        """Take a stage out of the catalog, whatever became of its files."""
        self.register.drop(staged)

    def _staged_view(self, staged: Relation) -> Pointer | None:
        found = self.pointers().get(staged)
        return found if found is not None and found.is_view else None

    def _remove_stage_folder(self, made: Pointer) -> None:
        folder = parent_of(parent_of(made.location))
        if real_folder(parent_of(folder)) == real_folder(f"{self.warehouse}/{STAGE_SCHEMA}"):
            self.storage.remove_folder(folder)

    def open_for_writing(self) -> Writer:
        """The writer, loaded once however many threads ask."""
        with self._opening, self.explaining():
            return self.writer

    def ensure_schemas(self, schemas: Iterable[str]) -> None:
        with self.explaining():
            self.open_for_writing().ensure_schemas(schemas, {"exists": "true"})

    def running(self, run_id: str, owner: str) -> AbstractContextManager[RunHandle]:
        return self.run_keeper.hold(run_id, owner)

    def runs(self) -> Mapping[str, Run]:
        return self.run_keeper.all()

    def settle(self, run_id: str) -> None:
        self.run_keeper.settle(run_id)

    @cached_property
    def run_keeper(self) -> RunKeeper:
        """What runs are known by to be alive: files where there are local ones, else what the catalog has."""
        kept = self.register.runs() if self.place.folder is None else None
        return kept or self.storage.runs()

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        with self.explaining():
            return self.open_for_writing().stage(target, shape, base, run_id, view)

    def publish(self, stage: Stage, summary: Mapping[str, str], gone: Collection[str] | None = None) -> Published:
        with self.explaining():
            return self._noted(self.open_for_writing().publish(stage, summary, gone))

    def has_snapshot(self, relation: Relation, snapshot_id: int) -> bool:
        pointer = self.pointers().get(relation)
        if pointer is None or pointer.is_view:
            return False
        return self._read(pointer, lambda d: any(s["snapshot-id"] == snapshot_id for s in d.get("snapshots") or ()))

    def changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> Mapping[str, Sequence[Any]]:
        with self.explaining():
            return self.open_for_writing().changed_partitions(relation, snapshots)

    def files_with(self, relation: Relation, column: str, values: Collection[Any]) -> Sequence[str] | None:
        with self.explaining():
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
        with self.explaining():
            self.open_for_writing().fill(stage, columns)

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        with self.explaining():
            self.open_for_writing().fill_batches(stage, batches)

    def held_near(self, relation: Relation, base: Base, keys: Any) -> Held:
        with self.explaining():
            return self.open_for_writing().held_near(relation, base, keys)

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> Published:
        with self.explaining():
            return self._noted(self.open_for_writing().touch(target, base, summary))

    def mark(self, target: Relation, base: Base, properties: Mapping[str, str]) -> Published:
        with self.explaining():
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

        with self.explaining():
            self.ensure_schemas([target.schema])
            published, location = make_clone(self, source, snapshot_id, target, summary, base, run_id)
        if self._cache:
            self._cache.keep_states({location: published.state})
        return published

    def discard(self, stage: Stage) -> None:
        if time.monotonic() - getattr(self._unreached, "at", -_SILENT_SECONDS) < _SILENT_SECONDS:
            # The janitor finds what is left.
            return
        with self.explaining():
            self.open_for_writing().discard(stage)

    def _noted(self, committed: Committed) -> Published:
        if self._cache:
            self._cache.keep_states({committed.location: committed.published.state})
        return committed.published

    def close(self) -> None:
        """Let go of connections; the next question makes new ones."""
        self.register.close()
        engine = getattr(self.__dict__.get("_catalog"), "engine", None)
        if engine is not None:
            engine.dispose()

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
        with self.explaining():
            return [row for schema in found for row in self.open_journal().read(FAILURES, schema)]

    def fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        found: dict[FingerprintKey, Fingerprint] = {}
        for schema, location in self._state_locations(FINGERPRINTS.name, schemas).items():
            known = self._cache.fingerprints(schema, location) if self._cache else None
            if known is None:
                with self.explaining():
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
                with self.explaining():
                    known = list(latest_freshness(self.open_journal().read(FRESHNESS, schema)).values())
                if self._cache:
                    self._cache.keep_freshness(schema, location, known)
                    self._cache.save()
            found.update((row.key, row) for row in known)
        return found

    def column_maximum(self, pointer: Pointer, column: str, filter_: str | None) -> object:
        """The greatest value of a column as the statistics of a table's files tell it exactly; raises `Untold`."""
        from sqb.lake.statistics import column_maximum  # start-up stays free of pyiceberg

        with self.explaining():
            return column_maximum(self.document(pointer), column, filter_, self.storage.io_options())

    def column_minimum(self, pointer: Pointer, column: str) -> object:
        """The smallest value of a column as the statistics of a table's files tell it exactly; raises `Untold`."""
        from sqb.lake.statistics import column_minimum  # start-up stays free of pyiceberg

        with self.explaining():
            return column_minimum(self.document(pointer), column, self.storage.io_options())

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
        with self.explaining():
            for schema in self._state_locations(NODE_RESULTS.name, schemas):
                rows += self.open_journal().newest(NODE_RESULTS, schema, limit, wanted)
        return sorted(rows, key=lambda row: row.ts, reverse=True)[:limit]

    def _appending(self, append: Callable[[Journal], list[Appended]]) -> list[Appended]:
        with self.explaining():
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
        return self.register.state_locations(table, sorted(set(schemas)))

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Turn what databases, SQLAlchemy and storages say into errors of ours."""
        try:
            with self._translating():
                yield
        except (CatalogUnreachable, StorageUnreachable, CommitUnknown):
            self._unreached.at = time.monotonic()
            raise

    @contextmanager
    def _translating(self) -> Iterator[None]:
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
            explained = self.storage.explain(error) or self.register.explain(error)
            if explained is not None:
                raise explained from error
            if isinstance(error, OSError):
                raise LakeError(f"{self.warehouse}: {error}") from error
            raise
