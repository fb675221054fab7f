"""The catalog of a team: the tables of Iceberg's JDBC catalog in a PostgreSQL database.

Planning is one query of psycopg. Every change is one statement or a short transaction on condition that what it
replaces is where it was; an advisory lock keeps those of several sqb apart, and Spark's commits are rows of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
from psycopg import errors

from sqb.errors.connections import CatalogDenied
from sqb.errors.lake import CatalogUnreachable, CommitUnknown, LakeError, NotACatalog
from sqb.identity import digest
from sqb.lake.catalog.postgres_connection import (
    LOCK_SECONDS,
    connect,
    create_if_missing,
    find_wrong_setting,
    format_error,
    is_unreachable,
    use_schema,
)
from sqb.lake.catalog.sql import NoCatalogTables, SqlLakeCatalog
from sqb.lake.liveness.postgres import PostgresRunTracker
from sqb.lake.storage.base import RunTracker, Storage
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.postgres_url import parse_postgres

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_PASSWORDS = (
    "check the user and the password: they are taken from `uri`, where @@ENV:NAME may stand for them, from"
    " sqlbuild_local.toml, PGPASSWORD or ~/.pgpass"
)
# A connection that has been silent for longer may have been cut by something in between.
_TRUSTED_SECONDS = 15.0


class PostgresLakeCatalog(SqlLakeCatalog):
    """A catalog in a schema of a PostgreSQL database."""

    def __init__(self, place: LakeLocation, storage: Storage) -> None:
        super().__init__(place, storage)
        self.address = parse_postgres(place.uri, schema="")
        self._connection: psycopg.Connection[Any] | None = None
        self._last_used = 0.0
        self._guard = threading.RLock()
        # The number of the advisory lock that changes of this catalog are made under.
        self._lock_key = int(digest("catalog", self.address.schema, self.name)[:15], 16)

    def open_pyiceberg(self) -> Catalog:
        from sqb.lake.catalog.pyiceberg_sql import PostgresCatalog  # start-up stays free of pyiceberg

        return PostgresCatalog(self.name, self._connect, self.storage.root, self.storage.get_io_options())

    def open_run_tracker(self) -> RunTracker:
        return PostgresRunTracker(self._connect, self.prepare, self.address.schema, self.name)

    def close(self) -> None:
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    # --- sessions ---------------------------------------------------------------------------------------------------

    @contextmanager
    def open_read_session(self) -> Iterator[_PostgresSession]:
        with self._guard:
            try:
                yield _PostgresSession(self._ensure_connection())
            except psycopg.Error as error:
                self._raise(error)

    @contextmanager
    def open_write_session(self) -> Iterator[_PostgresSession]:
        with self._guard:
            connection = self._ensure_connection()
            is_committing = False
            try:
                connection.execute(
                    f"BEGIN; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SELECT pg_advisory_xact_lock({self._lock_key})"
                )
                yield _PostgresSession(connection)
                is_committing = True
                connection.execute("COMMIT")
            except BaseException as error:
                self._roll_back(connection)
                if is_committing and is_unreachable(error):
                    raise self._build_unknown_error(error) from None
                if isinstance(error, psycopg.Error):
                    self._raise(error)
                raise

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute("ROLLBACK")
        except Exception:
            connection.close()

    def list_tables(self, session: Any) -> set[str]:
        return {
            name for (name,) in session.query("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        }

    def is_new(self, tables: set[str]) -> bool:
        # A PostgreSQL schema may hold other tables beside those of the catalog.
        return "iceberg_namespace_properties" not in tables or "iceberg_tables" not in tables

    def prepare(self) -> None:
        if not self.address.schema:
            return
        with self.open_read_session() as session:
            if not session.query("SELECT 1 FROM pg_namespace WHERE nspname = ?", self.address.schema):
                create_if_missing(self._ensure_connection(), f"CREATE SCHEMA IF NOT EXISTS {self.address.schema}")

    def _ensure_connection(self) -> psycopg.Connection[Any]:
        if self._connection is not None and time.monotonic() - self._last_used > _TRUSTED_SECONDS:
            try:
                self._connection.execute("SELECT 1")
            except Exception:
                # A new connection reports the cause better.
                self._connection.close()
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        self._last_used = time.monotonic()
        return self._connection

    def _connect(self, autocommit: bool = True) -> psycopg.Connection[Any]:
        try:
            connection = connect(self.address)
        except psycopg.Error as error:
            raise self._build_unreachable_error(error) from None
        try:
            allowed = not self.address.schema or use_schema(connection, self.address.schema)
        except psycopg.Error as error:
            connection.close()
            raise self._build_unreachable_error(error) from None
        if not allowed:
            connection.close()
            raise self._build_denied_error(f"permission denied for schema {self.address.schema}")
        connection.autocommit = autocommit
        return connection

    # --- failures ---------------------------------------------------------------------------------------------------

    def explain(self, error: BaseException) -> LakeError | None:
        cause = getattr(error, "orig", error)
        return self._translate_error(cause) if isinstance(cause, psycopg.Error) else None

    def build_not_a_catalog_error(self, why: str) -> NotACatalog:
        hint = "name another database or `schema` in `uri` of the connection's catalog, or move those tables away"
        if "iceberg_type" in why:
            hint = "the catalog is of version V0: ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)"
        return NotACatalog(f"{self._where} has tables that are not those of an Iceberg catalog: {why}", hint=hint)

    @property
    def _where(self) -> str:
        return f"{self.address}, of the connection {self.place.connection},"

    def _raise(self, error: psycopg.Error) -> NoReturn:
        if isinstance(error, errors.UndefinedTable):
            raise NoCatalogTables(self._format_error(error)) from error
        raise self._translate_error(error) from None

    def _translate_error(self, error: psycopg.Error) -> LakeError:
        text = self._format_error(error)
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.DatatypeMismatch):
            return self.build_not_a_catalog_error(text)
        if isinstance(error, errors.LockNotAvailable):
            message = f"timed out after {LOCK_SECONDS} s waiting for the catalog lock on {self._where}"
            return CatalogUnreachable(message, hint="another session holds it: look at the sessions of that database")
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return self._build_denied_error(text)
        if is_unreachable(error):
            return self._build_unreachable_error(error)
        return LakeError(f"the catalog in {self._where} refused: {text}")

    def _format_error(self, error: BaseException) -> str:
        return self.place.hide(self.address.hide(format_error(error)))

    def _build_unreachable_error(self, error: psycopg.Error) -> LakeError:
        why = self._format_error(error)
        at = f"the catalog of the connection {self.place.connection}"
        if any(mark in why for mark in ("password", "authentication", "no pg_hba.conf entry")):
            return CatalogDenied(f"{at} does not let sqb in, {self.address}: {why}", hint=_PASSWORDS)
        setting = find_wrong_setting(error)
        if setting in self.address.options:
            hint = f"correct `{setting}` behind the ? in `uri` of the catalog: only settings of libpq are allowed there"
            return CatalogUnreachable(f"{at} cannot be used, {self.address}: {why}", hint=hint)
        return CatalogUnreachable(f"{at} cannot be reached, {self.address}: {why}", hint=_build_hint(why))

    def _build_denied_error(self, why: str) -> CatalogDenied:
        return CatalogDenied(
            f"the catalog in {self._where} is not for this user: {why}",
            hint="let its owner grant what is needed: USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on"
            " iceberg_tables, iceberg_namespace_properties and sqb_runs; making them needs CREATE on the schema",
        )

    def _build_unknown_error(self, error: BaseException) -> CommitUnknown:
        return CommitUnknown(
            f"the catalog in {self._where} did not say whether a change took place: {self._format_error(error)}",
            hint="run the command again: it starts from what is there now",
        )


class _PostgresSession:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def query(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute(_convert_placeholders(sql), values).fetchall()

    def execute(self, sql: str, *values: Any) -> int:
        return self._connection.execute(_convert_placeholders(sql), values or None).rowcount

    def execute_many(self, sql: str, values: Iterable[Sequence[Any]]) -> int:
        rows = list(values)
        if not rows:
            return 0
        with self._connection.cursor() as cursor:
            cursor.executemany(_convert_placeholders(sql), rows)
            return cursor.rowcount


def _convert_placeholders(sql: str) -> Any:
    return sql.replace("%", "%%").replace("?", "%s")


def _build_hint(why: str) -> str:
    if "database" in why and "does not exist" in why:
        return "create the database, or correct its name in `uri` of the connection's catalog"
    return (
        "check host and port in `uri` of the connection's catalog, and whether the server runs and lets this machine in"
    )
