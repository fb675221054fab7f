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

from sqb.environments.model import LockInfo
from sqb.environments.state.database import NoTables, Row, Transaction, Value
from sqb.environments.state.file_locks import FileLocks
from sqb.errors.environments import StateUnreachable
from sqb.identity import digest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TIMEOUT = 30.0
_PAUSE = 0.01
_LONGEST_PAUSE = 0.05
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # Small tables: threads take longer to start than they save.
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_BUSY = "Could not set lock on file"
_BUSY_PROCESS = re.compile(r"held in (.+?) \(PID (\d+)\)")

# One thread at a time: a process cannot have a file open for reading and for writing at once.
_guards: dict[str, threading.RLock] = {}
_guards_lock = threading.Lock()


class DuckdbDatabase:
    """The DuckDB file at a path."""

    creates_tables = True
    setup_statements: tuple[str, ...] = ()

    def __init__(self, path: Path, shown: str | None = None, patience: float = _TIMEOUT) -> None:
        self.path = path
        self._shown = shown or str(path)
        self._timeout = patience
        with _guards_lock:
            self._guard = _guards.setdefault(os.path.realpath(path), threading.RLock())

    @property
    def name(self) -> str:
        return self._shown

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._guard:
            # A missing file is empty until a process writes.
            exists = self.path.exists()
            connection = self._connect(str(self.path), read_only=True) if exists else self._connect(":memory:")
            try:
                with self._translate_errors("read"):
                    yield _DuckdbTransaction(connection)
            finally:
                connection.close()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with self._guard:
            self._make_folder()
            connection = self._connect(str(self.path))
            try:
                with self._translate_errors("written"):
                    connection.execute("BEGIN")
                    yield _DuckdbTransaction(connection)
                    connection.execute("COMMIT")
            finally:
                # A transaction that was not committed ends here without a trace.
                connection.close()

    def lock(self, scope: str, environment: str, owner: str, take_over: bool) -> AbstractContextManager[str]:
        self._make_folder()
        return self._file_locks(scope).hold(environment, owner, take_over)

    def read_locks(self, transaction: Transaction, scope: str) -> Mapping[str, LockInfo]:
        return self._file_locks(scope).list_held()

    def read_holder(self, transaction: Transaction, scope: str, environment: str) -> LockInfo | None:
        # No other process reads the database during a write: whoever takes the lock over sees what is written here.
        return self._file_locks(scope).read_holder(environment)

    def close(self) -> None:
        pass

    def _file_locks(self, scope: str) -> FileLocks:
        return FileLocks(self.path.with_name(f"{self.path.name}.locks") / digest("scope", scope)[:12])

    @contextmanager
    def _translate_errors(self, verb: str) -> Iterator[None]:
        library = _import_duckdb()
        try:
            yield
        except (library.IOException, library.FatalException) as error:
            raise self._build_unreachable_error(str(error).splitlines()[0], verb) from error

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._build_unreachable_error(f"its folder cannot be made: {error.strerror}") from error

    def _connect(self, path: str, read_only: bool = False) -> DuckDBPyConnection:
        duckdb = _import_duckdb()
        until = time.monotonic() + self._timeout
        pause = _PAUSE
        while True:
            try:
                connection: DuckDBPyConnection = duckdb.connect(path, read_only=read_only, config=_CONFIG)
                return connection
            except duckdb.Error as error:
                text = str(error)
                if _BUSY not in text:
                    raise self._build_unreachable_error(text.splitlines()[0]) from error
                if time.monotonic() >= until:
                    raise self._build_busy_error(text) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _build_busy_error(self, text: str) -> StateUnreachable:
        match = _BUSY_PROCESS.search(text)
        by = f" (pid {match[2]}, {match[1]})" if match else ""
        return StateUnreachable(
            f"another process has had {self._shown} open for {self._timeout:.0f} s{by}",
            hint="DuckDB files are for one process at a time: close it there, or keep the state in PostgreSQL",
        )

    def _build_unreachable_error(self, why: str, verb: str = "opened") -> StateUnreachable:
        return StateUnreachable(f"the state in {self._shown} cannot be {verb}: {why}", hint="see `state` in [virtual]")


def _import_duckdb() -> Any:
    """DuckDB, loaded when it is needed: projects without environments do not wait for it."""
    try:
        # What is compiled is all that is used here, and loads in half the time of the package around it.
        return importlib.import_module("_duckdb")
    except ImportError:
        return importlib.import_module("duckdb")


class _DuckdbTransaction:
    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: Value) -> None:
        self._connection.execute(_bind_values(sql, values))

    def query(self, sql: str, *values: Value) -> Sequence[Row]:
        try:
            return self._connection.execute(_bind_values(sql, values)).fetchall()
        except _import_duckdb().CatalogException as error:
            raise NoTables(str(error)) from error

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]], conflict: str = "") -> None:
        values = ",".join(f"({','.join(_format_literal(v) for v in row)})" for row in rows)
        if values:
            self._connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values} {conflict}")


def _bind_values(sql: str, values: Sequence[Value]) -> str:
    first, *rest = sql.split("?")
    return first + "".join(_format_literal(value) + text for value, text in zip(values, rest, strict=True))


def _format_literal(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() | float():
            return repr(value)
        case _:
            return f"[{','.join(_format_literal(v) for v in value)}]::text[]"
