"""Environments in PostgreSQL, for teams and CI.

Locks are advisory locks of sessions: the server lets go of one when its session ends, whatever ended it. A row says
whose the lock is, and its token names the advisory lock, so that a lock that is taken over is another lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from sqb.environments.model import LockInfo
from sqb.environments.state.database import NoTables, Row, Transaction, Value
from sqb.environments.state.file_locks import build_locked_error, create_token
from sqb.environments.state.records import decode_time, encode_time
from sqb.errors.environments import StateUnreachable
from sqb.identity import digest
from sqb.project.config.connections.postgres_url import PostgresAddress

if TYPE_CHECKING:
    from psycopg import Connection, Error

# One writer at a time, as in a file; transactions are short.
_WAIT_SECONDS = 20
# A connection that has been silent for longer may have been cut by something in between.
_TRUSTED_SECONDS = 30.0
_HELD_LOCKS = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((classid::bigint << 32) | objid::bigint) = "
)


class PostgresDatabase:
    """A schema in a PostgreSQL database."""

    creates_tables = False

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connection: Connection[Any] | None = None
        self._used = 0.0
        self._guard = threading.Lock()
        self._writer = _compute_lock_key("writer", address.schema)
        self.setup_statements: tuple[str, ...] = (
            f"CREATE SCHEMA IF NOT EXISTS {address.schema}",
            f"SET LOCAL search_path TO {address.schema}",
        )

    @property
    def name(self) -> str:
        return str(self._address)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._guard, self._begin(self._get_connection(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as t:
            yield t

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with self._guard, self._begin_write(self._get_connection()) as transaction:
            yield transaction

    def close(self) -> None:
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    # --- locks ------------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, scope: str, environment: str, owner: str, take_over: bool) -> Iterator[str]:
        token = create_token()
        # A session of its own, so that nothing else can end it.
        connection = self._connect()
        try:
            before = self._take_lock(
                connection, LockInfo(environment, owner, datetime.now(UTC), token), scope, take_over
            )
            if before is not None:
                self._end_session(connection, before)
            yield token
        finally:
            with suppress(Exception):
                # The server may have ended the session; then there is nothing to release.
                connection.execute("DELETE FROM locks WHERE scope = %s AND token = %s", (scope, token))
            connection.close()

    def _take_lock(self, connection: Connection[Any], requested: LockInfo, scope: str, take_over: bool) -> int | None:
        """Make a lock one's own; the process of the session that had it, when one was taken over."""
        with self._begin_write(connection) as transaction:
            before = self.read_holder(transaction, scope, requested.environment)
            sessions = (
                transaction.query(f"{_HELD_LOCKS} ?", _compute_lock_key("lock", before.token))
                if before is not None
                else ()
            )
            if before is not None and sessions and not take_over:
                raise build_locked_error(before)
            key = _compute_lock_key("lock", requested.token)
            transaction.query("SELECT pg_advisory_lock(?)", key)
            transaction.insert(
                "locks",
                ("scope", "environment", "token", "key", "owner", "since"),
                [(scope, requested.environment, requested.token, key, requested.owner, encode_time(requested.since))],
                "ON CONFLICT (scope, environment) DO UPDATE SET token = excluded.token, key = excluded.key,"
                " owner = excluded.owner, since = excluded.since",
            )
            return sessions[0][0] if sessions else None

    def _end_session(self, connection: Connection[Any], process: int) -> None:
        with suppress(Exception):
            # Only where the role may. The lock is another one by now, whether the old session goes on or not.
            connection.execute("SELECT pg_terminate_backend(%s)", (process,))

    def read_locks(self, transaction: Transaction, scope: str) -> Mapping[str, LockInfo]:
        query = (
            "SELECT environment, owner, since, token FROM locks l"
            f" WHERE scope = ? AND EXISTS ({_HELD_LOCKS} l.key) ORDER BY environment"
        )
        rows = transaction.query(query, scope)
        return {name: LockInfo(name, owner, decode_time(since), token) for name, owner, since, token in rows}

    def read_holder(self, transaction: Transaction, scope: str, environment: str) -> LockInfo | None:
        query = "SELECT owner, since, token FROM locks WHERE scope = ? AND environment = ?"
        for owner, since, token in transaction.query(query, scope, environment):
            return LockInfo(environment, owner, decode_time(since), token)
        return None

    # --- connections ------------------------------------------------------------------------------------------------

    def _get_connection(self) -> Connection[Any]:
        if self._connection is not None and time.monotonic() - self._used > _TRUSTED_SECONDS:
            try:
                self._connection.execute("SELECT 1")
            except Exception:
                # Whatever it is, a new connection tells it better.
                self._connection.close()
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        self._used = time.monotonic()
        return self._connection

    def _connect(self) -> Connection[Any]:
        import psycopg  # loads libpq, which projects without environments do not need

        from sqb.lake.catalog.postgres_connection import connect

        try:
            connection = connect(self._address)
            self._set_up(connection)
        except psycopg.Error as error:
            raise self._build_unreachable_error(error) from None
        return connection

    def _set_up(self, connection: Connection[Any]) -> None:
        from sqb.lake.catalog.postgres_connection import keep_alive, use_schema

        schema = self._address.schema
        keep_alive(connection)
        # A schema that may not be used looks as if it were not there.
        if not use_schema(connection, schema):
            connection.close()
            raise self._build_forbidden_error(f"permission denied for schema {schema}")

    @contextmanager
    def _begin_write(self, connection: Connection[Any]) -> Iterator[Transaction]:
        with self._begin(connection, "BEGIN") as transaction:
            transaction.execute(f"SET LOCAL lock_timeout = '{_WAIT_SECONDS}s'")
            transaction.query("SELECT pg_advisory_xact_lock(?)", self._writer)
            yield transaction

    @contextmanager
    def _begin(self, connection: Connection[Any], begin: str) -> Iterator[Transaction]:
        import psycopg

        try:
            connection.execute(begin)
            yield _PostgresTransaction(connection)
            connection.execute("COMMIT")
        except psycopg.Error as error:
            self._roll_back(connection)
            self._raise_explained(error)
        except BaseException:
            self._roll_back(connection)
            raise

    def _roll_back(self, connection: Connection[Any]) -> None:
        try:
            connection.execute("ROLLBACK")
        except Exception:
            connection.close()

    # --- failures ---------------------------------------------------------------------------------------------------

    def _raise_explained(self, error: Error) -> NoReturn:
        from psycopg import InterfaceError, OperationalError, errors

        if isinstance(error, errors.LockNotAvailable):
            message = f"timed out after {_WAIT_SECONDS} s waiting for the write lock on the state in {self.name}"
            raise StateUnreachable(message, hint="look at the sessions of that database") from None
        if isinstance(error, errors.InsufficientPrivilege):
            raise self._build_forbidden_error(_get_message(error)) from None
        if isinstance(error, OperationalError | InterfaceError):
            raise self._build_unreachable_error(error) from None
        raise error

    def _build_unreachable_error(self, error: Error) -> StateUnreachable:
        why = self._address.hide(_get_message(error))
        return StateUnreachable(f"the state in {self.name} cannot be reached: {why}", hint=_choose_hint(why))

    def _build_forbidden_error(self, why: str) -> StateUnreachable:
        schema = self._address.schema
        return StateUnreachable(
            f"the state in {self.name} is not for this user: {why}",
            hint=f"let the owner grant what is needed: USAGE on schema {schema}, all on its tables; "
            "`sqb state init` needs CREATE on the database",
        )


