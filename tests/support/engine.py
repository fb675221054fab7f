"""The engine of a build in tests: sessions of the shared Spark, on the lake of one project."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from sqb.build.udfs import PythonFunctions
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.session_settings import RESULT_SETTINGS, list_non_default
from sqb.spark.engine import Engine
from sqb.spark.session.catalog_conf import build_catalog_conf
from sqb.workspace import Workspace

# Hundreds of tiny queries: compiling one takes longer than running it.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class LakeSessions:
    """Sessions in which `lake` is one project's lake: catalogs are looked up per session. They are used again."""

    def __init__(self, engine: Engine, place: LakeLocation) -> None:
        self._engine = engine
        self._conf = {**build_catalog_conf(place, concurrency=2), **_INTERPRETED}
        self._free: list[SparkSession] = []
        self._lock = threading.Lock()

    def take(self) -> SparkSession:
        with self._lock:
            if self._free:
                return self._free.pop()
        session = self._engine.worker_session()
        for key, value in self._conf.items():
            session.conf.set(key, value)
        return session

    def give_back(self, session: SparkSession) -> None:
        with self._lock:
            self._free.append(session)

    def cancel(self) -> None:
        self._engine.cancel_all()


class EngineOfLake:
    """What starting Spark on one project's lake gives, without starting one."""

    def __init__(self, sessions: LakeSessions) -> None:
        self._sessions = sessions
        self._taken: list[SparkSession] = []

    def worker_session(self) -> SparkSession:
        self._taken.append(self._sessions.take())
        return self._taken[-1]

    def alive(self) -> bool:
        return True

    def loss(self) -> None:
        return None

    def cancel_all(self) -> None:
        self._sessions.cancel()

    def stop(self) -> None:
        while self._taken:
            self._sessions.give_back(self._taken.pop())


class SharedEngine:
    """What a build needs of Spark, without starting one."""

    failed: BaseException | None = None
    gone = False
    start_span = None

    def __init__(self, sessions: LakeSessions, workspace: Workspace) -> None:
        self._sessions, self._functions = sessions, PythonFunctions(workspace)
        # What the project says about results; sessions are used again by others, which say something else.
        self._settings = list_non_default(workspace.project.session)
        self._taken: dict[int, SparkSession] = {}
        self._lock = threading.Lock()
        self.started = False

    def warm(self) -> None:
        self.started = True

    def session(self) -> SparkSession:
        self.started = True
        thread = threading.get_ident()
        with self._lock:
            if thread not in self._taken:
                self._taken[thread] = self._sessions.take()
                for key, value in self._settings.items():
                    self._taken[thread].conf.set(key, value)
                self._functions.register(self._taken[thread])
            return self._taken[thread]

    def loss(self) -> None:
        return None

    def cancel(self) -> None:
        self._sessions.cancel()

    def stop(self) -> None:
        for session in self._taken.values():
            for key in self._settings:
                if key in RESULT_SETTINGS:
                    session.conf.set(key, RESULT_SETTINGS[key])
                else:
                    session.conf.unset(key)
            self._sessions.give_back(session)
        self._taken.clear()
