"""Spark when it is needed: started once, in the background, by the first node that asks for it or could."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from sqb.build.functions import PythonFunctions
from sqb.errors import Interrupted
from sqb.workspace import Workspace


class LazyEngine:
    """A Spark application for one build, not started until somebody needs it."""

    def __init__(
        self,
        workspace: Workspace,
        log: Path,
        tell: Callable[[str], None],
        concurrency: int,
        interrupted: threading.Event | None = None,
        functions: Collection[str] = (),
    ) -> None:
        self._workspace, self._log, self._tell, self._concurrency = workspace, log, tell, concurrency
        self._interrupted = interrupted or threading.Event()
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._engine: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._local = threading.local()
        self._stopped = False
        # Python functions that are used by the project, or named by the caller.
        self._functions = PythonFunctions(workspace, functions)

    @property
    def started(self) -> bool:
        """Whether a JVM was asked for."""
        return self._thread is not None

    def warm(self) -> None:
        """Begin to start Spark, without waiting for it."""
        with self._lock:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
                self._thread.start()

    def _start(self) -> None:
        try:
            from sqb.spark.session import start_engine  # pyspark is only loaded when something runs

            workspace = self._workspace
            self._engine = start_engine(
                connection=workspace.connection,
                place=workspace.place,
                log_path=self._log,
                progress=self._tell,
                concurrency=self._concurrency,
            )
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    def session(self) -> Any:
        """This thread's own session; waits for Spark, and raises what kept it from starting."""
        self.warm()
        while not self._ready.wait(0.1):
            if self._interrupted.is_set():
                raise Interrupted("the build was interrupted while Spark was starting")
        if self._error is not None:
            raise self._error
        if not hasattr(self._local, "session"):
            session = self._engine.worker_session()
            self._functions.register(session)
            self._local.session = session
        return self._local.session

    @property
    def failed(self) -> BaseException | None:
        """What kept Spark from starting, when that has turned out."""
        return self._error

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
