"""Making the class archive: a Spark of its own, on a lake that is thrown away, does once what builds do."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sqb.errors import SqbError
from sqb.project.connections import Connection, SparkSettings
from sqb.project.place import Place
from sqb.spark.archive import JAVA_OPTIONS, archive_path
from sqb.spark.exercise import exercise
from sqb.spark.frames import create_view
from sqb.spark.java import find_java
from sqb.spark.session import ClassicEngine, start_engine
from sqb.spark.settings import session_conf

MAKING = "preparing faster starts (once, about half a minute)"
_SECONDS_TO_WRITE = 120.0


def make_archive(connection: Connection, progress: Callable[[str], None]) -> Path | None:
    """Make the archive for sessions of `connection`; None when they cannot use one, or have one already."""
    java = find_java()
    target = archive_path(java, session_conf(connection, Place.embedded(Path("x"), Path("x")), Path("x"), 2))
    if target is None or target.is_file() or JAVA_OPTIONS in connection.spark.conf:
        return None
    progress(MAKING)
    folder = Path(tempfile.mkdtemp(prefix="sqb-archive-"))
    partial = target.with_suffix(f".{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = folder / "spark.jsa"
        engine = start_engine(
            _recording(connection, made),
            Place.embedded(folder / "catalog.db", folder / "data"),
            folder / "log",
            progress,
            2,
        )
        try:
            _work(engine)
        finally:
            engine.stop(_SECONDS_TO_WRITE)
        if not made.is_file():
            return None
        # Only a whole file may appear under the name that other processes look for.
        shutil.copyfile(made, partial)
        partial.replace(target)
        return target
    except (OSError, SqbError):
        return None
    finally:
        partial.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _recording(connection: Connection, made: Path) -> Connection:
    options = f'-XX:+UseParallelGC "-XX:ArchiveClassesAtExit={made}"'
    conf = {**connection.spark.conf, JAVA_OPTIONS: options}
    spark = SparkSettings(master=connection.spark.master, conf=conf)
    return Connection(connection.name, connection.catalog, spark)


def _work(engine: ClassicEngine) -> None:
    """What a build does."""
    session = engine.worker_session()
    exercise(session, "a")
    create_view(session, "`lake`.`a`.`v`", "SELECT * FROM a.sums", {"x": "y"})
    session.sql("SELECT * FROM a.v ORDER BY k").collect()
