"""Making a new engine quick: what builds do is done on a lake that is thrown away, before anybody waits for it.

Runs in a process of its own, `python -m sqb.warm.warming FILE`, as a client of the engine that FILE describes.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sqb.names import quote
from sqb.spark.exercise import exercise
from sqb.spark.remote import connect_engine
from sqb.warm.description import Description, read
from sqb.warm.locks import is_claimed

COMMAND = (sys.executable, "-P", "-m", "sqb.warm.warming")
_CATALOG = "sqb_warming"
# Java compiles well what it has seen often; more rounds gain little.
_ROUNDS = 6


def warm_up(path: Path, engine: Description, lake: str) -> None:
    """Let an engine do what builds do, until it knows how or somebody works with it."""
    folder = Path(tempfile.mkdtemp(prefix="sqb-warming-"))
    server = connect_engine(engine.connection, f"{engine.address}/;token={engine.token}", _CATALOG, None, None)
    try:
        session = server.worker_session()
        settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(folder)}
        for key, value in settings.items():
            session.conf.set(f"spark.sql.catalog.{_CATALOG}{key}", value)
        for turn in range(_ROUNDS):
            if _is_busy(path):
                return
            exercise(session, f"{_CATALOG}.a{turn}")
            if lake:
                session.sql(f"SHOW NAMESPACES IN {quote(lake)}").collect()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _is_busy(path: Path) -> bool:
    """Whether somebody works with the engine, or it is to end."""
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
    engine = read(path)
    # A build that comes first warms it up as well.
    with suppress(Exception):
        if engine is not None:
            warm_up(path, engine, lake)


if __name__ == "__main__":
    main()
