"""What runs while Spark starts: seeds are staged, and nobody sees them before the checks are known to fit."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqb.build import scheduler
from sqb.cli.main import run
from sqb.errors.project import CheckColumnMissing
from sqb.errors.spark import SparkDidNotStart
from sqb.names import At
from unit.folders import write

FILES = {
    **{f"seeds/s{number}.csv": "id\n1\n" for number in range(5)},
    "models/a/m.sql": "-- @constraint: not_null(id)\nSELECT id FROM s0",
}
_SECONDS_TO_STAGE = 120.0


def list_tables(root: Path) -> list[str]:
    """The tables that readers see."""
    with sqlite3.connect(root / "lake" / "catalog.db") as connection:
        rows = connection.execute("SELECT table_namespace, table_name FROM iceberg_tables").fetchall()
    return sorted(f"{schema}.{name}" for schema, name in rows if schema in ("seeds", "a") and "_sqlbuild" not in name)


def wait_for_stages(root: Path, count: int) -> None:
    """Wait until the rows of so many seeds are written."""
    deadline = time.monotonic() + _SECONDS_TO_STAGE
    while len(list((root / "lake" / "data").rglob("*.parquet"))) < count:
        assert time.monotonic() < deadline, "the seeds wait for Spark"
        time.sleep(0.02)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """What starting Spark does."""
    return lambda start: monkeypatch.setattr("sqb.spark.engine.open_engine", lambda **_: start())


def test_all_seeds_are_staged_while_spark_starts(
    tmp_path: Path, spark: Callable[[Callable[[], Any]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, FILES)
    seen: list[list[str]] = []

    def start() -> None:
        # More than the workers that there are: who waits makes room for others.
        wait_for_stages(tmp_path, 5)
        seen.append(list_tables(tmp_path))
        raise SparkDidNotStart("no Spark today")

    spark(start)
    assert run(["build", "--project-dir", str(tmp_path), "--concurrency", "2"]) == 1
    captured = capsys.readouterr()
    assert seen == [[]], "nothing is seen before the checks are known to fit"
    assert "no Spark today" in captured.err
    assert list_tables(tmp_path) == [f"seeds.s{number}" for number in range(5)]
    assert captured.out.count("[OK] seeds.s") == 5 and "[FAIL] a.m" in captured.out


class Session:
    """A Spark that was started, and one of its sessions."""

    def worker_session(self) -> Session:
        return self

    def alive(self) -> bool:
        return True

    def loss(self) -> None:
        return None

    def cancel_all(self) -> None: ...

    def stop(self) -> None: ...


def test_where_a_check_does_not_fit_nothing_has_run(
    tmp_path: Path,
    spark: Callable[[Callable[[], Any]], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path, FILES)

    def refuse(*_: Any) -> None:
        wait_for_stages(tmp_path, 5)
        raise CheckColumnMissing("there is no column idd", at=At("models/a/m.sql", 1, 17))

    spark(Session)
    monkeypatch.setattr(scheduler, "validate_checks", refuse)
    assert run(["build", "--project-dir", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "there is no column idd" in captured.err
    assert "seeds." not in captured.out
    assert list_tables(tmp_path) == []
    assert not list((tmp_path / "lake" / "data").rglob("*.parquet")), "stages are discarded"
