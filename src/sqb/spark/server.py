"""A Spark Connect server of this process: Spark started as for a build, that others on this machine may use too."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqb.errors import SparkDidNotStart
from sqb.project.connections import Connection
from sqb.spark.opening import open_engine
from sqb.spark.session import ClassicEngine
from sqb.workspace import Home

_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_PLUGINS = "spark.plugins"
_TOKEN = "spark.connect.authenticate.token"
# Read by the server; what is among the arguments of a process can be read by everybody on the machine.
_TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# Builds do not know of each other's number of workers; waiting for a connection to the catalog costs more than one.
_LEAST_CONCURRENCY = 8
_MOST_FILES = 0.5
_SERVING = {
    # Nobody but this machine.
    "spark.connect.grpc.binding.address": "127.0.0.1",
    # Any port that is free.
    "spark.connect.grpc.binding.port": "0",
    # What one build brings along is no other's.
    "spark.sql.artifact.isolation.enabled": "true",
    # What a build that was killed left running is stopped soon, and not in five minutes.
    "spark.connect.execute.manager.detachedTimeout": "30s",
    # A process that has run Python functions has their modules loaded, which may have been edited since.
    "spark.python.worker.reuse": "false",
}


class ConnectServer:
    """A Spark that serves."""

    def __init__(self, engine: ClassicEngine) -> None:
        self._engine = engine
        self.pid = engine.pid
        self.port = _port(engine)

    def alive(self) -> bool:
        """Whether its process is there."""
        return self._engine.alive()

    def stop(self) -> None:
        """End it; a second call does nothing."""
        self._engine.stop()

    def tidy(self) -> bool:
        """Let go of what sessions left behind that are gone; False when it should be replaced, so much is left.

        Spark closes no catalog of a session that ends: some close their connections when Java collects them, and the
        others keep their files open for ever.
        """
        with suppress(Exception):
            _jvm(self._engine).System.gc()
        return _share_of_files(self.pid) < _MOST_FILES


def serve(workspace: Home, token: str, log: Path, progress: Callable[[str], None]) -> ConnectServer:
    """Start Spark for the lake of a project, as builds do, and let it serve whoever knows the token."""
    os.environ[_TOKEN_VARIABLE] = token
    engine = open_engine(
        connection=_serving(workspace.connection),
        place=workspace.place,
        log_path=log,
        progress=progress,
        concurrency=max(_LEAST_CONCURRENCY, workspace.concurrency or os.cpu_count() or 2),
    )
    try:
        assert isinstance(engine, ClassicEngine)
        return ConnectServer(engine)
    except BaseException as error:
        engine.stop()
        raise SparkDidNotStart("Spark does not serve Spark Connect", hint=f"Spark's log is {log}") from error


def _serving(connection: Connection) -> Connection:
    theirs: Mapping[str, str] = connection.spark.conf
    plugins = ",".join(filter(None, (theirs.get(_PLUGINS), _PLUGIN)))
    # A token of theirs is for servers of theirs.
    kept = {key: value for key, value in theirs.items() if key != _TOKEN}
    return replace(connection, spark=replace(connection.spark, conf={**kept, _PLUGINS: plugins, **_SERVING}))


def _jvm(engine: ClassicEngine) -> Any:
    return engine.worker_session()._jvm


def _share_of_files(pid: int) -> float:
    """How many of the files that a process may have open it has; 0 where nobody tells."""
    with suppress(OSError, ValueError, StopIteration):
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        most = next(line for line in limits if line.startswith("Max open files")).split()[3]
        return len(os.listdir(f"/proc/{pid}/fd")) / int(most)
    return 0.0


def _port(engine: ClassicEngine) -> int:
    service = getattr(_jvm(engine), "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(getattr(service, "MODULE$").localPort())
