"""The class archive: one for each Java and class path, used where it is whole, never against the user's own choice."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from sqb.spark.session.class_archive import (
    VARIABLE,
    WHOLE_MARK,
    add_archive,
    compute_archive_path,
    is_mapped,
    is_whole,
    read_policy,
    remove_archive,
    remove_old_archives,
)
from sqb.spark.session.java import Java, find_java
from sqb.spark.session.java_options import JAVA_OPTIONS


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    for name in (VARIABLE, "CI", "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    jar = tmp_path / "iceberg.jar"
    jar.write_bytes(b"jar")
    return {"spark.master": "local[2]", "spark.driver.extraClassPath": str(jar), JAVA_OPTIONS: "-XX:+UseParallelGC"}


JAVA = Java(Path("/opt/java/bin/java"), 17)


def made(conf: dict[str, str]) -> Path:
    path = compute_archive_path(JAVA, conf)
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes" + WHOLE_MARK)
    return path


def test_without_an_archive_nothing_is_added(conf: dict[str, str]) -> None:
    assert add_archive(JAVA, conf) == conf


def test_an_archive_is_used_beside_the_other_options(conf: dict[str, str]) -> None:
    path = made(conf)
    ours = f'"-XX:SharedArchiveFile={path}" -Xshare:auto -XX:+VerifySharedSpaces'
    assert add_archive(JAVA, conf)[JAVA_OPTIONS] == f"{ours} -XX:+UseParallelGC"


@pytest.mark.parametrize(
    "option", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa", "-XX:ArchiveClassesAtExit=mine.jsa"]
)
def test_the_users_own_archive_is_left_alone(conf: dict[str, str], option: str) -> None:
    made(conf)
    own = {**conf, JAVA_OPTIONS: f"-Dx=y {option}"}
    assert add_archive(JAVA, own) == own


def test_one_that_was_used_is_not_old(conf: dict[str, str]) -> None:
    path = made(conf)
    os.utime(path, (0, 0))
    add_archive(JAVA, conf)
    assert path.stat().st_mtime > time.time() - 3600


@pytest.mark.parametrize(
    "content", [b"", b"classes", b"classes" + WHOLE_MARK[:-1], (b"classes" + WHOLE_MARK) * 2 + b"x"]
)
def test_one_that_was_cut_off_is_done_without(conf: dict[str, str], content: bytes) -> None:
    made(conf).write_bytes(content)
    assert add_archive(JAVA, conf) == conf


def test_one_that_cannot_be_read_is_done_without(conf: dict[str, str]) -> None:
    path = made(conf)
    path.unlink()
    path.mkdir()
    assert add_archive(JAVA, conf) == conf


@pytest.mark.parametrize(
    ("value", "ci", "policy"),
    [
        ("", "", "auto"),
        ("", "true", "use"),
        ("auto", "true", "auto"),
        ("use", "", "use"),
        ("off", "", "off"),
        ("OFF", "true", "off"),
        ("0", "", "off"),
    ],
)
def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, value: str, ci: str, policy: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    monkeypatch.setenv("CI", ci)
    assert read_policy() == policy


def test_switched_off_an_archive_is_not_used(conf: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    made(conf)
    monkeypatch.setenv(VARIABLE, "off")
    assert add_archive(JAVA, conf) == conf


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
    elsewhere = SimpleNamespace(locate_file=tmp_path.joinpath)
    monkeypatch.setattr(metadata, "distribution", lambda _: elsewhere)
    assert compute_archive_path(JAVA, conf) != before


def test_a_spark_whose_jars_are_others_needs_another_archive(
    conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "jars" / "spark.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"spark")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    before = compute_archive_path(JAVA, conf)
    jar.write_bytes(b"spark again")
    assert compute_archive_path(JAVA, conf) != before


def test_a_java_that_was_upgraded_in_its_place_needs_another_archive(conf: dict[str, str], tmp_path: Path) -> None:
    java = Java(tmp_path / "java" / "bin" / "java", 17)
    release = tmp_path / "java" / "release"
    release.parent.mkdir()
    release.write_text('JAVA_VERSION="17.0.15"')
    before = compute_archive_path(java, conf)
    release.write_text('JAVA_VERSION="17.0.16.1"')
    assert compute_archive_path(java, conf) != before


def test_folders_on_the_class_path_have_none(
    conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Java archives classes of jars alone, and would refuse all of them.
    settings = tmp_path / "hadoop"
    settings.mkdir()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(settings))
    assert compute_archive_path(JAVA, conf) is not None
    (settings / "core-site.xml").touch()
    assert compute_archive_path(JAVA, conf) is None


def test_a_cluster_and_fetched_jars_have_none(conf: dict[str, str]) -> None:
    assert compute_archive_path(JAVA, {**conf, "spark.master": "spark://host:7077"}) is None
    assert compute_archive_path(JAVA, {"spark.master": "local[2]"}) is None


def test_a_damaged_archive_is_forgotten(conf: dict[str, str]) -> None:
    path = made(conf)
    remove_archive(JAVA, conf)
    assert not path.exists()
    remove_archive(JAVA, conf)


def test_old_archives_are_removed_and_the_newest_stay(tmp_path: Path) -> None:
    def put(name: str, days: float) -> Path:
        path = tmp_path / name
        path.touch()
        os.utime(path, (time.time() - days * 86400,) * 2)
        return path

    new = put("spark-new.jsa", 0)
    recent = [put(f"spark-{number}.jsa", 1 + number) for number in range(5)]
    too_many, unused = put("spark-many.jsa", 20), put("spark-unused.jsa", 31)
    half_written, being_written = put("spark-a.1.part", 1), put("spark-b.2.part", 0)
    other = put("something else", 400)
    remove_old_archives(tmp_path, new)
    assert set(tmp_path.iterdir()) == {new, *recent, being_written, other}
    assert not any(path.exists() for path in (too_many, unused, half_written))


@pytest.fixture(scope="module")
def real_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small one, of the Java of this machine."""
    path = tmp_path_factory.mktemp("archive") / "real.jsa"
    java = str(find_java().path)
    subprocess.run([java, f"-XX:ArchiveClassesAtExit={path}", "-version"], check=True, capture_output=True)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + WHOLE_MARK)
    return path


