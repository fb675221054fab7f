"""Selectors that ask the lake and the last run; seeds are built without Java."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqb.cli.main import run
from unit.folders import TOML, write


def test_what_is_new_modified_or_came_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"sqlbuild_project.toml": TOML, "seeds/a.csv": "id\n1\n", "seeds/b.csv": "id\n1\n"}
    monkeypatch.chdir(write(tmp_path, files))
    monkeypatch.setattr("sys.argv", ["sqb"])

    def plan(*words: str) -> list[str]:
        assert run(["plan", "--json", "-s", *words]) == 0
        return [node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]]

    assert plan("state:new") == ["seeds.a", "seeds.b"] and plan("result:success") == []
    assert run(["build", "a"]) == 0
    capsys.readouterr()
    assert plan("state:new") == plan("state:modified") == plan("state:unmodified+", "state:new")[1:] == ["seeds.b"]
    assert plan("result:success") == ["seeds.a"] and plan("result:error+") == []
    write(tmp_path, {"seeds/a.csv": "id\n2\n"})
    assert plan("state:modified") == ["seeds.a", "seeds.b"]
    assert plan("state:modified,state:old") == ["seeds.a"] and plan("state:unmodified") == []
    assert run(["plan", "-s", "state:changed"]) == 2
    assert '"changed" is not a value of state:' in capsys.readouterr().err
