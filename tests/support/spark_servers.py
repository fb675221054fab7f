"""Real Spark servers on loopback: a Spark Connect server, and a standalone cluster of a master and workers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pyspark

from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection
from sqb.spark.session.class_archive import compute_archive_path, is_whole
from sqb.spark.session.conf import ICEBERG_EXTENSIONS, build_session_conf
from sqb.spark.session.jars import PACKAGES, find_cached_jars
from sqb.spark.session.java import find_java
from support.postgres import end_java_with_parent, free_port

_STARTED_WITHIN = 60.0
# Servers of tests live for seconds, on few cores; Java has little room for code where it compiles but quickly.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
HOME = Path(pyspark.__file__).parent


@dataclass
class SparkServer:
    """A running server: processes that are ended together, and where they are reached."""

    address: str
    port: int
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def log(self) -> str:
        """All that its processes have said."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_connect_server(
    conf: Mapping[str, str] | None = None, token: str = "", packages: Sequence[str] = PACKAGES
) -> SparkServer:
    """Start a Spark Connect server with Iceberg's jars and extensions, and no catalog of its own."""
    port = free_port()
    given = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": with_archived_classes(_QUICK),
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **({"spark.connect.authenticate.token": token} if token else {}),
        **_iceberg(packages),
        **(conf or {}),
    }
    folder = Path(tempfile.mkdtemp(prefix="sqb-connect-"))
    # A token is nobody's business who lists processes.
    settings = folder / "spark.conf"
    settings.touch(0o600)
    settings.write_text("".join(f"{key} {value}\n" for key, value in given.items()))
    secured = f"/;token={quote(token, safe='')}" if token else ""
    server = SparkServer(f"sc://localhost:{port}{secured}", port, folder)
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = ["org.apache.spark.deploy.SparkSubmit", "--properties-file", str(settings), "--class", name]
    _start(server, "connect", [*command, "spark-internal"], memory="1g", jars=_more_jars(packages))
    _wait_for(server, port)
    return server


def start_cluster(workers: int = 2) -> SparkServer:
    """Start a standalone cluster: a master, and workers of one core each."""
    port, ui = free_port(), free_port()
    folder = Path(tempfile.mkdtemp(prefix="sqb-cluster-"))
    server = SparkServer(f"spark://127.0.0.1:{port}", port, folder)
    deploy = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1"]
    _start(server, "master", [f"{deploy}.master.Master", *here, "--port", str(port), "--webui-port", str(ui)])
    _wait_for(server, port)
    for number in range(workers):
        own = ["--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        work = ["--work-dir", str(folder / f"work-{number}")]
        _start(server, f"worker-{number}", [f"{deploy}.worker.Worker", *here, *own, *work, server.address])
    return server


def with_archived_classes(options: str) -> str:
    """Java's options with the archive of Spark's classes that scripts/prepare_spark.py has made; it halves a start.

    It is for Sparks that have the jars of a build of ours on their class path, and no others.
    """
    nowhere = Path("x")
    conf = build_session_conf(Connection(), LakeLocation.embedded(nowhere, nowhere), nowhere, 2)
    archive = compute_archive_path(find_java(), conf)
    return f'{options} "-XX:SharedArchiveFile={archive}"' if archive is not None and is_whole(archive) else options


def _iceberg(packages: Sequence[str]) -> dict[str, str]:
    jars = find_cached_jars(PACKAGES, {})
    given = {"spark.sql.extensions": ICEBERG_EXTENSIONS}
    if jars is None or _more_jars(packages) is None:
        return {**given, "spark.jars.packages": ",".join(packages)}
    return {**given, "spark.driver.extraClassPath": os.pathsep.join(map(str, jars))}


def _more_jars(packages: Sequence[str]) -> list[Path] | None:
    """The jars besides those of every build; they stand last, as Java compares how the class path begins."""
    jars, ours = find_cached_jars(packages, {}), find_cached_jars(PACKAGES, {})
    return None if jars is None or ours is None else [jar for jar in jars if jar not in ours]


def _start(
    server: SparkServer, name: str, command: Sequence[str], memory: str = "256m", jars: Sequence[Path] | None = None
) -> None:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SPARK_CONNECT")},
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": _QUICK,
        "SPARK_DIST_CLASSPATH": os.pathsep.join(map(str, jars or ())),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(server.folder / "local"),
    }
    log = (server.folder / f"{name}.log").open("wb")
    server.processes.append(
        subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command],
            cwd=server.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=end_java_with_parent,
        )
    )


def _wait_for(server: SparkServer, port: int) -> None:
    until = time.monotonic() + _STARTED_WITHIN
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.processes[-1].poll() is not None or time.monotonic() > until:
                log = server.log()
                server.stop()
                raise RuntimeError(f"the server did not start: {log[-4000:]}") from None
        time.sleep(0.05)
