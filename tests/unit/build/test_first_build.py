"""The first build into a lake: what is made while nodes already run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import sqb.lake.commit.writer  # noqa: F401  the seed must be quicker than the schema is made
from sqb.build.scheduler import Build
from sqb.cli.main import run
from sqb.plan.model import PlannedNode


def test_a_seed_waits_for_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sqlbuild_project.toml").write_text('name = "shop"\n')
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "people.csv").write_text("id\n1\n")
    opened = Build._open_lake

    def late(build: Build, to_run: list[PlannedNode]) -> None:
        time.sleep(0.3)
        opened(build, to_run)

    monkeypatch.setattr(Build, "_open_lake", late)
    assert run(["build", "--project-dir", str(tmp_path)]) == 0, capsys.readouterr().err
