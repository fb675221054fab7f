"""Which runs are alive, known by sessions of the catalog's PostgreSQL: for lakes that several machines share.

A run holds an advisory lock, which the server lets go of when the session ends, whatever ended it. A thread tells that
it is still there, and takes the lock again when the session was cut: so a run whose lock is free may live for another
moment, and until then its state is unknown. All times are the server's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from sqb.errors.lake import LakeError
from sqb.identity import digest
from sqb.lake.catalog.postgres_connection import create_if_missing, keep_alive
from sqb.lake.port import Run, RunHandle

_TABLE = (
    "CREATE TABLE IF NOT EXISTS sqb_runs(catalog_name VARCHAR(255) NOT NULL, run_id VARCHAR(255) NOT NULL,"
    " lock_key BIGINT NOT NULL, owner TEXT NOT NULL, started TIMESTAMPTZ NOT NULL, seen TIMESTAMPTZ NOT NULL,"
    " settled BOOLEAN NOT NULL, PRIMARY KEY (catalog_name, run_id))"
)
_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((classid::bigint << 32) | objid::bigint) = r.lock_key)"
)
_BEAT_SECONDS = 10.0
# How long a run whose session was cut has to come back.
_GRACE_SECONDS = 30
Connect = Callable[[], psycopg.Connection[Any]]


class PostgresRunTracker:
    """The runs of one catalog, as rows of its database."""

    def __init__(self, connect: Connect, prepare: Callable[[], None], schema: str, catalog: str) -> None:
        self._connect, self._prepare, self._schema, self.catalog = connect, prepare, schema, catalog

    @contextmanager
    def hold(self, run_id: str, owner: str) -> Iterator[RunHandle]:
        handle = RunHandle()
        run = _HeldRun(
            self._connect, self.catalog, run_id, _compute_lock_key("run", self.catalog, self._schema, run_id)
        )
        # A lake that cannot be written to says so itself; without a row the run's stages only live longer.
        with suppress(psycopg.Error, LakeError):
            self._make_table()
            run.begin(owner)
        try:
            yield handle
        finally:
            run.end(handle.finished)

    def list_runs(self) -> dict[str, Run]:
        query = (
            f"SELECT run_id, owner, extract(epoch FROM started)::float8, settled, {_HELD},"
            " extract(epoch FROM now() - seen)::float8 FROM sqb_runs r WHERE catalog_name = %s"
        )
        runs = {}
        with self._open_session() as connection:
            try:
                rows = connection.execute(query, (self.catalog,)).fetchall()
            except psycopg.errors.UndefinedTable:
                return {}
        for run_id, owner, started, settled, locked, silent in rows:
            alive = True if locked and not settled else None if silent < _GRACE_SECONDS and not settled else False
            runs[run_id] = Run(run_id, alive, owner, started, settled)
        return runs

    def settle(self, run_id: str) -> None:
        self._execute("UPDATE sqb_runs SET settled = true WHERE catalog_name = %s AND run_id = %s", run_id)

    def forget(self, run_id: str) -> None:
        self._execute("DELETE FROM sqb_runs WHERE catalog_name = %s AND run_id = %s", run_id)

    def remove_stale(self) -> None:
        return None

    @contextmanager
    def hold_exclusively(self, what: str) -> Iterator[bool]:
        with self._open_session() as connection:
            key = _compute_lock_key(what, self.catalog, self._schema)
            locked = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
            try:
                yield locked == (True,)
            finally:
                # The end of a session lets go of it too, but a moment later.
                with suppress(psycopg.Error):
                    connection.execute("SELECT pg_advisory_unlock_all()")

    def _make_table(self) -> None:
        with self._open_session() as connection:
            try:
                connection.execute("SELECT 1 FROM sqb_runs LIMIT 1")
            except psycopg.errors.UndefinedTable:
                self._prepare()
                create_if_missing(connection, _TABLE)

    def _execute(self, query: Any, run_id: str) -> None:
        with suppress(psycopg.Error, LakeError), self._open_session() as connection:
            connection.execute(query, (self.catalog, run_id))

    @contextmanager
    def _open_session(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self._connect()
        try:
            yield connection
        finally:
            connection.close()


class _HeldRun:
    """A run that is alive for as long as this is held."""

    def __init__(self, connect: Connect, catalog: str, run_id: str, key: int) -> None:
        self._connect, self._catalog, self._run_id, self._key = connect, catalog, run_id, key
        self._connection: psycopg.Connection[Any] | None = None
        self._locked = False
        self._row: tuple[Any, ...] = ()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="run-alive", daemon=True)

    def begin(self, owner: str) -> None:
        began = self._ensure_session().execute("SELECT now()").fetchone() or ()
        self._row = (self._catalog, self._run_id, self._key, owner, *began)
        self._report_alive()
        self._thread.start()

    def end(self, finished: bool) -> None:
        self._over.set()
        if self._thread.ident is None:
            return
        self._thread.join(_BEAT_SECONDS)
        if finished:
            query = "DELETE FROM sqb_runs WHERE catalog_name = %s AND run_id = %s"
        else:
            # Other processes see at once that it is over.
            query = "UPDATE sqb_runs SET seen = 'epoch' WHERE catalog_name = %s AND run_id = %s"
        for _ in range(2):
            try:
                connection = self._ensure_session()
                connection.execute(query, (self._catalog, self._run_id))
                connection.execute("SELECT pg_advisory_unlock_all()")
                break
            except (psycopg.Error, LakeError):
                continue
        if self._connection is not None:
            self._connection.close()

    def _beat(self) -> None:
        while not self._over.wait(_BEAT_SECONDS):
            with suppress(psycopg.Error, LakeError):
                self._report_alive()

    def _report_alive(self) -> None:
        """Say that the run lives, also where another process took it for dead while it was cut off."""
        self._ensure_session().execute(
            "INSERT INTO sqb_runs VALUES (%s, %s, %s, %s, %s, now(), false) ON CONFLICT (catalog_name, run_id)"
            " DO UPDATE SET started = excluded.started, seen = now(), settled = false, owner = excluded.owner",
            self._row,
        )

    def _ensure_session(self) -> psycopg.Connection[Any]:
        """The session that holds the lock, or another one when it was cut."""
        if self._connection is None or self._connection.closed:
            self._connection, self._locked = self._connect(), False
            keep_alive(self._connection)
        if not self._locked:
            # Not waited for: the server may take a while to notice that the former session is gone.
            locked = self._connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key,)).fetchone()
            self._locked = locked == (True,)
        return self._connection


def _compute_lock_key(*parts: str) -> int:
    """The number of an advisory lock."""
    return int(digest(*parts)[:15], 16)