def run_java(archive: Path, *more: str) -> tuple[int, str]:
    """Java with the options that an archive is used with; whether it runs, and what a user could see."""
    options = (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-XX:+VerifySharedSpaces", *more)
    # What it says of itself goes to standard output, which is Spark's log.
    done = subprocess.run([str(find_java().path), *options, "-version"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_java_takes_an_archive_with_our_mark_at_its_end(real_archive: Path) -> None:
    assert is_whole(real_archive)
    assert run_java(real_archive, "-Xlog:cds=warning") == (0, "")
    assert run_java(real_archive, "-Xshare:on")[0] == 0


def _damage(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(4096) + content[middle + 4096 :]


@pytest.mark.parametrize(
    "spoil",
    [_damage, lambda content: b"another file" + WHOLE_MARK, lambda content: content[:64] + b"\0" * 64 + content[128:]],
)
def test_java_does_without_an_archive_that_is_damaged_or_foreign(
    real_archive: Path, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    spoiled = tmp_path / "spoiled.jsa"
    spoiled.write_bytes(spoil(real_archive.read_bytes()))
    assert is_whole(spoiled)
    assert run_java(spoiled)[0] == 0


@pytest.mark.parametrize("option", ["-XX:+UseZGC", "-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:-UseCompressedOops"])
def test_another_collector_does_no_harm(real_archive: Path, option: str) -> None:
    assert run_java(real_archive, option)[0] == 0


def test_whether_a_process_has_an_archive_is_seen(tmp_path: Path) -> None:
    assert not is_mapped(tmp_path / "spark.jsa", os.getpid())
    file = tmp_path / "mapped.jsa"
    file.write_bytes(b"classes")
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ):
        assert is_mapped(file, os.getpid())
    assert is_mapped(tmp_path / "spark.jsa", -1), "where nothing is known"
