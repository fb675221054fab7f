"""Finding Java: by JAVA_HOME alone when it is set, else on PATH, and only versions that Spark runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.errors.spark import NoJava
from sqb.spark.session.java import Java, find_java


def install(folder: Path, version: str | None, spoken: str = "") -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{spoken}' >&2\n")
    binary.chmod(0o755)
    if version:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return binary


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(tmp_path / "home", "21.0.2")
    other = install(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(other.parent))
    assert find_java() == Java(home, 21)


def test_java_on_path_is_found_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = install(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java() == Java(tmp_path / "bin" / "java", 17)


def test_java_without_a_release_file_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, None, 'openjdk version "17.0.9" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java().major == 17


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "22", "25.0.1"])
def test_a_version_that_spark_does_not_run_on_is_named(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava) as raised:
        find_java()
    assert raised.value.message == f"Spark needs Java 17 to 21, but {tmp_path}/bin/java is Java {version}"
    assert "openjdk-17-jre-headless" in (raised.value.hint or "")


def test_a_java_home_that_points_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(NoJava, match=r"JAVA_HOME is .*gone, but there is no"):
        find_java()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoJava, match="no Java was found"):
        find_java()


def test_a_java_that_does_not_say_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, None, "what?")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match="does not say which version"):
        find_java()
