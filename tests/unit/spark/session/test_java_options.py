"""What Java is told about itself: the compiler by the size of the work, and the user's own options last."""

from __future__ import annotations

import pytest

from sqb.spark.session.java_options import (
    JAVA_OPTIONS,
    SMALL_ROWS,
    build_java_options,
    choose_compiler,
    chooses_archive,
    is_plain_java,
)


@pytest.mark.parametrize(
    ("rows", "compiler"), [(0, "quick"), (SMALL_ROWS, "quick"), (SMALL_ROWS + 1, "full"), (None, "full")]
)
def test_small_work_is_compiled_quickly(rows: int | None, compiler: str) -> None:
    assert choose_compiler(rows) == compiler


def test_the_quick_compiler_is_the_first_one_alone() -> None:
    assert "-XX:TieredStopAtLevel=1" in build_java_options("quick", "").split()
    assert "TieredStopAtLevel" not in build_java_options("full", "")


def test_the_users_options_come_last() -> None:
    assert build_java_options("full", "-Dx=y -Xss4m") == f"{build_java_options('full', '')} -Dx=y -Xss4m"


@pytest.mark.parametrize("options", ["-XX:+UseG1GC", "-Dx=y -XX:+UseZGC", '"-XX:+UseSerialGC"'])
def test_there_is_one_collector(options: str) -> None:
    built = build_java_options("full", options)
    assert built.count("GC") == 1 and built.endswith(options)


@pytest.mark.parametrize("options", ["-XX:TieredStopAtLevel=3", "-XX:-TieredCompilation", "-Xint"])
@pytest.mark.parametrize("compiler", ["quick", "full"])
def test_who_chooses_a_compiler_has_it(compiler: str, options: str) -> None:
    assert build_java_options(compiler, options).split()[1:] == [options]  # type: ignore[arg-type]


def test_an_archive_of_the_users_is_seen() -> None:
    assert chooses_archive("-Dx=y -Xshare:off")
    assert chooses_archive('"-XX:SharedArchiveFile=my file.jsa"')
    assert not chooses_archive("-XX:+UseG1GC")


def test_java_is_plain_until_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    assert is_plain_java({"spark.ui.enabled": "true"})
    assert not is_plain_java({JAVA_OPTIONS: "-XX:+UseZGC"})
    assert not is_plain_java({"spark.driver.memory": "40g"})
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseZGC")
    assert not is_plain_java({})
