"""A session that was handed in: a notebook's, a job's, a platform's. It is used, and never stopped or changed."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sqb.errors import SqbError
from sqb.errors_connections import SparkDisconnected, SparkUnfit, SparkUnreachable
from sqb.spark.connect_mode import enter_connect_mode, leave_connect_mode
from sqb.spark.engine import Engine, speaks_connect
from sqb.spark.failures import explain
from sqb.spark.fitting import (
    Standing,
    fitted,
    forget_legacy,
    has_catalog,
    refuse_other_lake,
    refuse_other_version,
    refuse_without_iceberg,
)
from sqb.spark.masters import ask_masters, is_standalone, watch_masters
from sqb.spark.quiet import silence
from sqb.spark.remote import SECONDS_TO_ANSWER, RemoteEngine, Settings, within
from sqb.spark.watch import Watch

_WHERE = "the Spark session that was handed in"
_SECONDS_TO_CANCEL = 5.0


def use_session(session: Any, name: str, settings: Settings, standing: Standing | None) -> Engine:
    """An engine on a session that was handed in; what it lacks is said."""
    silence()
    connect = speaks_connect(session)
    if connect:
        enter_connect_mode()
    engine: Engine | None = None
    try:
        # The session's own client may try again for minutes, and Java that is gone is told in words of its own.
        first, found = within(SECONDS_TO_ANSWER, _unreachable, lambda: _first(session, name, settings))
        engine = _watched(first) if connect else GivenEngine(session, first)
        if standing is not None:
            refuse_other_lake(first, _WHERE, name, found, standing())
        return engine
    except BaseException as error:
        gone = engine is not None and not engine.alive()
        if engine is not None:
            engine.stop()
        elif connect:
            leave_connect_mode()
        if gone:
            raise _unreachable() from error
        if isinstance(error, SqbError) or not _is_sparks(error):
            raise
        raise _explained(error) from error


def _first(session: Any, name: str, settings: Settings) -> tuple[Any, set[str]]:
    """A session beside the one that was handed in, made fit for builds, and the schemas of its catalog."""
    if not speaks_connect(session) and session.sparkContext._jsc is None:
        raise SparkUnreachable(f"{_WHERE} was stopped", hint="hand in a session that runs")
    refuse_other_version(session, _WHERE, exact=False)
    refuse_without_iceberg(session, _WHERE)
    # Whoever made the session has decided how large its Spark is.
    wanted = {k: v for k, v in settings(has_catalog(session, name)).items() if k.startswith("spark.sql.")}
    first = _clone(session) if speaks_connect(session) else _beside(session, session)
    return first, fitted(first, _WHERE, name, wanted)


def _clone(session: Any) -> Any:
    from sqb.spark.connect_sessions import patient  # the session has loaded what this needs

    return patient(session.cloneSession())


def _watched(first: Any) -> RemoteEngine:
    from sqb.spark.connect_sessions import ConnectSessions  # as above

    return RemoteEngine(ConnectSessions(first, _lost))


def _is_sparks(error: BaseException) -> bool:
    known = isinstance(error, PySparkException | Py4JError | ConnectionError | EOFError)
    return known or type(error).__module__.startswith("grpc")


def _explained(error: BaseException) -> SqbError:
    failure = explain(error, "")
    if failure.kind == "lost":
        return _unreachable()
    return SparkUnfit(f"{_WHERE} cannot be used: {failure.message}", hint=failure.hint)


def _unreachable() -> SparkUnreachable:
    return SparkUnreachable(
        f"{_WHERE} does not answer", hint="check that its Spark still runs and can be reached, or hand in another one"
    )


def _lost() -> SparkDisconnected:
    return SparkDisconnected(
        "the connection of the Spark session that was handed in broke in the middle of the work",
        hint="check that its server still runs and can be reached; then build again: only what is missing runs",
    )


class GivenEngine:
    """A classic session of somebody else's: work is done in sessions beside it, on its Spark."""

    def __init__(self, session: Any, pattern: Any) -> None:
        # The settings of `pattern` are those of all sessions that are made.
        self._session, self._pattern = session, pattern
        self._made: list[Any] = []
        self._lock = threading.Lock()
        self._lost = False
        self._master = str(session.sparkContext.master)
        self._watch: Watch | None = None
        if is_standalone(self._master) and _is_reached(self._master):
            self._watch = watch_masters(self._master, self._give_up)

    def _give_up(self) -> None:
        self._lost = True
        self._interrupt()

    def worker_session(self) -> Any:
        """A session beside the one that was handed in, with the same settings."""
        made = _beside(self._session, self._pattern)
        with self._lock:
            self._made.append(made)
        return made

    def alive(self) -> bool:
        """Whether nobody has stopped Spark, and its cluster is there."""
        return not self._lost and self._session.sparkContext._jsc is not None

    def loss(self) -> SqbError | None:
        """What is said of a cluster that is gone; of a process nothing is known beyond that."""
        if not self._lost:
            return None
        return SparkDisconnected(
            f"the connection of {_WHERE} to the Spark cluster {self._master} broke in the middle of the work",
            hint="check that the cluster still runs and can be reached; then build again: only what is missing runs",
        )

    def cancel_all(self) -> None:
        """Interrupt what runs in the sessions of this build; the owner's own work goes on."""
        helper = threading.Thread(target=self._interrupt, name="sqb-cancel", daemon=True)
        helper.start()
        helper.join(_SECONDS_TO_CANCEL)

    def _interrupt(self) -> None:
        with self._lock:
            made = [*self._made, self._pattern]
        for session in made:
            with contextlib.suppress(Exception):
                session.interruptAll()

    def stop(self) -> None:
        """Let go of the sessions beside it."""
        if self._watch is not None:
            self._watch.end()
        with self._lock:
            self._made.clear()


def _is_reached(master: str) -> bool:
    """Whether masters can be asked from here: a platform may run a driver elsewhere, or name a master that is none."""
    try:
        ask_masters(master)
    except ConnectionError:
        return False
    return True


def _beside(session: Any, pattern: Any) -> Any:
    made = session.newSession()
    _copy_settings(pattern, made)
    return made


def _copy_settings(pattern: Any, made: Any) -> None:
    """A new session has what Spark was started with; what was set since then is missing."""
    present = made.conf.getAll
    for key, value in pattern.conf.getAll.items():
        if present.get(key) != value:
            # What belongs to Spark as a whole is the same in all sessions, and cannot be set.
            with contextlib.suppress(PySparkException):
                made.conf.set(key, value)
    forget_legacy(made, pattern.conf.getAll)
