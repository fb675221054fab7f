"""A session that was handed in: a notebook's, a job's, a platform's. It is used, and never stopped or changed."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from pyspark.errors import PySparkException

from sqb.errors import SqbError
from sqb.errors_connections import SparkDisconnected
from sqb.spark.connect_mode import enter_connect_mode, leave_connect_mode
from sqb.spark.engine import Engine, speaks_connect
from sqb.spark.fitting import Standing, fitted, has_catalog, refuse_other_version, refuse_without_iceberg
from sqb.spark.quiet import silence
from sqb.spark.remote import RemoteEngine, Settings

_WHERE = "the Spark session that was handed in"
_SECONDS_TO_CANCEL = 5.0


def use_session(session: Any, name: str, settings: Settings, standing: Standing | None) -> Engine:
    """An engine on a session that was handed in; what it lacks is said."""
    silence()
    refuse_other_version(session, _WHERE, exact=False)
    refuse_without_iceberg(session, _WHERE)
    # Whoever made the session has decided how large its Spark is.
    wanted = {k: v for k, v in settings(has_catalog(session, name)).items() if k.startswith("spark.sql.")}
    if speaks_connect(session):
        return _use_connect(session, name, wanted, standing)
    engine = GivenEngine(session)
    first = engine.worker_session()
    fitted(first, _WHERE, name, wanted, standing)
    engine.pattern = first
    return engine


def _use_connect(session: Any, name: str, wanted: Any, standing: Standing | None) -> Engine:
    from sqb.spark.connect_sessions import ConnectSessions, patient  # the session has loaded what this needs

    enter_connect_mode()
    try:
        base = patient(session.cloneSession())
        fitted(base, _WHERE, name, wanted, standing)
    except BaseException:
        leave_connect_mode()
        raise
    return RemoteEngine(ConnectSessions(base, _lost))


def _lost() -> SparkDisconnected:
    return SparkDisconnected(
        "the connection of the Spark session that was handed in broke in the middle of the work",
        hint="check that its server still runs and can be reached; then build again: only what is missing runs",
    )


class GivenEngine:
    """A classic session of somebody else's: work is done in sessions beside it, on its Spark."""

    def __init__(self, session: Any) -> None:
        self._session = session
        # The session whose settings the others have.
        self.pattern: Any = session
        self._made: list[Any] = []
        self._lock = threading.Lock()

    def worker_session(self) -> Any:
        """A session beside the one that was handed in, with the same settings."""
        made = self._session.newSession()
        _copy_settings(self.pattern, made)
        with self._lock:
            self._made.append(made)
        return made

    def alive(self) -> bool:
        """Whether nobody has stopped Spark."""
        return self._session.sparkContext._jsc is not None

    def loss(self) -> SqbError | None:
        return None

    def cancel_all(self) -> None:
        """Interrupt what runs in the sessions of this build; the owner's own work goes on."""
        helper = threading.Thread(target=self._interrupt, name="sqb-cancel", daemon=True)
        helper.start()
        helper.join(_SECONDS_TO_CANCEL)

    def _interrupt(self) -> None:
        with self._lock:
            made = list(self._made)
        for session in made:
            with contextlib.suppress(Exception):
                session.interruptAll()

    def stop(self) -> None:
        """Let go of the sessions beside it."""
        with self._lock:
            self._made.clear()


def _copy_settings(pattern: Any, made: Any) -> None:
    """A new session has what Spark was started with; what was set since then is missing."""
    present = made.conf.getAll
    for key, value in pattern.conf.getAll.items():
        if present.get(key) != value:
            # What belongs to Spark as a whole is the same in all sessions, and cannot be set.
            with contextlib.suppress(PySparkException):
                made.conf.set(key, value)
