"""Starting a Spark of one's own: what is loaded for it, and what becomes of its class archive."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqb.errors.spark import SparkDidNotStart
from sqb.spark.session import local
from sqb.spark.session.class_archive import VARIABLE, WHOLE_MARK, compute_archive_path
from sqb.spark.session.java import Java
from sqb.spark.session.java_options import JAVA_OPTIONS

JAVA = Java(Path("/opt/java/bin/java"), 17)
CRASH = "Spark did not start: # A fatal error has been detected by the Java Runtime Environment"


def test_nothing_is_loaded_that_only_spark_connect_needs() -> None:
    code = "import sys, sqb.spark.session.local; print(sorted({'grpc', 'pandas', 'google'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


class Engine:
    """A Spark that was started, and ends with a code."""

    pid = 0

    def __init__(self, exit_code: int = 0) -> None:
        self.exit_code = exit_code
        self.after: Callable[[], object] = lambda: None

    def call_after_stop(self, call: Callable[[], object]) -> None:
        self.after = call


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, "auto")
    jar = tmp_path / "iceberg.jar"
    jar.write_bytes(b"jar")
    return {"spark.master": "local[2]", "spark.driver.extraClassPath": str(jar), JAVA_OPTIONS: ""}


@pytest.fixture
def archive(conf: dict[str, str]) -> Path:
    path = compute_archive_path(JAVA, conf)
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_bytes(WHOLE_MARK)
    return path


@pytest.fixture
def start(
    conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Any, list[str], list[str]]]:
    """Start a Spark that does what a test says; the engine, the options of each start, and what was asked for after."""

    def begin(
        engine: Engine, fails_with_archive: str = "", mapped: bool = True, is_plain: bool = True
    ) -> tuple[Any, list[str], list[str]]:
        starts: list[str] = []
        requests: list[str] = []

        def launch(conf: dict[str, str], *_: Any) -> Engine:
            starts.append(conf[JAVA_OPTIONS])
            if fails_with_archive and "SharedArchiveFile" in conf[JAVA_OPTIONS]:
                raise SparkDidNotStart(fails_with_archive)
            return engine

        monkeypatch.setattr(local, "_start", launch)
        monkeypatch.setattr(local, "request_archive", lambda *_: requests.append("made"))
        monkeypatch.setattr(local, "is_mapped", lambda *_: mapped)
        made = local._start_with_archive(JAVA, conf, frozenset(), tmp_path, tmp_path / "log", is_plain)
        return made, starts, requests

    return begin


def test_without_an_archive_one_is_made_when_spark_has_ended(start: Callable[..., Any]) -> None:
    engine, starts, requests = start(Engine())
    assert starts == [""] and not requests
    engine.after()
    assert requests == ["made"]


def test_with_an_archive_none_is_made(archive: Path, start: Callable[..., Any]) -> None:
    engine, starts, requests = start(Engine())
    engine.after()
    assert len(starts) == 1 and str(archive) in starts[0] and not requests and archive.exists()


def test_an_archive_that_lets_java_crash_is_removed_and_spark_starts(archive: Path, start: Callable[..., Any]) -> None:
    _, starts, _ = start(Engine(), fails_with_archive=CRASH)
    assert [str(archive) in options for options in starts] == [True, False]
    assert not archive.exists()


def test_another_failure_is_not_the_archives(archive: Path, start: Callable[..., Any]) -> None:
    with pytest.raises(SparkDidNotStart, match="Multiple garbage collectors"):
        start(Engine(), fails_with_archive="Multiple garbage collectors selected")
    assert archive.exists()


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS])
def test_an_archive_whose_java_crashed_later_is_removed(archive: Path, start: Callable[..., Any], number: int) -> None:
    engine, _, _ = start(Engine(exit_code=-number))
    engine.after()
    assert not archive.exists()


def test_an_archive_that_java_refuses_is_made_anew(archive: Path, start: Callable[..., Any]) -> None:
    start(Engine(), mapped=False, is_plain=False)
    assert archive.exists(), "the user's own options may be the reason"
    start(Engine(), mapped=False)
    assert not archive.exists()
