"""Jars: found in Ivy's folder when they are whole, added to the user's own, fetched otherwise."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from sqb.spark.session.jars import (
    ICEBERG,
    PACKAGES,
    build_jar_conf,
    find_cached_jars,
    is_fetch_failure,
    list_unresolved,
)

NAMES = (
    "{}_{}-{}.jar".format(*ICEBERG.split(":")),
    "org.xerial_sqlite-jdbc-3.50.3.0.jar",
)


def ivy(folder: Path) -> dict[str, str]:
    (folder / "jars").mkdir(parents=True)
    for name in NAMES:
        with zipfile.ZipFile(folder / "jars" / name, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "")
    return ivy_of(folder)


def ivy_of(folder: Path) -> dict[str, str]:
    return {"spark.jars.ivy": str(folder)}


def test_whole_jars_are_found(tmp_path: Path) -> None:
    conf = ivy(tmp_path)
    assert find_cached_jars(PACKAGES, conf) == tuple(tmp_path / "jars" / name for name in NAMES)


def test_the_default_folder_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ivy(tmp_path / ".ivy2.5.2")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cached_jars(PACKAGES, {}) is not None


def test_a_missing_empty_or_cut_off_jar_is_not_cached(tmp_path: Path) -> None:
    conf = ivy(tmp_path)
    jar = tmp_path / "jars" / NAMES[0]
    whole = jar.read_bytes()
    jar.write_bytes(whole[: len(whole) // 2])
    assert find_cached_jars(PACKAGES, conf) is None
    jar.write_bytes(b"")
    assert find_cached_jars(PACKAGES, conf) is None
    jar.unlink()
    assert find_cached_jars(PACKAGES, conf) is None


def test_a_local_master_gets_cached_jars_on_its_class_path(tmp_path: Path) -> None:
    conf = {**ivy(tmp_path), "spark.driver.extraClassPath": "/mine.jar"}
    given = build_jar_conf("local[2]", conf)
    ours = [str(tmp_path / "jars" / name) for name in NAMES]
    assert given.conf == {**ivy_of(tmp_path), "spark.driver.extraClassPath": os.pathsep.join([*ours, "/mine.jar"])}
    assert not given.needs_fetch


def test_a_cluster_gets_cached_jars_sent(tmp_path: Path) -> None:
    conf = {**ivy(tmp_path), "spark.jars": "/mine.jar", "spark.jars.packages": "a:b:1"}
    given = build_jar_conf("spark://host:7077", conf)
    ours = [str(tmp_path / "jars" / name) for name in NAMES]
    assert given.conf == {**ivy_of(tmp_path), "spark.jars": ",".join([*ours, "/mine.jar"])}


def test_jars_that_are_not_cached_are_fetched_beside_the_users(tmp_path: Path) -> None:
    given = build_jar_conf("local[*]", {"spark.jars.ivy": str(tmp_path), "spark.jars.packages": "a:b:1"})
    assert given.conf == {**ivy_of(tmp_path), "spark.jars.packages": ",".join([*PACKAGES, "a:b:1"])}
    assert given.needs_fetch


def test_spark_keeps_jars_where_they_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Java's own idea of the home folder is not HOME.
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build_jar_conf("local[*]", {}).conf["spark.jars.ivy"] == str(tmp_path / ".ivy2.5.2")
    ivy(tmp_path / ".ivy2.5.2")
    jar_conf = build_jar_conf("local[*]", {"spark.jars.packages": "a:b:1"})
    assert (jar_conf.needs_fetch, jar_conf.conf["spark.jars.ivy"]) == (False, str(tmp_path / ".ivy2.5.2"))


def test_a_failure_to_fetch_is_told_from_the_log() -> None:
    log = "Exception in thread main java.lang.RuntimeException: [unresolved dependency: org.x#y_2.13;1.0: not found]"
    assert is_fetch_failure(log)
    assert list_unresolved(log + log) == ("org.x:y_2.13:1.0",)
    assert not is_fetch_failure("Error: Could not create the Java Virtual Machine.")
