"""Tables of models that are gone: shown by plan and janitor, dropped when that is confirmed, and never others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sqb
from sqb.cli.main import run
from unit.build.observe.test_sources import put
from unit.folders import write


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Two of three seeds are gone, and somebody else has put a table beside them."""
    from sqb.lake.open import open_iceberg_lake
    from sqb.workspace import open_workspace

    files = {f"seeds/{name}.csv": "id\n1\n2\n" for name in ("kept", "gone", "renamed")}
    monkeypatch.chdir(write(tmp_path, files))
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(["build"]) == 0
    put(open_iceberg_lake(open_workspace(tmp_path)), "seeds.foreign", 0)
    (tmp_path / "seeds/gone.csv").unlink()
    (tmp_path / "seeds/renamed.csv").rename(tmp_path / "seeds/anew.csv")
    capsys.readouterr()
    return tmp_path


def list_tables(root: Path) -> set[str]:
    from sqb.lake.open import open_lake
    from sqb.workspace import open_workspace

    return {str(r) for r in open_lake(open_workspace(root)).list_pointers() if "_sqlbuild" not in str(r)}


def test_plan_and_janitor_show_them(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan"]) == 0
    text = "there are 2 tables of models that are gone: seeds.gone, seeds.renamed; `sqb drop` removes them"
    assert f"warning: {text}\n" in capsys.readouterr().out
    write(project, {"models/m.sql": "SELECT id FROM kept"})
    assert run(["plan"]) == 0
    assert f"{text}; if a model was renamed, `renamed_from` in its header takes" in capsys.readouterr().out
    assert run(["janitor"]) == 0
    assert "seeds.gone: its model is gone; `sqb drop` removes it" in capsys.readouterr().out
    assert {"seeds.gone", "seeds.renamed", "seeds.foreign"} <= list_tables(project)


def test_they_are_dropped_when_that_is_confirmed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drop"]) == 2
    assert "this needs to be confirmed: drop 2 tables with all rows and snapshots" in capsys.readouterr().err
    assert run(["drop", "--dry-run"]) == 0
    assert "would go  seeds.gone (of seeds.gone: 2 rows, " in capsys.readouterr().out
    assert {"seeds.gone", "seeds.renamed"} <= list_tables(project)
    assert run(["drop", "--yes"]) == 0
    assert [line[:20] for line in capsys.readouterr().out.splitlines()] == [
        "dropped   seeds.gone",
        "dropped   seeds.rena",
    ]
    assert list_tables(project) == {"seeds.kept", "seeds.foreign"}
    assert not list((project / "lake" / "data" / "seeds").glob("gone*/data/*"))
    assert run(["drop", "--yes"]) == 0
    assert capsys.readouterr().out == "Nothing to drop: every table of this target has its model.\n"
    assert run(["build"]) == 0 and run(["plan"]) == 0
    assert "gone" not in capsys.readouterr().out


def test_one_row_is_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"seeds/single.csv": "id\n1\n"})
    assert run(["build"]) == 0
    (project / "seeds/single.csv").unlink()
    assert run(["drop", "single", "--dry-run"]) == 0
    assert "would go  seeds.single (of seeds.single: 1 row, " in capsys.readouterr().out


def test_by_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drop", "gone", "--yes", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert (table["relation"], table["model"], table["rows"], table["kept"]) == ("seeds.gone", "seeds.gone", 2, None)
    assert table["files"] > 0 and list_tables(project) == {"seeds.kept", "seeds.foreign", "seeds.renamed"}
    assert sqb.Project(project).drop("seeds.renamed")["tables"][0]["relation"] == "seeds.renamed"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kept", "seeds.kept is made by seeds/kept.csv"),
        ("seeds.foreign", "seeds.foreign is not a table that sqb made for this target"),
        ("seeds.gon", 'no table of a model that is gone is called "seeds.gon"'),
    ],
)
def test_others_are_refused(project: Path, capsys: pytest.CaptureFixture[str], name: str, message: str) -> None:
    assert run(["drop", name, "--yes"]) == 2
    assert message in capsys.readouterr().err
    assert len(list_tables(project)) == 4


def test_versions_of_environments_are_left_to_the_janitor(tmp_path: Path) -> None:
    toml = 'name = "shop"\n[virtual]\nenabled = true\n'
    root = write(tmp_path, {"sqlbuild_project.toml": toml, "seeds/a.csv": "id\n1\n"})
    with pytest.raises(sqb.errors.CallError, match="virtual environments"):
        sqb.Project(root).drop()


def test_models_that_are_gone_from_one_environment_stay_in_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = 'name = "shop"\n[virtual]\nenabled = true\ngrace = "0s"\nkeep_checkpoints = 1\n'
    files = {f"seeds/{name}.csv": f"id\n{name}\n" for name in ("kept", "gone", "old")}
    monkeypatch.chdir(write(tmp_path, {"sqlbuild_project.toml": toml, **files}))
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(["build"]) == 0 and run(["build", "--virtual-env", "pr"]) == 0
    (tmp_path / "seeds/gone.csv").unlink()
    (tmp_path / "seeds/old.csv").rename(tmp_path / "seeds/new.csv")
    capsys.readouterr()
    assert run(["plan"]) == 0
    out = capsys.readouterr().out
    assert "No longer in the project: seeds.gone, seeds.old" in out and "sqb drop" not in out
    assert run(["build"]) == 0 and run(["janitor"]) == 0
    tables = list_tables(tmp_path)
    # The other environment shows both, and so do its tables stay.
    assert {"seeds__pr.gone", "seeds__pr.old", "seeds__dev.new"} <= tables
    assert not {"seeds__dev.gone", "seeds__dev.old"} & tables
    assert {t.partition("__v_")[0] for t in tables if "physical" in t} == {
        f"seeds__sqb_physical.{name}" for name in ("kept", "gone", "old", "new")
    }
    assert run(["build", "--virtual-env", "pr"]) == 0 and run(["build", "--force", "-s", "kept"]) == 0
    assert run(["janitor"]) == 0
    capsys.readouterr()
    physical = {t.partition("__v_")[0] for t in list_tables(tmp_path) if "physical" in t}
    assert physical == {f"seeds__sqb_physical.{name}" for name in ("kept", "new")}


def test_in_environments_a_rename_of_what_was_never_built_is_a_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that were built are in tests/spark/test_renamed_versions.py."""
    toml = 'name = "shop"\n[virtual]\nenabled = true\n'
    files = {"seeds/a.csv": "id\n1\n", "models/shop/new.sql": "-- @renamed_from: old\nSELECT id FROM a"}
    monkeypatch.chdir(write(tmp_path, {"sqlbuild_project.toml": toml, **files}))
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(["plan"]) == 0
    assert "run      shop.new  (table, backfill)  First run" in capsys.readouterr().out
    assert list_tables(tmp_path) == set()
