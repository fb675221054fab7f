"""Warms up a new engine: it runs typical queries on a temporary lake before the first build.

Runs in a process of its own, `python -m sqb.engine.warmup FILE`, as a client of the engine that FILE describes.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sqb.engine.descriptor import EngineDescriptor, read_descriptor
from sqb.engine.locks import is_claimed
from sqb.names import quote
from sqb.spark.connect.client import connect_engine
from sqb.spark.session.warmup_queries import run_warmup_queries

COMMAND = (sys.executable, "-P", "-m", "sqb.engine.warmup")
_CATALOG = "sqb_warming"
# Java compiles well what it has seen often; more rounds gain little.
_ROUNDS = 6


def warm_up(path: Path, engine: EngineDescriptor, lake: str) -> None:
    """Let an engine do what builds do, until it is warm or a build uses it."""
    folder = Path(tempfile.mkdtemp(prefix="sqb-warming-"))
    server = connect_engine(engine.connection, f"{engine.address}/;token={engine.token}", _CATALOG, None, None)
    try:
        session = server.worker_session()
        settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(folder)}
        for key, value in settings.items():
            session.conf.set(f"spark.sql.catalog.{_CATALOG}{key}", value)
        for round_number in range(_ROUNDS):
            if _is_busy(path):
                return
            run_warmup_queries(session, f"{_CATALOG}.a{round_number}")
            if lake:
                session.sql(f"SHOW NAMESPACES IN {quote(lake)}").collect()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _is_busy(path: Path) -> bool:
    """Whether a build uses the engine, or it is about to end."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return True
    try:
        return is_claimed(descriptor)
    finally:
        os.close(descriptor)


def main() -> None:
    """Warm up the engine that a file describes; the second argument is the catalog that may be looked at, or empty."""
    path, lake = Path(sys.argv[1]), sys.argv[2]
    engine = read_descriptor(path)
    # A build that comes first warms it up as well.
    with suppress(Exception):
        if engine is not None:
            warm_up(path, engine, lake)


if __name__ == "__main__":
    main()
