"""Fetches Spark's jars and makes an archive of Spark's classes, once, so that each start of Spark takes half the time.

The tests start Spark more than a hundred times. Whatever goes wrong here is no reason not to run them. With `--image`,
for a container that is to fetch nothing when it runs, the jars of every connection are fetched, and it is an error.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sqb.build.spark_engine import LazyEngine
from sqb.errors.base import SqbError
from sqb.spark.session.class_archive import compute_archive_path, is_whole
from sqb.spark.session.conf import build_session_conf
from sqb.spark.session.jars import AWS, PACKAGES, POSTGRES, find_cached_jars
from sqb.spark.session.java import find_java
from sqb.spark.session.train_archive import make_archive
from sqb.workspace import Workspace, open_workspace

MORE = (POSTGRES, AWS)


def prepare() -> None:
    """Start Spark once if its jars are not there yet, and make the archive if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = _project(Path(folder))
        if find_cached_jars(PACKAGES, workspace.connection.spark.conf) is None:
            _start(workspace)
        conf = build_session_conf(workspace.connection, workspace.lake_location, workspace.root, 2)
        target = compute_archive_path(find_java(), conf)
        if target is not None and not is_whole(target):
            make_archive(conf["spark.driver.extraClassPath"], target, print)


def fetch(packages: Sequence[str]) -> None:
    """Start Spark once with more jars, if they are not there yet."""
    if find_cached_jars(packages, {}) is None:
        with tempfile.TemporaryDirectory() as folder:
            conf = f'{{ "spark.jars.packages" = "{",".join(packages)}" }}'
            _start(_project(Path(folder), f"[connections.local]\nspark = {{ conf = {conf} }}\n"))


def _project(root: Path, settings: str = "") -> Workspace:
    (root / "sqlbuild_project.toml").write_text(f'name = "prepare"\n{settings}')
    return open_workspace(root)


def _start(workspace: Workspace) -> None:
    engine = LazyEngine(workspace, workspace.root / "spark.log", print, 2)
    try:
        engine.session()
    finally:
        engine.stop()


if __name__ == "__main__":
    for_image = "--image" in sys.argv
    try:
        prepare()
        if for_image:
            fetch(MORE)
    except SqbError as error:
        print(f"Spark could not be prepared: {error}")
    if for_image and find_cached_jars((*PACKAGES, *MORE), {}) is None:
        sys.exit("the jars are not there")
