"""The state tables of a lake of Iceberg tables, as the port offers them: what was read of them is cached.

A state table is read anew only where its metadata file is another one. Reading from the cache loads no pyiceberg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from sqb.errors.lake import LakeError
from sqb.lake.metadata.cache import Cache
from sqb.lake.port import Pointer, StateTables
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
    find_latest_fingerprints,
    find_latest_freshness,
    refuse_newer_state,
)
from sqb.lake.storage.base import Storage

if TYPE_CHECKING:
    from sqb.lake.state.tables import AppendResult, Journal


class JournalSource(Protocol):
    """The lake that holds the state tables."""

    def open_journal(self) -> Journal:
        """The part that reads state tables."""

    def open_journal_for_writing(self) -> Journal:
        """The same, with a catalog to write to."""

    def find_state_locations(self, table: str, schemas: Iterable[str]) -> Mapping[str, str]:
        """Where the metadata of a state table is now, in each of the schemas that have it."""

    @property
    def storage(self) -> Storage:
        """Where files are."""

    def load_document(self, pointer: Pointer) -> dict[str, Any]:
        """The metadata document behind a pointer."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Translate errors of databases and storages to sqb's errors."""


class IcebergStateTables(StateTables):
    """The state tables of one lake."""

    def __init__(self, lake: JournalSource, cache: Cache | None) -> None:
        self._lake, self._cache = lake, cache

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        rows = list(rows)
        for appended in self._append(lambda journal: journal.append(FINGERPRINTS, rows)):
            self._cache_appended_fingerprints(appended, rows)
        if self._cache:
            self._cache.save()

    def append_node_results(self, rows: Iterable[NodeResult]) -> None:
        self._append(lambda journal: journal.append(NODE_RESULTS, rows))

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        rows = list(rows)
        for appended in self._append(lambda journal: journal.append(FRESHNESS, rows)):
            cached = self._cache.get_freshness(appended.schema, appended.previous or "") if self._cache else None
            if self._cache and (cached is not None or appended.previous is None):
                added = (row for row in rows if row.target_schema == appended.schema)
                latest = find_latest_freshness((*(cached or ()), *added))
                self._cache.put_freshness(appended.schema, appended.location, latest.values())
                self._cache.save()

    def append_failures(self, rows: Iterable[FailedRow]) -> None:
        self._append(lambda journal: journal.append(FAILURES, rows))

    def read_failures(self, schemas: Iterable[str]) -> Sequence[FailedRow]:
        locations = self._lake.find_state_locations(FAILURES.name, schemas)
        with self._lake.translate_errors():
            return [row for schema in locations for row in self._lake.open_journal().read(FAILURES, schema)]

    def read_fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        latest: dict[FingerprintKey, Fingerprint] = {}
        for schema, location in self._lake.find_state_locations(FINGERPRINTS.name, schemas).items():
            rows = self._cache.get_fingerprints(schema, location) if self._cache else None
            if rows is None:
                with self._lake.translate_errors():
                    journal = self._lake.open_journal()
                    rows = list(find_latest_fingerprints(journal.read(FINGERPRINTS, schema)).values())
                if self._cache:
                    self._cache.put_fingerprints(schema, location, rows)
                    self._cache.save()
            latest.update((row.key, row) for row in rows)
        return latest

    def read_freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        latest: dict[tuple[str, str], FreshnessRow] = {}
        for schema, location in self._lake.find_state_locations(FRESHNESS.name, schemas).items():
            rows = self._cache.get_freshness(schema, location) if self._cache else None
            if rows is None:
                with self._lake.translate_errors():
                    rows = list(find_latest_freshness(self._lake.open_journal().read(FRESHNESS, schema)).values())
                if self._cache:
                    self._cache.put_freshness(schema, location, rows)
                    self._cache.save()
            latest.update((row.key, row) for row in rows)
        return latest

    def read_node_results(
        self,
        schemas: Iterable[str],
        *,
        node_name: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[NodeResult]:
        def matches(row: NodeResult) -> bool:
            return node_name in (None, row.node_name) and run_id in (None, row.run_id)

        rows: list[NodeResult] = []
        with self._lake.translate_errors():
            for schema, location in self._lake.find_state_locations(NODE_RESULTS.name, schemas).items():
                newest = self._read_newest_plainly(Pointer(NODE_RESULTS.get_relation(schema), location), limit, matches)
                if newest is None:
                    newest = self._lake.open_journal().read_newest(NODE_RESULTS, schema, limit, matches)
                rows += newest
        return sorted(rows, key=lambda row: row.ts, reverse=True)[:limit]

    def _read_newest_plainly(
        self, pointer: Pointer, limit: int | None, matches: Callable[[NodeResult], bool]
    ) -> list[NodeResult] | None:
        """The newest results without pyiceberg; None where only the journal can tell, or knows what is wrong."""
        from sqb.lake.state.newest import read_newest  # start-up stays free of pyarrow

        try:
            document = self._lake.load_document(pointer)
            refuse_newer_state(pointer.relation, document.get("properties") or {})
            return read_newest(document, self._lake.storage.read, NODE_RESULTS, limit, matches)
        except (LakeError, OSError, ValueError, LookupError, TypeError):
            # Such as files that a janitor has compacted meanwhile.
            return None

    def carry_cached_fingerprints(self, schema: str, before: str, after: str) -> None:
        """Keep the cached rows of a state table that was only pruned and compacted."""
        rows = self._cache.get_fingerprints(schema, before) if self._cache else None
        if self._cache and rows is not None:
            self._cache.put_fingerprints(schema, after, rows)
            self._cache.save()

    def _append(self, append: Callable[[Journal], list[AppendResult]]) -> list[AppendResult]:
        with self._lake.translate_errors():
            return append(self._lake.open_journal_for_writing())

    def _cache_appended_fingerprints(self, appended: AppendResult, rows: Iterable[Fingerprint]) -> None:
        """Update the cache without reading: the cached rows of the previous version, and the rows added to it."""
        if self._cache is None:
            return
        before = self._cache.get_fingerprints(appended.schema, appended.previous) if appended.previous else ()
        if before is None:
            return
        added = (row for row in rows if row.target_schema == appended.schema)
        latest = find_latest_fingerprints((*before, *added))
        self._cache.put_fingerprints(appended.schema, appended.location, latest.values())
