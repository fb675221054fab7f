"""The embedded register: the tables of Iceberg's JDBC catalog in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.errors import LakeError, LakeFull, NotACatalog
from sqb.lake.local_storage import prepare_folder, unreadable
from sqb.lake.sql_register import NoCatalogTables, SqlRegister
from sqb.lake.storage import Storage
from sqb.project.place import Place

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_BUSY_SECONDS = 30


class SqliteRegister(SqlRegister):
    """A catalog in a file, which is there once it holds something."""

    def __init__(self, place: Place, storage: Storage) -> None:
        super().__init__(place, storage)
        self.database: Path = place.database or Path(place.uri)

    def exists(self) -> bool:
        try:
            return self.database.stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError as error:
            raise unreadable(self.database, "read") from error

    def catalog(self) -> Catalog:
        from sqb.lake.sql_catalog import SqliteCatalog  # start-up stays free of pyiceberg

        uri = f"sqlite:///{self.database}?timeout={_BUSY_SECONDS}"
        return SqliteCatalog(self.name, uri=uri, warehouse=self.storage.root, **self.storage.io_options())

    def prepare(self) -> None:
        prepare_folder(self.database.parent)
        with suppress(FileExistsError):
            self.database.touch(exist_ok=False)

    def _make(self) -> str | None:
        with self._connected() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        return super()._make()

    @contextmanager
    def reading(self) -> Iterator[_SqliteSession]:
        with self._connected() as connection:
            yield _SqliteSession(connection)

    @contextmanager
    def writing(self) -> Iterator[_SqliteSession]:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield _SqliteSession(connection)
            connection.execute("COMMIT")

    def tables_there(self, session: Any) -> set[str]:
        return {name for (name,) in session.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not os.access(self.database, os.R_OK):
            raise unreadable(self.database, "read")
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
            raise self._explained(error) from error

    def not_a_catalog(self, why: str) -> NotACatalog:
        return NotACatalog(
            f"{self.database} is not an Iceberg catalog database: {why}",
            hint="point `uri` of the connection's catalog to another file, or move this one away",
        )

    def explain(self, error: BaseException) -> LakeError | None:
        cause = getattr(error, "orig", None)
        return self._explained(cause) if isinstance(cause, sqlite3.Error) else None

    def _explained(self, error: sqlite3.Error) -> LakeError:
        text = str(error)
        if "no such table" in text or "not a database" in text or "malformed" in text:
            return self.not_a_catalog(text)
        if "full" in text:
            return LakeFull(f"no space left for {self.database}", hint="free some space and run the build again")
        if "unable to open" in text or "readonly" in text:
            return unreadable(self.database, "open")
        return LakeError(f"{self.database}: {text}")


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def run(self, sql: str, *values: Any) -> int:
        return self._connection.execute(sql, values).rowcount

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> int:
        rows = list(values)
        return self._connection.executemany(sql, rows).rowcount if rows else 0
