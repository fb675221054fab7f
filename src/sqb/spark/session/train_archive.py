"""Making the class archive: a Spark of its own, on a lake that is thrown away, does once what builds do.

Runs in a process of its own, `python -m sqb.spark.session.train_archive CLASS_PATH TARGET`, after the first build that
could have used an archive; `request_archive.py` starts it. No command waits for it, and none reports it when it fails.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqb.errors.base import SqbError
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection
from sqb.spark.data.frames import create_view
from sqb.spark.session.class_archive import WHOLE_MARK, is_whole, remove_old_archives
from sqb.spark.session.conf import build_session_conf
from sqb.spark.session.jars import SQLITE
from sqb.spark.session.java_options import JAVA_OPTIONS
from sqb.spark.session.local import ClassicEngine, launch_engine
from sqb.spark.session.request_archive import get_lock_path
from sqb.spark.session.warmup_queries import run_warmup_queries

MAKING_MESSAGE = "preparing faster starts (once, about half a minute)"
_SECONDS_TO_WRITE = 120.0
_MASTER = "local[2]"
_MEMORY = "1g"
_NICENESS = 15


def make_archive(class_path: str, target: Path, progress: Callable[[str], None]) -> Path | None:
    """Make an archive for sessions with this class path; None when that fails, or another process makes it."""
    folder = Path(tempfile.mkdtemp(prefix="sqb-archive-"))
    partial = target.with_suffix(f".{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock_target(target) as is_ours:
            if not is_ours or is_whole(target):
                return None
            progress(MAKING_MESSAGE)
            if not _record_classes(class_path, folder, partial):
                return None
            _complete(partial, target)
            get_lock_path(target).unlink(missing_ok=True)
        remove_old_archives(target.parent, target)
        return target
    except (OSError, SqbError):
        return None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock_target(target: Path) -> Iterator[bool]:
    """Whether no other process makes the same archive; that it was tried can be seen until it has been made."""
    descriptor = os.open(get_lock_path(target), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        is_ours = _try_lock(descriptor)
        if is_ours:
            os.utime(descriptor)
        yield is_ours
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _record_classes(class_path: str, folder: Path, partial: Path) -> bool:
    """Let a Spark do what builds do and write what it has loaded; whether it came to its end."""
    conf = _build_training_conf(class_path, folder, partial)
    engine = launch_engine(conf, folder / "scratch", folder / "log")
    try:
        _run_training_queries(engine, has_views=SQLITE.split(":")[1] in class_path)
    finally:
        engine.stop(_SECONDS_TO_WRITE)
    return engine.exit_code == 0 and partial.is_file()


def _build_training_conf(class_path: str, folder: Path, partial: Path) -> dict[str, str]:
    place = LakeLocation.embedded(folder / "catalog.db", folder / "data")
    conf = build_session_conf(Connection(), place, folder / "scratch", 2, "quick")
    conf |= {
        "spark.master": _MASTER,
        "spark.driver.memory": _MEMORY,
        "spark.driver.extraClassPath": class_path,
        JAVA_OPTIONS: f'{conf[JAVA_OPTIONS]} "-XX:ArchiveClassesAtExit={partial}"',
    }
    # What is not in the class path would have to be fetched.
    conf.pop("spark.jars.packages", None)
    if SQLITE.split(":")[1] not in class_path:
        catalog = f"spark.sql.catalog.{place.name}"
        conf = {key: value for key, value in conf.items() if not key.startswith(f"{catalog}.")}
        conf |= {f"{catalog}.type": "hadoop", f"{catalog}.warehouse": str(folder / "data")}
    return conf


def _complete(partial: Path, target: Path) -> None:
    """Let the archive appear under the name that other processes look for: only a whole file, safe on the disk."""
    partial.chmod(0o600)
    with open(partial, "ab") as file:
        file.write(WHOLE_MARK)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)


def _run_training_queries(engine: ClassicEngine, has_views: bool) -> None:
    """Run what a build runs, so that the classes of all of it are loaded."""
    session = engine.worker_session()
    run_warmup_queries(session, "a")
    if has_views:
        create_view(session, "`lake`.`a`.`v`", "SELECT * FROM a.sums", {"x": "y"})
        session.sql("SELECT * FROM a.v ORDER BY k").collect()


def main() -> None:
    """Make an archive, when nothing else wants the processor."""
    os.nice(_NICENESS)
    make_archive(sys.argv[1], Path(sys.argv[2]), lambda _: None)


if __name__ == "__main__":
    main()
