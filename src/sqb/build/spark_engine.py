"""Spark when it is needed: started once, in the background, by the first node that asks for it or could."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from sqb.build.events import Event, PhaseStarted, SparkStarted, WorkSpan
from sqb.build.udfs import PythonFunctions
from sqb.engine.descriptor import get_path
from sqb.errors.base import SqbError
from sqb.errors.build import Interrupted
from sqb.lake.open import open_lake
from sqb.lake.port import STAGE_SCHEMA
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.workspace import Workspace

# PySpark has one Spark in a process: builds that start one of their own wait for each other.
_OWN_SPARK = threading.Lock()


class LazyEngine:
    """The Spark of one build, neither started nor connected to until a node needs it."""

    def __init__(
        self,
        workspace: Workspace,
        log: Path,
        report: Callable[[str], None],
        concurrency: int,
        interrupted: threading.Event | None = None,
        functions: Collection[str] = (),
        external_session: Any = None,
    ) -> None:
        # A session that was handed in is used instead of a Spark of the build's own.
        self._external_session = external_session
        self._workspace, self._log, self._report, self._concurrency = workspace, log, report, concurrency
        self._interrupted = interrupted or threading.Event()
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._engine: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._local = threading.local()
        self._stopped = False
        self._has_spark = self._started_own = False
        self._rows: int | None = None
        self._start_span: WorkSpan | None = None
        self._listen: Callable[[Event], None] = lambda _: None
        # The lake as Spark's settings have it, and the name of the connections that it makes to the catalog.
        self._place, self._connections = _name_connections(workspace.lake_location)
        # Python functions that are used by the project, or named by the caller.
        self._functions = PythonFunctions(workspace, functions)

    @property
    def started(self) -> bool:
        """Whether a JVM was asked for."""
        return self._thread is not None

    @property
    def started_own(self) -> bool:
        """Whether a Spark of the build's own has started."""
        return self._started_own

    @property
    def start_span(self) -> WorkSpan | None:
        """When Spark was started or connected to; None where that was not needed, or an engine was warm."""
        return self._start_span

    def expect_rows(self, rows: int | None) -> None:
        """Say how many rows there will be to read, before Spark starts; None when that is not known."""
        self._rows = rows

    def tell(self, listen: Callable[[Event], None]) -> None:
        """Tell that Spark is starting, and when a Spark of the build's own has started."""
        self._listen = listen

    def warm(self) -> None:
        """Begin to start Spark, without waiting for it."""
        with self._lock:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
                self._thread.start()

    def _start(self) -> None:
        try:
            engine = self._get_warm_engine() or self._open_engine()
            with self._lock:
                abandoned = self._stopped
                self._engine = None if abandoned else engine
            if abandoned:
                # Whoever wanted it did not wait.
                engine.stop()
                self._release_spark()
        except BaseException as error:
            self._error = error
            self._release_spark()
        finally:
            self._ready.set()

    def _get_warm_engine(self) -> Any:
        """The warm engine of an earlier build, if there is one."""
        if self._external_session is not None or not get_path(self._workspace.folder).exists():
            return None
        from sqb.engine.client import connect_warm_engine  # few projects have one

        self._create_catalog()
        return connect_warm_engine(self._workspace, self._place, self._report)

    def _open_engine(self) -> Any:
        """The Spark that the connection names, or the one that was handed in."""
        from sqb.spark.engine import open_engine  # pyspark is only loaded when something runs
        from sqb.spark.session.java_options import choose_compiler

        workspace = self._workspace
        is_own = self._external_session is None and not workspace.connection.spark.remote
        if is_own:
            self._acquire_spark()
        else:
            self._create_catalog()
        began, began_at = time.monotonic(), time.time()
        self._listen(PhaseStarted("starting Spark" if is_own else "connecting to Spark"))
        engine = open_engine(
            connection=workspace.connection,
            place=self._place,
            log_path=self._log,
            progress=self._report,
            concurrency=self._concurrency,
            given_session=self._external_session,
            read_current_tables=self._list_pointers,
            compiler=choose_compiler(self._rows),
        )
        self._started_own = is_own
        self._start_span = WorkSpan(began_at, time.time())
        self._listen(SparkStarted(time.monotonic() - began) if is_own else PhaseStarted(""))
        return engine

    def _create_catalog(self) -> None:
        """Make the catalog of a new project: a Spark that runs already is asked for its schemas at once."""
        lake = open_lake(self._workspace)
        if not lake.exists():
            lake.ensure_schemas(())

    def _acquire_spark(self) -> None:
        """Wait until no other build of this process has a Spark of its own."""
        if not _OWN_SPARK.acquire(blocking=False):
            self._report("waiting for another build in this process to end its Spark")
            while not _OWN_SPARK.acquire(timeout=0.2):
                if self._interrupted.is_set() or self._stopped:
                    raise Interrupted("the build was interrupted while it waited for another one in this process")
        self._has_spark = True

    def _release_spark(self) -> None:
        """Let the next build of this process have its Spark, and end what Spark opened in the catalog's database."""
        with self._lock:
            had, self._has_spark = self._has_spark, False
        if had:
            _OWN_SPARK.release()
        _end_connections(self._workspace.lake_location, self._connections)

    def _list_pointers(self) -> Mapping[Relation, str]:
        """What the lake holds: a Spark that was not started for it must see the same."""
        tables = (p for p in open_lake(self._workspace).list_pointers().values() if not p.is_view)
        # Stages of other builds may go at any moment.
        return {p.relation: p.location for p in tables if p.relation.schema != STAGE_SCHEMA}

    def session(self) -> Any:
        """This thread's own session; waits for Spark, and raises what kept it from starting."""
        self.warm()
        while not self._ready.wait(0.1):
            if self._interrupted.is_set():
                raise Interrupted("the build was interrupted while Spark was starting")
        if self._error is not None:
            raise self._error
        if self._engine is None:
            raise Interrupted("the build has ended")
        if not self._engine.alive() and (loss := self._engine.loss()) is not None:
            raise loss
        if not hasattr(self._local, "session"):
            session = self._engine.worker_session()
            self._functions.register(session)
            self._local.session = session
        return self._local.session

    @property
    def failed(self) -> BaseException | None:
        """What kept Spark from starting, when that has turned out."""
        return self._error

    @property
    def gone(self) -> bool:
        """Whether Spark was there and is not any more."""
        return self._engine is not None and not self._engine.alive()

    def loss(self) -> SqbError | None:
        """The message when Spark went away in the middle of the work, where more is known than that."""
        return self._engine.loss() if self._engine is not None else None

    def cancel(self) -> None:
        """End all running jobs."""
        if self._engine is not None:
            self._engine.cancel_all()

    def stop(self) -> None:
        """End Spark; waits for a start that is under way, unless the build was interrupted."""
        with self._lock:
            self._stopped = True
        if self._thread is not None and not self._interrupted.is_set():
            self._ready.wait()
        if self._engine is not None:
            self._engine.stop()
            self._engine = None
            self._release_spark()


