"""`sqb plan NAME --explain`, without Java: seeds, and models that nobody has built."""

from __future__ import annotations

import pytest

from cli.conftest import Folder, build_all, new_project

MODELS = {"models/m.sql": "-- @constraint: not_null(id)\nSELECT id FROM people", "models/n.sql": "SELECT * FROM m"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return build_all(new_project(tmp_path_factory.mktemp("seeds")))


def test_names_are_selectors(folder: Folder) -> None:
    def names(*arguments: str) -> list[str]:
        return [n["name"] for n in folder.here("plan", "--json", *arguments).document["nodes"]]

    assert names("people") == ["seeds.people"]
    assert names("people", "-s", "places") == ["seeds.people", "seeds.places"]


def test_a_skipped_seed_and_a_changed_one(folder: Folder) -> None:
    done = folder.here("plan", "people", "--explain")
    assert done.code == 0 and done.err == ""
    assert done.lines[:4] == [
        "seeds.people (seed) → seeds.people",
        "seeds/people.csv",
        "",
        "Is skipped: nothing that it is made from has changed",
    ]
    assert [line.split()[0] for line in done.lines if line.endswith("same")] == ["content", "config", "identity"]
    assert any("ok, backfill, 2 rows" in line for line in done.lines)
    with folder.with_files({"seeds/people.csv": "id,name\n1,Ada\n"}):
        changed = folder.here("plan", "--explain", "-s", "people")
    assert "Runs (backfill): Query changed" in changed.lines
    assert [line.split()[-1] for line in changed.lines[7:10]] == ["changed", "same", "changed"]


def test_a_model_that_was_never_built(folder: Folder) -> None:
    with folder.with_files(MODELS):
        done = folder.here("plan", "m", "--explain")
        below = folder.here("plan", "n", "--explain", "--json").document
    text = "\n".join(done.lines)
    assert "Runs (backfill): First run" in text
    assert "class delta: only changed rows flow through" in text
    assert "constraint not_null(id)\n  have not passed on the current rows" in text
    assert "Last run\n  never" in text
    assert "Read by\n  default.n  model, run: First run" in text
    (node,) = below["nodes"]
    assert below["summary"] == {"run": 2, "skip": 2, "blocked": 0}
    assert (node["name"], node["reason"], node["root"], node["changes"]) == ("default.n", "First run", [], [])
    messages = node["explain"]
    assert (
        messages["work"]["class"] == "unknown" and messages["last_run"] is None and messages["file"] == "models/n.sql"
    )
    assert messages["upstream"] == [{"name": "default.m", "type": "model", "action": "run", "reason": "First run"}]
    assert messages["inputs"][0] == {
        "name": "default.m",
        "type": "model",
        "stored": None,
        "now": None,
        "same": False,
        "why": "not there, and it runs before",
        "columns": [],
        "change": None,
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["--explain"], "SQB-C001", "--explain shows one node, and 2 are selected: seeds.people, seeds.places", "name"),
        (["seed:*", "--explain"], "SQB-C001", "--explain shows one node, and 2 are selected", "name one"),
        (["people", "--explain", "-s", "places"], "SQB-C001", "seeds.people is not among the selected", "leave"),
        (["peple", "--explain"], "SQB-C003", 'nothing is called "peple"', "did you mean 'people'"),
        (["--explain", "-s", "people", "--exclude", "people"], "SQB-C001", "--explain shows one node, and none", ""),
    ],
)
def test_wrong_calls(folder: Folder, arguments: list[str], code: str, message: str, hint: str) -> None:
    done = folder.here("plan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[{code}]: {message}") and f"hint: {hint}" in done.err
