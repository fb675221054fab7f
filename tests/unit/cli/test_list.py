"""`sqb list`: names, files, JSON, and selectors."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

import sqb
from sqb.cli.main import run
from unit.folders import write

FILES = {
    "seeds/orders.csv": "id,amount\n1,2\n",
    "models/staging/a.sql": "SELECT id FROM orders\n",
    "models/staging/b.sql": "MODEL (description 'All of them', owner 'ann');\nSELECT id FROM orders\n",
    "models/marts/c.sql": "MODEL (kind view, tags [x]);\nSELECT a.id FROM a JOIN b USING (id)\n",
    "selectors.yml": "selectors:\n  - name: nightly\n    definition: tag:x staging,file:b\n",
}
ALL = ["seeds.orders", "staging.a", "staging.b", "marts.c"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write(tmp_path, FILES))
    monkeypatch.setattr("sys.argv", ["sqb"])
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ALL),
        (["-s", "staging"], ["staging.a", "staging.b"]),
        (["a", "c"], ["staging.a", "marts.c"]),
        (["-s", "+c", "--exclude", "b"], ["seeds.orders", "staging.a", "marts.c"]),
        (["--selector", "nightly"], ["staging.b", "marts.c"]),
        (["--resource-type", "seed"], ["seeds.orders"]),
        (["+c", "--resource-type", "model"], ALL[1:]),
        (["-s", "state:new,marts"], ["marts.c"]),
        (["-s", "result:error"], []),
        (["-s", "a", "--output", "path"], ["models/staging/a.sql"]),
    ],
)
@pytest.mark.parametrize("command", ["list", "ls"])
def test_lines(
    project: Path, capsys: pytest.CaptureFixture[str], command: str, words: list[str], expected: list[str]
) -> None:
    assert run([command, *words]) == 0
    assert capsys.readouterr().out.splitlines() == expected


def test_objects_and_the_document(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ls", "b", "c", "--output", "json", "--output-keys", "name,tags owner"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"name": "staging.b", "tags": [], "owner": "ann"},
        {"name": "marts.c", "tags": ["x"], "owner": None},
    ]
    assert run(["list", "b", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (node,) = document["nodes"]
    assert document["target"] == "dev" and node["description"] == "All of them"
    assert (node["relation"], node["file"], node["upstream"]) == (
        "staging.b",
        "models/staging/b.sql",
        ["seeds.orders"],
    )
    assert sqb.Project(project).list(select="b") == document
    assert [n["name"] for n in sqb.Project(project).list(resource_types="seed")["nodes"]] == ["seeds.orders"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-s", "x"], 'nothing is called "x"'),
        (["-s", "a", "--selector", "nightly"], "--select and --selector are two selections"),
        (["--output-keys", "name"], "--output-keys is for --output json"),
        (["--output", "json", "--output-keys", "nme"], "a node has no \"nme\"\nhint: did you mean 'name'"),
    ],
)
def test_wrong_calls(project: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert run(["list", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_a_command_without_a_traceback(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    # What is not a terminal is written when its buffer is full, or when a command says so.
    stream = os.fdopen(writer, "w", buffering=1)
    monkeypatch.setattr("sys.stdout", stream)
    code = run(["ls"])
    with suppress(BrokenPipeError):
        stream.close()
    assert (code, capsys.readouterr().err) == (1, "")