class _PostgresTransaction:
    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: Value) -> None:
        self._connection.execute(_convert_placeholders(sql), values)

    def query(self, sql: str, *values: Value) -> Sequence[Row]:
        from psycopg import errors

        try:
            return self._connection.execute(_convert_placeholders(sql), values).fetchall()
        except errors.UndefinedTable as error:
            raise NoTables(str(error)) from error

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]], conflict: str = "") -> None:
        places = ", ".join("?" * len(columns))
        query = _convert_placeholders(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}) {conflict}")
        with self._connection.cursor() as cursor:
            cursor.executemany(query, list(rows))


def _convert_placeholders(sql: str) -> str:
    return sql.replace("?", "%s")


def _compute_lock_key(*parts: str) -> int:
    """The number of an advisory lock."""
    return int(digest(*parts)[:15], 16)


def _get_message(error: Error) -> str:
    from sqb.lake.catalog.postgres_connection import format_error

    return format_error(error)


def _choose_hint(why: str) -> str:
    if "password" in why or "authentication" in why:
        return "passwords are taken from PGPASSWORD, ~/.pgpass, SQB_STATE or `state` in sqlbuild_local.toml"
    if "database" in why and "does not exist" in why:
        return "create the database, then run `sqb state init`"
    return "see `state` in [virtual], and whether the server runs and lets this machine in"
