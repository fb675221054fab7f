"""pyiceberg's SQL catalog, made quick for many small commits and tidy when one fails."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError

from sqb.lake.commit.snapshot import build_model, remove_files
from sqb.lake.metadata.table_state import build_damaged_error
from sqb.lake.private_api import open_file_io
from sqb.lake.storage.local import OUT_OF_SPACE
from sqb.names import Relation

_CACHE_SIZE = 256
_ANY_POSTGRES = "postgresql+psycopg://"
_CONNECTIONS = 3
_PATIENCE_SECONDS = 25


class TidyCatalog(SqlCatalog):
    """Remembers metadata files, which never change, and removes the one of a commit that was refused."""

    def __init__(self, name: str, **properties: str) -> None:
        self._cached_tables: OrderedDict[str, Table] = OrderedDict()
        self._guard = threading.Lock()
        self._written = threading.local()
        super().__init__(name, **properties)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        with self._remove_failed_metadata(table.io):
            response = super().commit_table(table, requirements, updates)
        self._cache_table(
            Table(table.name(), response.metadata, response.metadata_location, table.io, self, dict(table.config))
        )
        return response

    def create_table(self, *args: Any, **options: Any) -> Table:
        with self._remove_failed_metadata(open_file_io(self)):
            return super().create_table(*args, **options)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        staged = super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        if current_table is not None:
            staged.metadata = _clamp_timestamps(staged.metadata, current_table.metadata)
        return staged

    @contextmanager
    def _remove_failed_metadata(self, io: FileIO) -> Iterator[None]:
        """Remove the metadata file of a commit that failed: the one statement that makes it count came after it."""
        self._written.paths = []
        try:
            yield
        except (CommitFailedException, TableAlreadyExistsError, OSError) as error:
            if not isinstance(error, OSError) or error.errno in OUT_OF_SPACE:
                remove_files(self._written.paths, io)
            raise

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        if hasattr(self._written, "paths"):
            self._written.paths.append(metadata_path)
        super()._write_metadata(metadata, io, metadata_path)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location or ""
        with self._guard:
            cached = self._cached_tables.get(location)
        if cached is not None and cached.name() == (*orm_table.table_namespace.split("."), orm_table.table_name):
            # A table object is moved along by its own appends, so callers get a copy of the cached one.
            return Table(cached.name(), cached.metadata, location, cached.io, self, dict(cached.config))
        try:
            table = super()._convert_orm_to_iceberg(orm_table)
        except (FileNotFoundError, ValueError, LookupError, ValidationError, EOFError) as error:
            raise build_damaged_error(Relation(orm_table.table_namespace, orm_table.table_name), location) from error
        self._cache_table(table)
        return Table(table.name(), table.metadata, location, table.io, self, dict(table.config))

    def _cache_table(self, table: Table) -> None:
        with self._guard:
            self._cached_tables[table.metadata_location] = table
            while len(self._cached_tables) > _CACHE_SIZE:
                self._cached_tables.popitem(last=False)


class SqliteCatalog(TidyCatalog):
    """The catalog in a file."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        # Data and metadata files are not forced to the disk either, so a catalog that is would only point to files
        # that a power cut took away. A crash of the process loses nothing.
        event.listen(self.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=NORMAL"))
        self.engine.dispose()


class PostgresCatalog(TidyCatalog):
    """The catalog on a server, over connections that `connect` opens."""

    def __init__(self, name: str, connect: Callable[[bool], Any], warehouse: str, options: Mapping[str, str]) -> None:
        self._connect = connect
        super().__init__(name, **{**options, "uri": _ANY_POSTGRES, "warehouse": warehouse})

    def _init_catalog(self) -> None:
        # Few connections, as many builds share a server. The caller has created the tables.
        self.engine = create_engine(
            _ANY_POSTGRES, pool_size=_CONNECTIONS, max_overflow=0, pool_timeout=_PATIENCE_SECONDS, pool_pre_ping=True
        )
        # Only `connect` knows the address and its password.
        event.listen(self.engine, "do_connect", lambda *_: self._connect(False))
        self._schema_version = "v1"

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        try:
            return super().commit_table(table, requirements, updates)
        except DBAPIError as error:
            if not error.connection_invalidated or not self._written.paths:
                raise
            return self._resolve_unknown_commit(table, error)

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        try:
            return super().register_table(identifier, metadata_location, overwrite)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            with suppress(Exception):
                now = self.load_table(identifier)
                if now.metadata_location == metadata_location:
                    return now
            raise CommitStateUnknownException(str(error.orig)) from error

    def _resolve_unknown_commit(self, table: Table, error: DBAPIError) -> CommitTableResponse:
        """Find out whether a commit took place whose connection was lost before the server confirmed it."""
        try:
            now = self.load_table(table.name())
        except Exception:
            raise CommitStateUnknownException(str(error.orig)) from error
        if now.metadata_location not in self._written.paths:
            raise CommitStateUnknownException(str(error.orig)) from error
        return build_model(CommitTableResponse, metadata=now.metadata, metadata_location=now.metadata_location)


def _clamp_timestamps(metadata: TableMetadata, before: TableMetadata) -> TableMetadata:
    """The metadata of a commit, no older than the one that it follows (see `clock`)."""
    last = before.last_updated_ms
    log = list(metadata.snapshot_log)
    if log and log[-1:] != list(before.snapshot_log)[-1:]:
        log[-1] = log[-1].model_copy(update={"timestamp_ms": max(log[-1].timestamp_ms, last)})
    return metadata.model_copy(update={"last_updated_ms": max(metadata.last_updated_ms, last), "snapshot_log": log})
