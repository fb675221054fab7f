"""The embedded catalog: the tables of Iceberg's JDBC catalog in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.errors.lake import LakeError, LakeFull, NotACatalog
from sqb.lake.catalog.sql import NoCatalogTables, SqlLakeCatalog
from sqb.lake.storage.base import Storage
from sqb.lake.storage.local import build_unreadable_error, prepare_folder
from sqb.project.config.connections.lake_location import LakeLocation

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_BUSY_SECONDS = 30


class SqliteLakeCatalog(SqlLakeCatalog):
    """A catalog in a file, which is there once it holds something."""

    def __init__(self, place: LakeLocation, storage: Storage) -> None:
        super().__init__(place, storage)
        self.database: Path = place.database or Path(place.uri)

    def exists(self) -> bool:
        try:
            return self.database.stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError as error:
            raise build_unreadable_error(self.database, "read") from error

    def open_pyiceberg(self) -> Catalog:
        from sqb.lake.catalog.pyiceberg_sql import SqliteCatalog  # start-up stays free of pyiceberg

        uri = f"sqlite:///{self.database}?timeout={_BUSY_SECONDS}"
        return SqliteCatalog(self.name, uri=uri, warehouse=self.storage.root, **self.storage.get_io_options())

    def prepare(self) -> None:
        prepare_folder(self.database.parent)
        with suppress(FileExistsError):
            self.database.touch(exist_ok=False)

    def _create_tables(self) -> str | None:
        with self._open_connection() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        return super()._create_tables()

    @contextmanager
    def open_read_session(self) -> Iterator[_SqliteSession]:
        with self._open_connection() as connection:
            yield _SqliteSession(connection)

    @contextmanager
    def open_write_session(self) -> Iterator[_SqliteSession]:
        with self._open_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield _SqliteSession(connection)
            connection.execute("COMMIT")

    def list_tables(self, session: Any) -> set[str]:
        return {name for (name,) in session.query("SELECT name FROM sqlite_master WHERE type = 'table'")}

    @contextmanager
    def _open_connection(self) -> Iterator[sqlite3.Connection]:
        if not os.access(self.database, os.R_OK):
            raise build_unreadable_error(self.database, "read")
        try:
            # A transaction that does not come to its end goes with the connection.
            connection = sqlite3.connect(self.database, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            if "no such table" in str(error):
                raise NoCatalogTables(str(error)) from error
            raise self._translate_error(error) from error

    def build_not_a_catalog_error(self, why: str) -> NotACatalog:
        return NotACatalog(
            f"{self.database} is not an Iceberg catalog database: {why}",
            hint="point `uri` of the connection's catalog to another file, or move this one away",
        )

    def explain(self, error: BaseException) -> LakeError | None:
        cause = getattr(error, "orig", None)
        return self._translate_error(cause) if isinstance(cause, sqlite3.Error) else None

    def _translate_error(self, error: sqlite3.Error) -> LakeError:
        text = str(error)
        if "no such table" in text or "not a database" in text or "malformed" in text:
            return self.build_not_a_catalog_error(text)
        if "full" in text:
            return LakeFull(f"no space left for {self.database}", hint="free some space and run the build again")
        if "unable to open" in text or "readonly" in text:
            return build_unreadable_error(self.database, "open")
        return LakeError(f"{self.database}: {text}")


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def query(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def execute(self, sql: str, *values: Any) -> int:
        return self._connection.execute(sql, values).rowcount

    def execute_many(self, sql: str, values: Iterable[Sequence[Any]]) -> int:
        rows = list(values)
        return self._connection.executemany(sql, rows).rowcount if rows else 0
