"""Tables from before there were environments, taken into the baseline; seeds need no Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqb.cli.main import run

Sqb = Callable[..., tuple[int, str, str]]
DIRECT = 'name = "shop"\ndefault_target = "dev"\n[targets.dev]\nschema = "dev"\n'
VIRTUAL = DIRECT + '[virtual]\nenabled = true\nunsuffixed_virtual_env = "dev"\n'


@pytest.fixture
def sqb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sqb:
    """Runs commands in a project of two seeds that was built without environments, and has them now."""
    (tmp_path / "seeds").mkdir()
    for name in ("people", "places"):
        (tmp_path / f"seeds/{name}.csv").write_text("id,name\n1,Ada\n2,Ben\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    project = tmp_path / "sqlbuild_project.toml"
    project.write_text(DIRECT)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    assert call("build")[0] == 0
    project.write_text(VIRTUAL)
    return call


def test_what_stands_in_the_way_is_told_before_anything_runs(sqb: Sqb) -> None:
    for command in ("plan", "build"):
        code, _, err = sqb(command)
        assert code == 1 and "error[SQB-V013]: 2 relations that the virtual environment dev has not made" in err
        assert "dev.people is a table" in err and "dev.places is a table" in err and "`sqb state adopt`" in err


def test_tables_are_adopted(sqb: Sqb) -> None:
    code, out, _ = sqb("state", "adopt", "--dry-run")
    assert code == 0 and "2 tables would be in dev" in out
    code, _, err = sqb("state", "adopt")
    assert code == 2 and "2 relations leave their names" in err and "--yes confirms it" in err
    code, out, _ = sqb("state", "adopt", "--yes")
    assert code == 0 and "adopted  dev.people → dev__sqb_physical.people__v_" in out
    # Nothing is loaded again: the views are made.
    code, out, err = sqb("plan")
    assert code == 0 and "Views to move: 2" in out and "Nothing to do" in out
    code, out, err = sqb("build")
    assert code == 0 and "Virtual environment dev: finalized, 2 views moved" in out
    assert sqb("state", "adopt", "--yes")[1].startswith("0 tables are in dev")
    assert "Nothing to do" in sqb("build")[1]
    assert sqb("janitor")[0] == 0 and "finalized" in sqb("plan")[1]


def test_a_table_that_somebody_wrote_stays(sqb: Sqb, tmp_path: Path) -> None:
    (tmp_path / "seeds/people.csv").unlink()
    (tmp_path / "models").mkdir()
    (tmp_path / "models/people.sql").write_text("-- @kind: view\nSELECT 1 AS id\n")
    out = sqb("state", "adopt", "--yes")[1]
    assert "kept     dev.people: " in out and "adopted  dev.places" in out
