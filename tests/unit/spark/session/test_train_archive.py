"""Making the class archive: by one process at a time, whole or not at all, and not after every build that fails to."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.errors.spark import SparkDidNotStart
from sqb.spark.session import request_archive as requests
from sqb.spark.session import train_archive
from sqb.spark.session.class_archive import VARIABLE, WHOLE_MARK, compute_archive_path, is_whole
from sqb.spark.session.java import Java
from sqb.spark.session.java_options import JAVA_OPTIONS
from sqb.spark.session.request_archive import get_lock_path, request_archive
from sqb.spark.session.train_archive import make_archive

JAVA = Java(Path("/opt/java/bin/java"), 17)
Record = Callable[[str, Path, Path], bool]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "sqb" / "spark-0123.jsa"


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[[Record], None]:
    """What a Spark does that writes its classes."""
    return lambda function: monkeypatch.setattr(train_archive, "_record_classes", function)


def write_classes(class_path: str, folder: Path, partial: Path) -> bool:
    partial.write_bytes(b"classes of " + class_path.encode())
    return True


def list_files(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def test_an_archive_is_whole_and_nothing_is_left_beside_it(target: Path, record: Callable[[Record], None]) -> None:
    record(write_classes)
    messages: list[str] = []
    assert make_archive("a.jar", target, messages.append) == target
    assert target.read_bytes() == b"classes of a.jar" + WHOLE_MARK
    assert list_files(target) == [target.name] and len(messages) == 1
    assert make_archive("a.jar", target, messages.append) is None and len(messages) == 1, "there is one already"


def test_one_that_was_cut_off_is_made_anew(target: Path, record: Callable[[Record], None]) -> None:
    record(write_classes)
    target.parent.mkdir(parents=True)
    target.write_bytes(b"cla")
    assert make_archive("a.jar", target, print) == target and is_whole(target)


def test_a_java_that_does_not_come_to_its_end_leaves_nothing(target: Path, record: Callable[[Record], None]) -> None:
    def kill(class_path: str, folder: Path, partial: Path) -> bool:
        write_classes(class_path, folder, partial)
        return False

    record(kill)
    assert make_archive("a.jar", target, print) is None
    assert list_files(target) == [get_lock_path(target).name]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), SparkDidNotStart("no")])
def test_a_full_disk_or_a_spark_that_does_not_start_leaves_nothing(
    target: Path, record: Callable[[Record], None], error: Exception
) -> None:
    def fail(class_path: str, folder: Path, partial: Path) -> bool:
        write_classes(class_path, folder, partial)
        raise error

    record(fail)
    assert make_archive("a.jar", target, print) is None
    assert list_files(target) == [get_lock_path(target).name]


def test_a_disk_that_is_full_at_the_very_end_leaves_nothing(
    target: Path, record: Callable[[Record], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    record(write_classes)
    monkeypatch.setattr(os, "fsync", refuse)
    assert make_archive("a.jar", target, print) is None
    assert list_files(target) == [get_lock_path(target).name]


def test_a_folder_that_cannot_be_made_is_done_without(target: Path, record: Callable[[Record], None]) -> None:
    record(write_classes)
    target.parent.parent.mkdir()
    target.parent.write_text("a file in its place")
    assert make_archive("a.jar", target, print) is None


def test_of_two_at_once_one_makes_it(target: Path, record: Callable[[Record], None]) -> None:
    calls: list[Path | None] = []

    def meet_another(class_path: str, folder: Path, partial: Path) -> bool:
        code = (
            "import sys; from pathlib import Path; from sqb.spark.session import train_archive as t;"
            "t._record_classes = lambda *_: sys.exit('both make it');"
            "sys.exit(t.make_archive('a.jar', Path(sys.argv[1]), print) is not None)"
        )
        assert subprocess.run([sys.executable, "-c", code, str(target)], check=False).returncode == 0
        calls.append(None)
        return write_classes(class_path, folder, partial)

    record(meet_another)
    assert make_archive("a.jar", target, print) == target
    assert len(calls) == 1 and is_whole(target)


# --- asking for one ---------------------------------------------------------------------------------------------------


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, "auto")
    jar = tmp_path / "iceberg.jar"
    jar.write_bytes(b"jar")
    return {"spark.master": "local[2]", "spark.driver.extraClassPath": str(jar), JAVA_OPTIONS: ""}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the processes that would have been started."""
    commands: list[list[str]] = []

    def launch(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace()

    monkeypatch.setattr(requests.subprocess, "Popen", launch)
    return commands


def find_target(conf: dict[str, str]) -> Path:
    path = compute_archive_path(JAVA, conf)
    assert path is not None
    return path


def test_a_missing_archive_is_made_in_the_background(conf: dict[str, str], launched: list[list[str]]) -> None:
    assert request_archive(JAVA, conf)
    assert [command[-2:] for command in launched] == [[conf["spark.driver.extraClassPath"], str(find_target(conf))]]


def test_one_that_is_there_is_not_made(conf: dict[str, str], launched: list[list[str]]) -> None:
    path = find_target(conf)
    path.parent.mkdir(parents=True)
    path.write_bytes(WHOLE_MARK)
    assert not request_archive(JAVA, conf) and not launched


@pytest.mark.parametrize("policy", ["use", "off"])
def test_none_is_made_where_that_is_switched_off(
    conf: dict[str, str], launched: list[list[str]], monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setenv(VARIABLE, policy)
    assert not request_archive(JAVA, conf) and not launched


def test_none_is_made_beside_one_of_the_users(conf: dict[str, str], launched: list[list[str]]) -> None:
    assert not request_archive(JAVA, {**conf, JAVA_OPTIONS: "-Xshare:off"}) and not launched


def test_none_is_made_where_the_disk_is_nearly_full(
    conf: dict[str, str], launched: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**8))
    assert not request_archive(JAVA, conf) and not launched


def test_none_is_made_in_a_folder_that_cannot_be_written(conf: dict[str, str], launched: list[list[str]]) -> None:
    folder = find_target(conf).parent
    folder.parent.mkdir(parents=True)
    folder.write_text("a file in its place")
    assert not request_archive(JAVA, conf) and not launched


def test_what_failed_is_tried_again_a_day_later(conf: dict[str, str], launched: list[list[str]]) -> None:
    lock = get_lock_path(find_target(conf))
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert not request_archive(JAVA, conf) and not launched
    os.utime(lock, (time.time() - 25 * 3600,) * 2)
    assert request_archive(JAVA, conf) and launched


def test_a_system_that_starts_no_process_is_not_an_error(conf: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(requests.subprocess, "Popen", refuse)
    assert not request_archive(JAVA, conf)
