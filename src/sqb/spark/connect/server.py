"""A Spark Connect server of this process: Spark started as for a build, that others on this machine may use too."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqb.errors.spark import SparkDidNotStart
from sqb.project.config.connections.model import Connection
from sqb.spark.engine import open_engine
from sqb.spark.private_api import get_jvm
from sqb.spark.session.local import ClassicEngine
from sqb.workspace import ProjectHome

_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_PLUGINS = "spark.plugins"
_TOKEN = "spark.connect.authenticate.token"
# Read by the server; what is among the arguments of a process can be read by every user of the machine.
_TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# Builds do not know of each other's number of workers; waiting for a connection to the catalog costs more than one.
_MIN_CONCURRENCY = 8
_MAX_FILE_SHARE = 0.5
_MAX_HEAP_SHARE = 0.75
_SERVING = {
    # Only this machine.
    "spark.connect.grpc.binding.address": "127.0.0.1",
    # Any port that is free.
    "spark.connect.grpc.binding.port": "0",
    # Builds do not share their artifacts.
    "spark.sql.artifact.isolation.enabled": "true",
    # What a build that was killed left running is stopped soon, and not in five minutes.
    "spark.connect.execute.manager.detachedTimeout": "30s",
    # A build that was killed gives no session back, and each holds catalogs: without this they fill the memory within
    # a hundred builds. A build that lives touches all of its sessions every minute.
    "spark.connect.session.manager.defaultSessionTimeout": "5m",
    # A process that has run Python functions has their modules loaded, which may have been edited since.
    "spark.python.worker.reuse": "false",
}


class ConnectServer:
    """A Spark that serves."""

    def __init__(self, engine: ClassicEngine) -> None:
        self._engine = engine
        self.pid = engine.pid
        self.port = _read_port(engine)

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
        used = 0.0
        with suppress(Exception):
            jvm = _get_jvm(self._engine)
            jvm.System.gc()
            used = _compute_heap_share(jvm)
        return _compute_open_file_share(self.pid) < _MAX_FILE_SHARE and used < _MAX_HEAP_SHARE


def start_server(workspace: ProjectHome, token: str, log: Path, progress: Callable[[str], None]) -> ConnectServer:
    """Start Spark for the lake of a project, as builds do, and let it serve whoever knows the token."""
    os.environ[_TOKEN_VARIABLE] = token
    engine = open_engine(
        connection=_add_server_settings(workspace.connection),
        place=workspace.lake_location,
        log_path=log,
        progress=progress,
        concurrency=max(_MIN_CONCURRENCY, workspace.concurrency or os.cpu_count() or 2),
    )
    try:
        assert isinstance(engine, ClassicEngine)
        return ConnectServer(engine)
    except BaseException as error:
        engine.stop()
        raise SparkDidNotStart("Spark does not serve Spark Connect", hint=f"Spark's log is {log}") from error


def _add_server_settings(connection: Connection) -> Connection:
    user_conf: Mapping[str, str] = connection.spark.conf
    plugins = ",".join(filter(None, (user_conf.get(_PLUGINS), _PLUGIN)))
    # A token of theirs is for servers of theirs.
    conf_without_token = {key: value for key, value in user_conf.items() if key != _TOKEN}
    return replace(
        connection, spark=replace(connection.spark, conf={**conf_without_token, _PLUGINS: plugins, **_SERVING})
    )


def _get_jvm(engine: ClassicEngine) -> Any:
    return get_jvm(engine.worker_session())


def _compute_heap_share(jvm: Any) -> float:
    """The share of its heap that Java uses, right after it has collected what is free."""
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / float(runtime.maxMemory())


def _compute_open_file_share(pid: int) -> float:
    """The share of its open-file limit that a process uses; 0 where the system does not report it."""
    with suppress(OSError, ValueError, StopIteration):
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        limit = next(line for line in limits if line.startswith("Max open files")).split()[3]
        return len(os.listdir(f"/proc/{pid}/fd")) / int(limit)
    return 0.0


def _read_port(engine: ClassicEngine) -> int:
    service = getattr(_get_jvm(engine), "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(getattr(service, "MODULE$").localPort())
