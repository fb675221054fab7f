"""A session that was handed in: a notebook's, a job's, a platform's. It is used, and never stopped or changed."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sqb.errors.base import SqbError
from sqb.errors.connections import SparkDisconnected, SparkUnfit, SparkUnreachable
from sqb.spark.connect.client import SECONDS_TO_ANSWER, RemoteEngine, Settings, run_within
from sqb.spark.connect.mode import enter_connect_mode, leave_connect_mode
from sqb.spark.engine import Engine, is_connect_session
from sqb.spark.errors import explain_failure
from sqb.spark.private_api import is_stopped
from sqb.spark.session.compatibility import (
    ReadCurrentTables,
    has_catalog,
    prepare_session,
    refuse_other_lake,
    refuse_other_version,
    refuse_without_iceberg,
    unset_legacy_flags,
)
from sqb.spark.session.heartbeat import Heartbeat
from sqb.spark.session.logging import silence_loggers
from sqb.spark.session.reachability import check_masters, is_standalone, start_heartbeat

_WHERE = "the Spark session that was handed in"
_SECONDS_TO_CANCEL = 5.0
# A Spark of this very process is there as long as its Java is: a slow machine may need minutes for its first questions.
_SECONDS_OF_OWN = 180.0


def use_session(session: Any, name: str, settings: Settings, read_current_tables: ReadCurrentTables | None) -> Engine:
    """An engine on a session that was handed in; what it lacks is reported."""
    silence_loggers()
    is_connect = is_connect_session(session)
    if is_connect:
        enter_connect_mode()
    engine: Engine | None = None
    try:
        # The session's own client may try again for minutes, and Java that is gone is told in words of its own.
        patience = SECONDS_TO_ANSWER if is_connect else _SECONDS_OF_OWN
        first, schemas = run_within(
            patience, _build_unreachable_error, lambda: _prepare_first_session(session, name, settings)
        )
        engine = _build_connect_engine(first) if is_connect else ExternalEngine(session, first)
        if read_current_tables is not None:
            refuse_other_lake(first, _WHERE, name, schemas, read_current_tables())
        return engine
    except BaseException as error:
        is_spark_gone = engine is not None and not engine.alive()
        if engine is not None:
            engine.stop()
        elif is_connect:
            leave_connect_mode()
        if is_spark_gone:
            raise _build_unreachable_error() from error
        if isinstance(error, SqbError) or not _is_spark_error(error):
            raise
        raise _explain_error(error) from error


def _prepare_first_session(session: Any, name: str, settings: Settings) -> tuple[Any, set[str]]:
    """A session beside the one that was handed in, made fit for builds, and the schemas of its catalog."""
    if not is_connect_session(session) and is_stopped(session):
        raise SparkUnreachable(f"{_WHERE} was stopped", hint="hand in a session that runs")
    refuse_other_version(session, _WHERE, exact=False)
    refuse_without_iceberg(session, _WHERE)
    # Whoever made the session has decided how large its Spark is.
    session_settings = {k: v for k, v in settings(has_catalog(session, name)).items() if k.startswith("spark.sql.")}
    first = _clone_session(session) if is_connect_session(session) else _create_session(session, session)
    return first, prepare_session(first, _WHERE, name, session_settings)


def _clone_session(session: Any) -> Any:
    from sqb.spark.connect.sessions import set_retry_policy  # the session has loaded what this needs

    return set_retry_policy(session.cloneSession())


def _build_connect_engine(first: Any) -> RemoteEngine:
    from sqb.spark.connect.sessions import ConnectSessions  # as above

    return RemoteEngine(ConnectSessions(first, _build_lost_error))


def _is_spark_error(error: BaseException) -> bool:
    known = isinstance(error, PySparkException | Py4JError | ConnectionError | EOFError)
    return known or type(error).__module__.startswith("grpc")


def _explain_error(error: BaseException) -> SqbError:
    failure = explain_failure(error, "")
    if failure.kind == "lost":
        return _build_unreachable_error()
    return SparkUnfit(f"{_WHERE} cannot be used: {failure.message}", hint=failure.hint)


def _build_unreachable_error() -> SparkUnreachable:
    return SparkUnreachable(
        f"{_WHERE} does not answer", hint="check that its Spark still runs and can be reached, or hand in another one"
    )


def _build_lost_error() -> SparkDisconnected:
    return SparkDisconnected(
        "the connection of the Spark session that was handed in broke in the middle of the work",
        hint="check that its server still runs and can be reached; then build again: only what is missing runs",
    )


class ExternalEngine:
    """A classic session of the caller: work is done in sessions beside it, on its Spark."""

    def __init__(self, session: Any, template: Any) -> None:
        # The settings of `pattern` are those of all sessions that are made.
        self._session, self._template = session, template
        self._created: list[Any] = []
        self._lock = threading.Lock()
        self._lost = False
        self._master = str(session.sparkContext.master)
        self._watch: Heartbeat | None = None
        if is_standalone(self._master) and _is_reachable(self._master):
            self._watch = start_heartbeat(self._master, self._give_up)

    def _give_up(self) -> None:
        self._lost = True
        self._interrupt()

    def worker_session(self) -> Any:
        """A session beside the one that was handed in, with the same settings."""
        session = _create_session(self._session, self._template)
        with self._lock:
            self._created.append(session)
        return session

    def alive(self) -> bool:
        """Whether Spark still runs, and its cluster is there."""
        return not self._lost and not is_stopped(self._session)

    def loss(self) -> SqbError | None:
        """The message about a cluster that is gone; of a process nothing is known beyond that."""
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
            sessions = [*self._created, self._template]
        for session in sessions:
            with contextlib.suppress(Exception):
                session.interruptAll()

    def stop(self) -> None:
        """Let go of the sessions beside it."""
        if self._watch is not None:
            self._watch.end()
        with self._lock:
            self._created.clear()


def _is_reachable(master: str) -> bool:
    """Whether masters can be asked from here: a platform may run a driver elsewhere, or name a master that is none."""
    try:
        check_masters(master)
    except ConnectionError:
        return False
    return True


def _create_session(session: Any, template: Any) -> Any:
    created = session.newSession()
    _copy_settings(template, created)
    return created


def _copy_settings(template: Any, created: Any) -> None:
    """A new session has what Spark was started with; what was set since then is missing."""
    present = created.conf.getAll
    for key, value in template.conf.getAll.items():
        if present.get(key) != value:
            # What belongs to Spark as a whole is the same in all sessions, and cannot be set.
            with contextlib.suppress(PySparkException):
                created.conf.set(key, value)
    unset_legacy_flags(created, template.conf.getAll)
