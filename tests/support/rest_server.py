"""Iceberg's own REST catalog server on loopback for one test process, on a catalog in a SQLite file.

The file is how a test empties the catalog, or does to it what no client would.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqb.spark.session.java import find_java
from support.postgres import end_java_with_parent, free_port

_STARTED_WITHIN = 30.0


@dataclass
class RestServer:
    """A running server."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "catalog.db"

    def empty(self) -> None:
        """Let the catalog hold nothing."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("DELETE FROM iceberg_tables")
            connection.execute("DELETE FROM iceberg_namespace_properties")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_rest_server(class_path: str, more: Mapping[str, str] | None = None) -> RestServer:
    """Start a server on an empty catalog, with more settings of it as variables of its environment."""
    folder = Path(tempfile.mkdtemp(prefix="sqb_rest_"))
    port = free_port()
    settings = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db?journal_mode=WAL&synchronous=OFF&busy_timeout=30000",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": f"file:{folder}/data",
        "CATALOG_REST_PORT": str(port),
        **(more or {}),
    }
    java = [find_java().path, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [*map(str, java), "-cp", class_path, "org.apache.iceberg.rest.RESTCatalogServer"],
        env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder), **settings},
        cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_java_with_parent,
    )  # fmt: skip
    server = RestServer(port, folder, process)
    _wait_for(server)
    return server


def _wait_for(server: RestServer) -> None:
    until = time.monotonic() + _STARTED_WITHIN
    while True:
        try:
            urllib.request.urlopen(f"{server.uri}/v1/config", timeout=5).read()
            return
        except OSError:
            if server.process.poll() is not None or time.monotonic() > until:
                log = (server.folder / "log").read_text()
                server.stop()
                raise RuntimeError(f"the REST catalog server did not start: {log}") from None
        time.sleep(0.05)
