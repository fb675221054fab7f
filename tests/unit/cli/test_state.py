"""`sqb state` as people call it: what it prints, as text and as JSON, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.stores import binding, checkpoint, environment, journal
from sqb.cli.main import run
from sqb.environments.model import Binding, Status
from sqb.environments.state.open import open_store
from sqb.environments.state.store import Store

PROJECT = 'name = "shop"\n[virtual]\nenabled = true\n'
FUNCTION = Binding("net", "function", "sql", "l", "f" * 32)
A, B, B2, C = binding("a", "1" * 32), binding("b", "2" * 32), binding("b", "3" * 32), binding("c", "4" * 32)
B_LATER = replace(B2, snapshot_id=8)
Sqb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sqb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sqb:
    """Runs a command in a project with environments; its exit code and what it printed."""
    (tmp_path / "sqlbuild_project.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["state", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def store(sqb: Sqb, tmp_path: Path) -> Store:
    """Two environments: dev has had three checkpoints and is at the last, pr_1 has none."""
    made = open_store("duckdb:///lake/state.duckdb", "shop/dev", tmp_path)
    for number, bindings in enumerate([[A, B], [A, B2, FUNCTION], [B_LATER, C, FUNCTION]], 1):
        move(made, f"j{number}", bindings, "dev", f"20260301{number}", 180 - number)
    move(made, "p1", [A, B], "pr_1", None, 5, status=Status.ACTIVE, baseline="dev", ttl=14 * 86400.0, created_by="anna")
    return made


def move(store: Store, id: str, bindings: list[Binding], name: str, at: str | None, ago: int, **more: Any) -> None:
    then = datetime.now(UTC) - timedelta(minutes=ago, seconds=1)
    remaining = replace(checkpoint(at, bindings, name), created_at=then) if at else None
    about = replace(
        environment(name, **more), created_at=then, updated_at=then, checkpoint=at or "", run_id=f"run_{id}"
    )
    with store.lock(name, "tester") as token:
        made = replace(journal(id, bindings, name), environment=about, moves=(), checkpoint=remaining)
        store.begin_journal(made, token)
        store.finish_journal(made, {})


def document(result: tuple[int, str, str]) -> Any:
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out)


# --- the database -----------------------------------------------------------------------------------------------------


def test_setting_up(sqb: Sqb, tmp_path: Path) -> None:
    assert sqb("init") == (0, "lake/state.duckdb is set up (version 3)\n", "")
    assert sqb("init") == (0, "lake/state.duckdb was set up already (version 3)\n", "")
    assert sqb("migrate") == (0, "lake/state.duckdb is at version 3 already\n", "")
    assert document(sqb("init", "--json")) == {"target": "dev", "made": False, "version": 3}
    assert document(sqb("migrate", "--json")) == {"target": "dev", "migrated": False, "before": 3, "version": 3}


def test_what_was_never_set_up_is_not_migrated(sqb: Sqb) -> None:
    code, _, err = sqb("migrate")
    assert code == 1 and err.startswith("error[SQB-V009]: lake/state.duckdb has not been set up")
    assert "hint: run `sqb state init` once" in err


@pytest.mark.parametrize("command", [["show"], ["init"], ["migrate"], ["checkpoints"], ["detach", "dev"]])
def test_projects_without_environments_have_no_state(command: list[str], sqb: Sqb, tmp_path: Path) -> None:
    (tmp_path / "sqlbuild_project.toml").write_text('name = "shop"\n')
    code, _, err = sqb(*command)
    assert code == 2 and err.startswith("error[SQB-V002]: this project has no virtual environments")
    assert not (tmp_path / "lake").exists()


def test_a_server_that_is_not_there(sqb: Sqb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQB_STATE", "postgresql://anna:s3cr3t@127.0.0.1:1/shop")
    code, out, err = sqb("show", "--debug")
    assert code == 1 and "error[SQB-V008]: the state in PostgreSQL at 127.0.0.1:1, database shop cannot be" in err
    assert "s3cr3t" not in out + err
    monkeypatch.setenv("SQB_STATE", "postgres//anna:s3cr3t@h")
    code, out, err = sqb("show", "--debug")
    assert code == 2 and "the address of the state is not duckdb:///path or" in err and "s3cr3t" not in out + err


def test_another_state_than_the_one_of_the_lake(
    sqb: Sqb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sqb("pair") == (0, "this lake and lake/state.duckdb belong together from now on\n", "")
    assert sqb("pair") == (0, "this lake and lake/state.duckdb belong together already\n", "")
    expected = document(sqb("show", "--json"))["state"]
    assert expected["match"] == "paired"
    monkeypatch.setenv("SQB_STATE", "duckdb:///other.duckdb")
    code, out, err = sqb("show", "--json")
    state = json.loads(out)["state"]
    says = (
        "the environments in this lake are kept in another state: found the state "
        f"{state['id'][:8]} in other.duckdb, expected the state {expected['id'][:8]} in lake/state.duckdb"
    )
    assert code == 0 and state["match"] == "foreign" and state["expected"]["id"] == expected["id"]
    assert says in err and says in sqb("checkpoints")[2]
    for command in (["plan"], ["build"], ["promote", "--from", "pr", "--to", "dev"], ["rollback"], ["history"]):
        assert run(command) == 1
        assert f"error[SQB-V015]: {says}" in capsys.readouterr().err
    assert run(["janitor"]) == 0
    assert f"virtual environments: {says}; nothing of them was touched" in capsys.readouterr().out
    code, _, err = sqb("pair")
    assert code == 2 and says in err and "hint: --yes confirms it" in err
    assert sqb("pair", "--yes")[0] == 0 and document(sqb("show", "--json"))["state"]["match"] == "paired"


# --- environments -----------------------------------------------------------------------------------------------------


def test_without_environments_there_is_a_hint(sqb: Sqb) -> None:
    assert sqb("show") == (0, "No virtual environments yet: a build makes the first.\n", "")


def test_the_list_of_environments(sqb: Sqb, store: Store) -> None:
    with store.lock("dev", "ben@laptop"):
        _, out, _ = sqb("show")
    # The last column is as wide as the time in it: "1 second" is shorter than "0 seconds".
    held = re.search(r"ben@laptop, for \d+ seconds?", out)
    assert held is not None
    assert re.sub(r"for \d+ seconds?", "for …", out).splitlines() == [
        "environment  status     nodes  baseline  last build     checkpoint  locked by",
        f"-----------  ---------  -----  --------  -------------  ----------  {'-' * len(held[0])}",
        "dev          finalized  3                2 hours ago    3           ben@laptop, for …",
        "pr_1         active     2      dev       5 minutes ago",
    ]


def test_the_list_as_a_document(sqb: Sqb, store: Store) -> None:
    with store.lock("pr_1", "ben") as token:
        store.begin_journal(journal("p2", [A], "pr_1"), token)
        data = document(sqb("show", "--json"))
    assert data["state"] == {
        "name": "lake/state.duckdb",
        "version": 3,
        "id": store.read_state_id(),
        "match": "unpaired",
        "expected": None,
        "why": None,
    }
    dev, pr = data["environments"]
    assert (dev["name"], dev["status"], dev["nodes"], dev["lock"]) == ("dev", "finalized", 3, None)
    assert dev["checkpoint"] == {"id": "202603013", "number": 3} and not dev["unfinished"]
    assert (pr["baseline"], pr["created_by"], pr["ttl"], pr["checkpoint"]) == ("dev", "anna", 14 * 86400.0, None)
    assert pr["lock"]["owner"] == "ben" and pr["unfinished"]
    assert "active (unfinished)" in sqb("show")[1]


def test_one_environment_with_what_it_shows(sqb: Sqb, store: Store) -> None:
    _, out, _ = sqb("show", "--virtual-env", "dev")
    assert out.splitlines() == [
        "dev: finalized",
        "  made        2 hours ago",
        "  last build  2 hours ago (run_j3)",
        "  checkpoint  checkpoint 3 (build, 2 hours ago)",
        "  missing     the views of b, c; the next build puts them back",
        "",
        "node  version   physical relation                                        snapshot",
        "----  --------  -------------------------------------------------------  --------",
        f"b     33333333  dev__sqb_physical.b__v_{'3' * 32}  8",
        f"c     44444444  dev__sqb_physical.c__v_{'4' * 32}  7",
        "",
        "function  version",
        "--------  --------",
        "net       ffffffff",
    ]
    data = document(sqb("show", "--virtual-env", "dev", "--json"))
    assert data["environment"]["views_missing"] == ["b", "c"]
    assert data["environment"]["name"] == "dev" and [n["name"] for n in data["nodes"]] == ["b", "c", "net"]
    assert data["nodes"][0] == {
        "name": "b",
        "type": "model",
        "kind": "table",
        "version": "3" * 32,
        "relation": f"dev__sqb_physical.b__v_{'3' * 32}",
        "snapshot_id": 8,
        "base": "v0",
    }
    assert "  lives for   14 days after its last build\n" in sqb("show", "--virtual-env", "pr_1")[1]


@pytest.mark.parametrize("command", [("show", "--virtual-env"), ("detach",), ("reattach",), ("remove",)])
def test_an_environment_that_is_not_there(command: tuple[str, ...], sqb: Sqb, store: Store) -> None:
    code, _, err = sqb(*command, "pr1")
    assert code == 2 and err.startswith('error[SQB-V003]: there is no virtual environment "pr1"')
    assert "hint: did you mean 'pr_1'?" in err
    assert "hint: there are dev, pr_1" in sqb(*command, "something")[2]


def test_detaching_and_attaching_again(sqb: Sqb, store: Store) -> None:
    assert sqb("detach", "pr_1") == (0, "pr_1 is detached; it was active\n", "")
    assert sqb("detach", "pr_1") == (0, "pr_1 was detached already\n", "")
    remaining = store.read_environments()["pr_1"]
    assert (
        remaining.status is Status.DETACHED and remaining.was == "active" and set(store.read_refs("pr_1")) == {"a", "b"}
    )
    assert sqb("reattach", "pr_1") == (0, "pr_1 is attached again; it is active\n", "")
    assert sqb("reattach", "pr_1") == (0, "pr_1 was not detached; it is active\n", "")
    assert document(sqb("detach", "dev", "--json")) == {
        "target": "dev",
        "environment": "dev",
        "status": "detached",
        "was": "finalized",
    }


def test_detaching_waits_for_nobody(sqb: Sqb, store: Store) -> None:
    with store.lock("dev", "ben@laptop, process 7, sqb build"):
        code, _, err = sqb("detach", "dev")
        assert code == 1 and "error[SQB-V006]: dev is being worked on by ben@laptop, process 7, sqb build, for" in err
        assert "--take-over" in err and store.read_environments()["dev"].status is Status.FINALIZED
        assert sqb("detach", "dev", "--take-over")[0] == 0
    assert store.read_environments()["dev"].status is Status.DETACHED


def test_the_baseline_of_others_goes_only_by_force(sqb: Sqb, store: Store) -> None:
    code, _, err = sqb("remove", "dev", "--yes")
    assert code == 1 and err.startswith("error[SQB-V016]: dev is the baseline of pr_1\n")
    assert "--force removes it all the same" in err
    code, _, err = sqb("remove", "dev", "--force")
    assert code == 2 and "dev is the baseline of pr_1, which forget where they agreed with it. Remove it?" in err
    with store.lock("pr_1", "ben"):
        assert "error[SQB-V006]: pr_1 is being worked on by ben" in sqb("remove", "dev", "--force", "--yes")[2]
    assert store.read_refs("pr_1")["a"].base == "v0" and set(store.read_environments()) == {"dev", "pr_1"}
    assert sqb("remove", "dev", "--force", "--yes")[0] == 0
    assert set(store.read_environments()) == {"pr_1"} and {r.base for r in store.read_refs("pr_1").values()} == {""}


def test_taking_an_environment_away(sqb: Sqb, store: Store) -> None:
    says = "pr_1 is gone: 0 views removed; `sqb janitor` removes the tables that nothing needs\n"
    assert sqb("remove", "pr_1") == (0, says, "")
    assert set(store.read_environments()) == {"dev"} and store.read_refs("pr_1") == {}
    code, _, err = sqb("remove", "dev")
    assert code == 2 and "dev is the baseline that new environments begin as" in err and "--yes confirms it" in err
    assert set(store.read_environments()) == {"dev"}
    assert document(sqb("remove", "dev", "--yes", "--json")) == {"target": "dev", "environment": "dev", "views": 0}


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("list",), ("--virtual-env", "dev")])
def test_the_list_of_checkpoints(words: tuple[str, ...], sqb: Sqb, store: Store) -> None:
    assert sqb("checkpoints", *words)[1].splitlines() == [
        "environment  number  checkpoint  made         by     nodes  run",
        "-----------  ------  ----------  -----------  -----  -----  -------------  ------",
        "dev          3       202603013   2 hours ago  build  3      run_202603013  ← here",
        "dev          2       202603012   2 hours ago  build  3      run_202603012",
        "dev          1       202603011   2 hours ago  build  2      run_202603011",
    ]
    entry = document(sqb("checkpoints", *words, "--json"))["checkpoints"]
    assert [(c["number"], c["current"], c["nodes"]) for c in entry] == [(3, True, 3), (2, False, 3), (1, False, 2)]


def test_environments_without_checkpoints(sqb: Sqb, store: Store) -> None:
    assert sqb("checkpoints", "--virtual-env", "pr_1")[1].startswith("No checkpoints yet")
    assert sqb("checkpoints", "--virtual-env", "nothing")[0] == 2


@pytest.mark.parametrize("wanted", ["1", "202603011", "--virtual-env dev 1"])
def test_one_checkpoint(wanted: str, sqb: Sqb, store: Store) -> None:
    code, out, _ = sqb("checkpoints", "show", *wanted.split())
    assert code == 0 and out.splitlines()[:5] == [
        "checkpoint 1 (build, 2 hours ago) of dev: 202603011",
        "  run         run_202603011",
        "  git         abc",
        "",
        "node  version   physical relation                                        snapshot",
    ]
    data = document(sqb("checkpoints", "show", *wanted.split(), "--json"))
    assert data["checkpoint"]["number"] == 1 and [n["name"] for n in data["nodes"]] == ["a", "b"]


def test_what_differs_between_two_checkpoints(sqb: Sqb, store: Store) -> None:
    code, out, _ = sqb("checkpoints", "diff", "2", "202603013")
    assert code == 0 and out.splitlines() == [
        "checkpoint 2 (build, 2 hours ago) of dev → checkpoint 3 (build, 2 hours ago) of dev",
        "",
        "node  change      before         after",
        "----  ----------  -------------  -------------",
        "a     removed     11111111 at 7  —",
        "b     other rows  33333333 at 7  33333333 at 8",
        "c     added       —              44444444 at 7",
    ]
    data = document(sqb("checkpoints", "diff", "1", "2", "--json"))
    assert [(n["name"], n["change"]) for n in data["nodes"]] == [("b", "version"), ("net", "added")]
    assert data["before"]["number"] == 1 and data["after"]["number"] == 2
    assert sqb("checkpoints", "diff", "2", "2")[1].endswith("Nothing differs.\n")


def test_a_checkpoint_that_is_not_there(sqb: Sqb, store: Store) -> None:
    for wanted in ("9", "x"):
        code, _, err = sqb("checkpoints", "show", wanted)
        assert code == 2 and f'error[SQB-V012]: dev has no checkpoint "{wanted}"' in err
    code, _, err = sqb("checkpoints", "show", "20260301")
    assert code == 2 and "fits 3 checkpoints of dev" in err
    assert 'pr_1 has no checkpoint "1"' in sqb("checkpoints", "show", "1", "--virtual-env", "pr_1")[2]


@pytest.mark.parametrize("words", [("shwo", "1"), ("show",), ("diff", "1"), ("list", "1")])
def test_other_words_are_refused(words: tuple[str, ...], sqb: Sqb, store: Store) -> None:
    code, _, err = sqb("checkpoints", *words)
    assert code == 2 and f'"{" ".join(words)}" is not a command for checkpoints' in err
    assert "`… diff ID ID`" in err


def test_other_commands_are_refused(sqb: Sqb) -> None:
    code, _, err = sqb("forget", "dev")
    assert code == 2 and 'there is no command "sqb state forget"' in err
