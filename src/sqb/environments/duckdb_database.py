"""Environments in a DuckDB file, for one machine.

One process at a time can have the file open for writing, so it is open for one transaction only, and whoever finds it
taken waits. Values are written into statements as literals: a parameter makes DuckDB import pandas and pyarrow, which
takes longer than a whole build with nothing to do.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.environments.database import NoTables, Row, Transaction, Value
from sqb.environments.file_locks import FileLocks
from sqb.environments.values import LockInfo
from sqb.errors_environments import StateUnreachable
from sqb.identity import digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PATIENCE = 30.0
_PAUSE = 0.01
_LONGEST_PAUSE = 0.05
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # Small tables: threads take longer to start than they save.
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_TAKEN = "Could not set lock on file"
_TAKEN_BY = re.compile(r"held in (.+?) \(PID (\d+)\)")

# One thread at a time: a process cannot have a file open for reading and for writing at once.
_guards: dict[str, threading.RLock] = {}
_guards_guard = threading.Lock()


class DuckdbDatabase:
    """The DuckDB file at a path."""

    makes_itself = True
    preparation: tuple[str, ...] = ()

    def __init__(self, path: Path, shown: str | None = None, patience: float = _PATIENCE) -> None:
        self.path = path
        self._shown = shown or str(path)
        self._patience = patience
        with _guards_guard:
            self._guard = _guards.setdefault(os.path.realpath(path), threading.RLock())

    @property
    def name(self) -> str:
        return self._shown

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._guard:
            # What does not exist is empty, and stays so while nobody writes.
            there = self.path.exists()
            connection = self._connect(str(self.path), read_only=True) if there else self._connect(":memory:")
            try:
                with self._explained("read"):
                    yield _DuckdbTransaction(connection)
            finally:
                connection.close()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with self._guard:
            self._make_folder()
            connection = self._connect(str(self.path))
            try:
                with self._explained("written"):
                    connection.execute("BEGIN")
                    yield _DuckdbTransaction(connection)
                    connection.execute("COMMIT")
            finally:
                # A transaction that was not committed ends here without a trace.
                connection.close()

    def lock(self, scope: str, environment: str, owner: str, take_over: bool) -> AbstractContextManager[str]:
        self._make_folder()
        return self._locks(scope).hold(environment, owner, take_over)

    def locks(self, transaction: Transaction, scope: str) -> Mapping[str, LockInfo]:
        return self._locks(scope).alive()

    def holder(self, transaction: Transaction, scope: str, environment: str) -> LockInfo | None:
        # Nobody else reads the database during a write: whoever takes the lock over now sees what is written here.
        return self._locks(scope).holder(environment)

    def close(self) -> None:
        pass

    def _locks(self, scope: str) -> FileLocks:
        return FileLocks(self.path.with_name(f"{self.path.name}.locks") / digest("scope", scope)[:12])

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        library = _library()
        try:
            yield
        except (library.IOException, library.FatalException) as error:
            raise self._unreachable(str(error).splitlines()[0], verb) from error

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unreachable(f"its folder cannot be made: {error.strerror}") from error

    def _connect(self, path: str, read_only: bool = False) -> DuckDBPyConnection:
        duckdb = _library()
        until = time.monotonic() + self._patience
        pause = _PAUSE
        while True:
            try:
                connection: DuckDBPyConnection = duckdb.connect(path, read_only=read_only, config=_CONFIG)
                return connection
            except duckdb.Error as error:
                text = str(error)
                if _TAKEN not in text:
                    raise self._unreachable(text.splitlines()[0]) from error
                if time.monotonic() >= until:
                    raise self._taken(text) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _taken(self, text: str) -> StateUnreachable:
        found = _TAKEN_BY.search(text)
        by = f" (pid {found[2]}, {found[1]})" if found else ""
        return StateUnreachable(
            f"another process has had {self._shown} open for {self._patience:.0f} s{by}",
            hint="DuckDB files are for one process at a time: close it there, or keep the state in PostgreSQL",
        )

    def _unreachable(self, why: str, verb: str = "opened") -> StateUnreachable:
        return StateUnreachable(f"the state in {self._shown} cannot be {verb}: {why}", hint="see `state` in [virtual]")


def _library() -> Any:
    """DuckDB, loaded when it is needed: projects without environments do not wait for it."""
    try:
        # What is compiled is all that is used here, and loads in half the time of the package around it.
        return importlib.import_module("_duckdb")
    except ImportError:
        return importlib.import_module("duckdb")


class _DuckdbTransaction:
    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: Value) -> None:
        self._connection.execute(_with_values(sql, values))

    def rows(self, sql: str, *values: Value) -> Sequence[Row]:
        try:
            return self._connection.execute(_with_values(sql, values)).fetchall()
        except _library().CatalogException as error:
            raise NoTables(str(error)) from error

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]], conflict: str = "") -> None:
        written = ",".join(f"({','.join(_literal(v) for v in row)})" for row in rows)
        if written:
            self._connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES {written} {conflict}")


def _with_values(sql: str, values: Sequence[Value]) -> str:
    first, *rest = sql.split("?")
    return first + "".join(_literal(value) + text for value, text in zip(values, rest, strict=True))


def _literal(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() | float():
            return repr(value)
        case _:
            return f"[{','.join(_literal(v) for v in value)}]::text[]"