ProgressListener = Callable[[str], None]


class OnDemandSpark:
    """The engine of one command, if it needs one; its run and its log are called by `kind` and the time."""

    def __init__(
        self,
        workspace: Workspace,
        report: ProgressListener,
        kind: str = "",
        stop: threading.Event | None = None,
        external_session: Any = None,
    ) -> None:
        self._kind = kind
        self.stop_requested = stop or threading.Event()
        # A session that is to be used instead of Spark of its own.
        self._external_session = external_session
        self._workspace, self._report = workspace, report
        self._engine: LazyEngine | None = None

    @cached_property
    def run_id(self) -> str:
        """The name of the run, for a command that does something."""
        from sqb.build.result import generate_run_id  # a plan with nothing to do is not a run

        return f"{self._kind}{generate_run_id()}"

    @property
    def log(self) -> Path:
        """Where Spark's words go."""
        return self._workspace.folder / "logs" / f"{self.run_id}.log"

    def get_engine(
        self, report: ProgressListener | None = None, width: int | None = None, functions: Collection[str] = ()
    ) -> LazyEngine:
        """The engine, made when it is first asked for; `report` hears from then on what it says."""
        self._report = report or self._report
        if self._engine is None:
            width = width or self._workspace.concurrency or max(2, os.cpu_count() or 2)
            self._engine = LazyEngine(
                self._workspace,
                self.log,
                self._report_progress,
                width,
                self.stop_requested,
                functions,
                self._external_session,
            )
        return self._engine

    def refuse_unfit(self) -> None:
        """Raise for a Java or a PySpark that Spark would not start with, where this command would start one."""
        if self._external_session is not None or self._workspace.connection.spark.remote:
            return
        from sqb.spark.session.java import find_java  # what runs needs it
        from sqb.spark.session.versions import read_spark_version, refuse_unknown_spark

        refuse_unknown_spark(read_spark_version())
        find_java()

    def _report_progress(self, text: str) -> None:
        self._report(text)

    def session(self) -> Any:
        """A session of this thread's own."""
        return self.get_engine().session()

    @property
    def has_given_session(self) -> bool:
        """Whether a session was handed in: it may know tables that nothing else does."""
        return self._external_session is not None

    @property
    def started(self) -> bool:
        """Whether a JVM was asked for."""
        return self._engine is not None and self._engine.started

    @property
    def started_own(self) -> bool:
        """Whether a Spark of the command's own has started."""
        return self._engine is not None and self._engine.started_own

    def stop(self) -> None:
        """End Spark if it was started."""
        if self._engine is not None:
            self._engine.stop()


# Only a catalog in PostgreSQL needs psycopg, which takes longer to load than a build with nothing to do.


def _name_connections(place: LakeLocation) -> tuple[LakeLocation, str]:
    if not place.is_postgres:
        return place, ""
    from sqb.lake.catalog.postgres_connection import name_connections

    return name_connections(place)


def _end_connections(place: LakeLocation, name: str) -> None:
    if name:
        from sqb.lake.catalog.postgres_connection import end_connections

        end_connections(place, name)
