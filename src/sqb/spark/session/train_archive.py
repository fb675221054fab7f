"""Making the class archive: a Spark of its own, on a lake that is thrown away, does once what builds do."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sqb.errors.base import SqbError
from sqb.project.config.connections import Connection, SparkSettings
from sqb.project.config.lake_location import LakeLocation
from sqb.spark.data.frames import create_view
from sqb.spark.session.class_archive import JAVA_OPTIONS, compute_archive_path
from sqb.spark.session.conf import build_session_conf
from sqb.spark.session.java import find_java
from sqb.spark.session.local import ClassicEngine, start_engine
from sqb.spark.session.warmup_queries import run_warmup_queries

MAKING_MESSAGE = "preparing faster starts (once, about half a minute)"
_SECONDS_TO_WRITE = 120.0


def make_archive(connection: Connection, progress: Callable[[str], None]) -> Path | None:
    """Make the archive for sessions of `connection`; None when they cannot use one, or have one already."""
    java = find_java()
    target = compute_archive_path(
        java, build_session_conf(connection, LakeLocation.embedded(Path("x"), Path("x")), Path("x"), 2)
    )
    if target is None or target.is_file() or JAVA_OPTIONS in connection.spark.conf:
        return None
    progress(MAKING_MESSAGE)
    folder = Path(tempfile.mkdtemp(prefix="sqb-archive-"))
    partial = target.with_suffix(f".{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        recorded = folder / "spark.jsa"
        engine = start_engine(
            _add_recording_options(connection, recorded),
            LakeLocation.embedded(folder / "catalog.db", folder / "data"),
            folder / "log",
            progress,
            2,
        )
        try:
            _run_training_queries(engine)
        finally:
            engine.stop(_SECONDS_TO_WRITE)
        if not recorded.is_file():
            return None
        # Only a whole file may appear under the name that other processes look for.
        shutil.copyfile(recorded, partial)
        partial.replace(target)
        return target
    except (OSError, SqbError):
        return None
    finally:
        partial.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _add_recording_options(connection: Connection, archive: Path) -> Connection:
    options = f'-XX:+UseParallelGC "-XX:ArchiveClassesAtExit={archive}"'
    conf = {**connection.spark.conf, JAVA_OPTIONS: options}
    spark = SparkSettings(master=connection.spark.master, conf=conf)
    return Connection(connection.name, connection.catalog, spark)


def _run_training_queries(engine: ClassicEngine) -> None:
    """Run what a build runs, so that the classes of all of it are loaded."""
    session = engine.worker_session()
    run_warmup_queries(session, "a")
    create_view(session, "`lake`.`a`.`v`", "SELECT * FROM a.sums", {"x": "y"})
    session.sql("SELECT * FROM a.v ORDER BY k").collect()
