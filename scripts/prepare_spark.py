"""Fetches Spark's jars and makes an archive of Spark's classes, once, so that each start of Spark takes half the time.

The tests start Spark more than a hundred times. Whatever goes wrong here is no reason not to run them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sqb.build.engine import LazyEngine
from sqb.errors import SqbError
from sqb.spark.archive import archive_path
from sqb.spark.java import find_java
from sqb.spark.settings import session_conf
from sqb.spark.training import make_archive
from sqb.workspace import open_workspace


def prepare() -> None:
    """Start Spark once if its jars are not there yet, and make the archive if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "sqlbuild_project.toml").write_text('name = "prepare"\n')
        workspace = open_workspace(root)
        if archive_path(find_java(), session_conf(workspace.connection, "lake", root, root, root, 2)) is None:
            engine = LazyEngine(workspace, root / "spark.log", print, 2)
            try:
                engine.session()
            finally:
                engine.stop()
        make_archive(workspace.connection, print)


if __name__ == "__main__":
    try:
        prepare()
    except SqbError as error:
        print(f"Spark could not be prepared: {error}")
