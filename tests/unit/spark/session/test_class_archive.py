"""The class archive: one for each Java and class path, used where it is, never against the user's own options."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from sqb.spark.session.class_archive import JAVA_OPTIONS, add_archive, compute_archive_path, remove_archive
from sqb.spark.session.java import Java


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    jar = tmp_path / "iceberg.jar"
    jar.write_bytes(b"jar")
    return {"spark.master": "local[2]", "spark.driver.extraClassPath": str(jar), JAVA_OPTIONS: "-XX:+UseParallelGC"}


JAVA = Java(Path("/opt/java/bin/java"), 17)


def made(conf: dict[str, str]) -> Path:
    path = compute_archive_path(JAVA, conf)
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes")
    return path


def test_without_an_archive_nothing_is_added(conf: dict[str, str]) -> None:
    assert add_archive(JAVA, conf, {}) == conf


def test_an_archive_is_used_beside_the_other_options(conf: dict[str, str]) -> None:
    path = made(conf)
    assert add_archive(JAVA, conf, {})[JAVA_OPTIONS] == f'-XX:+UseParallelGC "-XX:SharedArchiveFile={path}"'


def test_the_users_own_options_are_left_alone(conf: dict[str, str]) -> None:
    made(conf)
    assert add_archive(JAVA, conf, {JAVA_OPTIONS: "-XX:+UseG1GC"}) == conf


def test_another_java_or_another_jar_needs_another_archive(conf: dict[str, str], tmp_path: Path) -> None:
    before = compute_archive_path(JAVA, conf)
    assert compute_archive_path(Java(Path("/opt/java21/bin/java"), 21), conf) != before
    (tmp_path / "iceberg.jar").write_bytes(b"newer jar")
    assert compute_archive_path(JAVA, conf) != before


def test_parts_of_a_second_make_no_other_archive(conf: dict[str, str], tmp_path: Path) -> None:
    # The layers of an image keep times in whole seconds.
    jar = tmp_path / "iceberg.jar"
    os.utime(jar, ns=(0, 1_700_000_000_250_000_000))
    before = compute_archive_path(JAVA, conf)
    os.utime(jar, ns=(0, 1_700_000_000_000_000_000))
    assert compute_archive_path(JAVA, conf) == before
    os.utime(jar, ns=(0, 1_700_000_001_000_000_000))
    assert compute_archive_path(JAVA, conf) != before


def test_spark_at_another_place_needs_another_archive(
    conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compute_archive_path(JAVA, conf)
    elsewhere = SimpleNamespace(version=metadata.version("pyspark"), locate_file=tmp_path.joinpath)
    monkeypatch.setattr(metadata, "distribution", lambda _: elsewhere)
    assert compute_archive_path(JAVA, conf) != before


def test_a_cluster_and_fetched_jars_have_none(conf: dict[str, str]) -> None:
    assert compute_archive_path(JAVA, {**conf, "spark.master": "spark://host:7077"}) is None
    assert compute_archive_path(JAVA, {"spark.master": "local[2]"}) is None


def test_a_damaged_archive_is_forgotten(conf: dict[str, str]) -> None:
    path = made(conf)
    remove_archive(JAVA, conf)
    assert not path.exists()
    remove_archive(JAVA, conf)
