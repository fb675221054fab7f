"""pyiceberg's SQL catalog, made quick for many small commits and tidy when one fails."""

from __future__ import annotations

import threading
from collections import OrderedDict

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate

from sqb.lake.snapshots import remove_files

_REMEMBERED = 256


class SqliteCatalog(SqlCatalog):
    """Remembers metadata files, which never change, and removes the one of a commit that was refused."""

    def __init__(self, name: str, **properties: str) -> None:
        self._known: OrderedDict[str, Table] = OrderedDict()
        self._guard = threading.Lock()
        self._written = threading.local()
        super().__init__(name, **properties)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        self._written.paths = []
        try:
            response = super().commit_table(table, requirements, updates)
        except (CommitFailedException, OSError):
            # The only files written are local and come before the one statement that makes them count.
            remove_files(self._written.paths, table.io)
            raise
        self._remember(
            Table(table.name(), response.metadata, response.metadata_location, table.io, self, dict(table.config))
        )
        return response

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        if hasattr(self._written, "paths"):
            self._written.paths.append(metadata_path)
        super()._write_metadata(metadata, io, metadata_path)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        location = orm_table.metadata_location or ""
        with self._guard:
            known = self._known.get(location)
        if known is not None and known.name() == (*orm_table.table_namespace.split("."), orm_table.table_name):
            # A table object is moved along by its own appends, so nobody gets the remembered one.
            return Table(known.name(), known.metadata, location, known.io, self, dict(known.config))
        table = super()._convert_orm_to_iceberg(orm_table)
        self._remember(table)
        return Table(table.name(), table.metadata, location, table.io, self, dict(table.config))

    def _remember(self, table: Table) -> None:
        with self._guard:
            self._known[table.metadata_location] = table
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
