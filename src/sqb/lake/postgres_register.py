"""The register of a team: the tables of Iceberg's JDBC catalog in a PostgreSQL database.

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

from sqb.errors import CatalogUnreachable, CommitUnknown, LakeError, NotACatalog
from sqb.errors_connections import CatalogDenied
from sqb.identity import digest
from sqb.lake.postgres import LOCK_SECONDS, connect, is_unreachable, make, told_by, use_schema, wrong_setting
from sqb.lake.postgres_runs import PostgresRuns
from sqb.lake.sql_register import NoCatalogTables, SqlRegister
from sqb.lake.storage import RunKeeper, Storage
from sqb.project.place import Place
from sqb.project.postgres_address import parse_postgres

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_PASSWORDS = (
    "check the user and the password: they are taken from `uri`, where @@ENV:NAME may stand for them, from"
    " sqlbuild_local.toml, PGPASSWORD or ~/.pgpass"
)
# A connection that has been silent for longer may have been cut by something in between.
_TRUSTED_SECONDS = 15.0


class PostgresRegister(SqlRegister):
    """A catalog in a schema of a PostgreSQL database."""

    def __init__(self, place: Place, storage: Storage) -> None:
        super().__init__(place, storage)
        self.address = parse_postgres(place.uri, schema="")
        self._connection: psycopg.Connection[Any] | None = None
        self._used = 0.0
        self._guard = threading.RLock()
        # The number of the advisory lock that changes of this catalog are made under.
        self._writer = int(digest("catalog", self.address.schema, self.name)[:15], 16)

    def catalog(self) -> Catalog:
        from sqb.lake.sql_catalog import PostgresCatalog  # start-up stays free of pyiceberg

        return PostgresCatalog(self.name, self._connect, self.storage.root, self.storage.io_options())

    def runs(self) -> RunKeeper:
        return PostgresRuns(self._connect, self.prepare, self.address.schema, self.name)

    def close(self) -> None:
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    # --- sessions ---------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[_PostgresSession]:
        with self._guard:
            try:
                yield _PostgresSession(self._connected())
            except psycopg.Error as error:
                self._raise(error)

    @contextmanager
    def writing(self) -> Iterator[_PostgresSession]:
        with self._guard:
            connection = self._connected()
            ending = False
            try:
                connection.execute(
                    f"BEGIN; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SELECT pg_advisory_xact_lock({self._writer})"
                )
                yield _PostgresSession(connection)
                ending = True
                connection.execute("COMMIT")
            except BaseException as error:
                self._leave(connection)
                if ending and is_unreachable(error):
                    raise self._uncertain(error) from None
                if isinstance(error, psycopg.Error):
                    self._raise(error)
                raise

    def _leave(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute("ROLLBACK")
        except Exception:
            connection.close()

    def tables_there(self, session: Any) -> set[str]:
        return {name for (name,) in session.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")}

    def is_new(self, tables: set[str]) -> bool:
        # Other tables beside those of a catalog are nobody's mistake here.
        return "iceberg_namespace_properties" not in tables or "iceberg_tables" not in tables

    def prepare(self) -> None:
        if not self.address.schema:
            return
        with self.reading() as session:
            if not session.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", self.address.schema):
                make(self._connected(), f"CREATE SCHEMA IF NOT EXISTS {self.address.schema}")

    def _connected(self) -> psycopg.Connection[Any]:
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

    def _connect(self, autocommit: bool = True) -> psycopg.Connection[Any]:
        try:
            connection = connect(self.address)
        except psycopg.Error as error:
            raise self._unreachable(error) from None
        try:
            allowed = not self.address.schema or use_schema(connection, self.address.schema)
        except psycopg.Error as error:
            connection.close()
            raise self._unreachable(error) from None
        if not allowed:
            connection.close()
            raise self._forbidden(f"permission denied for schema {self.address.schema}")
        connection.autocommit = autocommit
        return connection

    # --- failures ---------------------------------------------------------------------------------------------------

    def explain(self, error: BaseException) -> LakeError | None:
        cause = getattr(error, "orig", error)
        return self._explained(cause) if isinstance(cause, psycopg.Error) else None

    def not_a_catalog(self, why: str) -> NotACatalog:
        hint = "name another database or `schema` in `uri` of the connection's catalog, or move those tables away"
        if "iceberg_type" in why:
            hint = "the catalog is of version V0: ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)"
        return NotACatalog(f"{self._where} has tables that are not those of an Iceberg catalog: {why}", hint=hint)

    @property
    def _where(self) -> str:
        return f"{self.address}, of the connection {self.place.connection},"

    def _raise(self, error: psycopg.Error) -> NoReturn:
        if isinstance(error, errors.UndefinedTable):
            raise NoCatalogTables(self._told(error)) from error
        raise self._explained(error) from None

    def _explained(self, error: psycopg.Error) -> LakeError:
        told = self._told(error)
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.DatatypeMismatch):
            return self.not_a_catalog(told)
        if isinstance(error, errors.LockNotAvailable):
            message = f"somebody has been changing the catalog in {self._where} for {LOCK_SECONDS} s"
            return CatalogUnreachable(message, hint="look at the sessions of that database")
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            return self._forbidden(told)
        if is_unreachable(error):
            return self._unreachable(error)
        return LakeError(f"the catalog in {self._where} refused: {told}")

    def _told(self, error: BaseException) -> str:
        return self.place.hide(self.address.hide(told_by(error)))

    def _unreachable(self, error: psycopg.Error) -> LakeError:
        why = self._told(error)
        at = f"the catalog of the connection {self.place.connection}"
        if any(mark in why for mark in ("password", "authentication", "no pg_hba.conf entry")):
            return CatalogDenied(f"{at} does not let sqb in, {self.address}: {why}", hint=_PASSWORDS)
        setting = wrong_setting(error)
        if setting in self.address.options:
            hint = f"correct `{setting}` behind the ? in `uri` of the catalog: only settings of libpq's stand there"
            return CatalogUnreachable(f"{at} cannot be used, {self.address}: {why}", hint=hint)
        return CatalogUnreachable(f"{at} cannot be reached, {self.address}: {why}", hint=_hint(why))

    def _forbidden(self, why: str) -> CatalogDenied:
        return CatalogDenied(
            f"the catalog in {self._where} is not for this user: {why}",
            hint="let its owner grant what is needed: USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on"
            " iceberg_tables, iceberg_namespace_properties and sqb_runs; making them needs CREATE on the schema",
        )

    def _uncertain(self, error: BaseException) -> CommitUnknown:
        return CommitUnknown(
            f"the catalog in {self._where} did not say whether a change took place: {self._told(error)}",
            hint="run the command again: it starts from what is there now",
        )


class _PostgresSession:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute(_query(sql), values).fetchall()

    def run(self, sql: str, *values: Any) -> int:
        return self._connection.execute(_query(sql), values or None).rowcount

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> int:
        rows = list(values)
        if not rows:
            return 0
        with self._connection.cursor() as cursor:
            cursor.executemany(_query(sql), rows)
            return cursor.rowcount


def _query(sql: str) -> Any:
    return sql.replace("%", "%%").replace("?", "%s")


def _hint(why: str) -> str:
    if "database" in why and "does not exist" in why:
        return "create the database, or correct its name in `uri` of the connection's catalog"
    return (
        "check host and port in `uri` of the connection's catalog, and whether the server runs and lets this machine in"
    )
