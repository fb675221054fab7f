"""Two builds at once into environments that share tables: one of them does the work, and both show it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sqb.build.failpoints import Announce, Step
from sqb.environments.model import Status
from support.environments import ran, write_project
from support.sandbox import Sandbox, names_by_status

MODELS = {
    "t_table": "SELECT id, n FROM raw.x",
    "t_merge": "-- @kind: merge\n-- @unique_key: id\nSELECT id, n FROM raw.x",
    "t_append": "-- @kind: append\nSELECT id, n FROM raw.x",
    "t_scd2": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, n FROM raw.x",
    "t_view": "-- @kind: view\nSELECT id, n FROM raw.x",
    "below": "SELECT count(*) AS c FROM t_table",
}
NEWER = "another build has made it from newer versions"


def other_build_at(sandbox: Sandbox, wanted: Step, before: str = "") -> Announce:
    """Somebody who builds into another environment at the first of a step, perhaps with another source."""
    there = threading.Lock()
    done: list[str] = []

    def announce(step: Step, node: str) -> None:
        if step == wanted:
            with there:
                if not done:
                    done.append(node)
                    if before:
                        sandbox.sql(before)
                    assert ran(sandbox, "pr")

    return announce


def once_at(wanted: Step, node: str, act: Callable[[], None]) -> Announce:
    """Somebody who does something once, when a node comes to a step."""
    there = threading.Lock()
    done: list[str] = []

    def announce(step: Step, name: str) -> None:
        if step == wanted and name == node:
            with there:
                if not done:
                    done.append(name)
                    act()

    return announce


def edit_all(sandbox: Sandbox) -> None:
    for name, text in MODELS.items():
        edited = text.replace("SELECT id, n ", "SELECT id, n + 1 AS n ").replace("count(*)", "1 + count(*)")
        sandbox.write(f"models/{name}.sql", edited)


def without_times(shown: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {n: [(*r[:2], *r[4:]) for r in rows] if n == "t_scd2" else rows for n, rows in shown.items()}


@pytest.mark.parametrize("step", ["version begun", "before publish"])
def test_the_slower_one_takes_over_what_the_faster_one_has_made(sandbox: Sandbox, step: Step) -> None:
    write_project(sandbox, MODELS)
    first: Step = "planned" if step == "version begun" else step
    result = sandbox.build(announce=other_build_at(sandbox, first), concurrency=1)
    assert result.ok and {n.detail for n in result.nodes} == {"another build has made it meanwhile"}
    assert sandbox.shown("dev") == sandbox.shown("pr")
    # New versions of all of them, which both of them begin as clones of the same.
    edit_all(sandbox)
    result = sandbox.build(announce=other_build_at(sandbox, step), concurrency=1)
    assert result.ok and names_by_status(result).keys() == {"skipped"}
    assert sandbox.shown("dev") == sandbox.shown("pr")
    assert len({str(r.binding.relation) for e in ("dev", "pr") for r in sandbox.store().read_refs(e).values()}) == 6
    # The data of shared tables.
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")
    if step != "version begun":
        result = sandbox.build(announce=other_build_at(sandbox, step), concurrency=1)
        assert result.ok and names_by_status(result).keys() == {"skipped"}
        assert sandbox.shown("dev") == sandbox.shown("pr")
        assert (5, 6) in sandbox.shown("dev")["t_append"]


def test_nothing_goes_back_to_an_earlier_version_of_a_source(sandbox: Sandbox) -> None:
    write_project(sandbox, MODELS)
    ran(sandbox)
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")
    # The other build comes later and reads more, and is ready sooner.
    faster = other_build_at(sandbox, "before publish", "INSERT INTO raw.x VALUES (6, 6, 6)")
    result = sandbox.build(announce=faster, concurrency=1)
    assert result.ok and names_by_status(result).keys() == {"skipped"}
    messages = {n.name.rpartition(".")[2]: n.detail for n in result.nodes}
    assert {messages[f"t_{kind}"] for kind in ("append", "merge", "scd2", "table")} == {NEWER}, messages
    assert sandbox.settled is not None and sandbox.settled.status is Status.FINALIZED
    assert without_times(sandbox.shown("dev")) == without_times(sandbox.shown("pr"))
    assert [r for r in sandbox.shown("dev")["t_append"] if r[0] > 4] == [(5, 5), (6, 6)]
    assert ran(sandbox) == ran(sandbox, "pr") == []


def test_what_is_below_an_overtaken_table_is_built_at_the_newer_versions(sandbox: Sandbox) -> None:
    """Also where what is below has no table yet, and begins as the version before it."""
    write_project(sandbox, MODELS)
    ran(sandbox)
    sandbox.write("models/below.sql", "SELECT count(*) AS c, max(n) AS most FROM t_table")
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")

    def overtake() -> None:
        sandbox.sql("INSERT INTO raw.x VALUES (6, 6, 66)")
        assert ran(sandbox, "pr", select=["t_table"]) == ["t_table"]

    result = sandbox.build(announce=once_at("before publish", "default.t_table", overtake))
    assert result.ok, [str(n.error) for n in result.nodes]
    messages = {n.name.rpartition(".")[2]: (n.status, n.detail) for n in result.nodes}
    assert messages["t_table"] == ("skipped", NEWER) and messages["below"][0] == "ok", messages
    shown = sandbox.shown("dev")
    assert shown["below"] == [(6, 66)] and [r[0] for r in shown["t_table"]] == [1, 2, 3, 4, 5, 6]
    ran(sandbox)
    assert {n: [r[0] for r in sandbox.shown("dev")[n]] for n in ("t_append", "t_merge", "t_scd2")} == {
        n: [1, 2, 3, 4, 5, 6] for n in ("t_append", "t_merge", "t_scd2")
    }


def test_an_environment_does_not_show_what_is_overtaken_again_and_again(sandbox: Sandbox) -> None:
    write_project(sandbox, {"t_table": MODELS["t_table"], "below": MODELS["below"]})
    ran(sandbox)
    ran(sandbox, "pr")
    before = sandbox.shown("dev")
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")
    ids = iter(range(6, 100))

    def always(step: Step, node: str) -> None:
        if step == "before publish" and node == "default.t_table":
            number = next(ids)
            sandbox.sql(f"INSERT INTO raw.x VALUES ({number}, {number}, {number})")
            ran(sandbox, "pr", select=["t_table"])
            # For the next round there is something to do again.
            sandbox.sql(f"INSERT INTO raw.x VALUES (0, {number}, {number})")

    result = sandbox.build(announce=always)
    assert names_by_status(result) == {"failed": ["default.t_table"], "blocked": ["default.below"]}
    (error,) = [n.error for n in result.nodes if n.error is not None]
    assert error.code == "SQB-L007" and "other builds" in error.message
    assert sandbox.shown("dev") == before
    assert sandbox.store().read_environments()["dev"].status is Status.ACTIVE
    assert ran(sandbox) == ["below", "t_table"] and sandbox.shown("dev")["below"] == [(len(sandbox.rows("raw.x")),)]


def test_the_same_version_begun_from_two_others_is_no_conflict(sandbox: Sandbox) -> None:
    """One environment comes to a version from the first, the other from the second: whoever begins it, both show it."""
    write_project(sandbox, {"log": "-- @kind: append\nSELECT id, n FROM raw.x"})
    ran(sandbox)
    sandbox.edit("models/log.sql", "id, n", "id, n + 1 AS n")
    assert ran(sandbox, "pr") == ["log"]
    sandbox.edit("models/log.sql", "n + 1", "n + 2")
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")
    has_begun, may_go = threading.Event(), threading.Event()

    def theirs(step: Step, node: str) -> None:
        if step == "version begun":
            has_begun.set()
            assert may_go.wait(60)

    first = threading.Thread(target=lambda: ran(sandbox, "pr", announce=theirs))

    def mine(step: Step, node: str) -> None:
        if step == "planned":
            first.start()
            assert has_begun.wait(60)
        if step == "published":
            may_go.set()

    result = sandbox.build(announce=mine)
    may_go.set()
    first.join(60)
    assert result.ok, [str(n.error) for n in result.nodes]
    assert sandbox.shown("dev") == sandbox.shown("pr")
    assert (5, 7) in sandbox.shown("dev")["log"] and len(sandbox.shown("dev")["log"]) == 5
    assert ran(sandbox) == ran(sandbox, "pr") == []


def test_the_slower_one_goes_on_where_the_faster_one_has_read_less(sandbox: Sandbox) -> None:
    write_project(sandbox, MODELS)
    ran(sandbox)
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")
    has_looked, may_go = threading.Event(), threading.Event()

    def early(step: Step, node: str) -> None:
        if step == "planned":
            has_looked.set()
            assert may_go.wait(60)

    first = threading.Thread(target=lambda: ran(sandbox, "pr", announce=early))
    first.start()
    assert has_looked.wait(60)
    sandbox.sql("INSERT INTO raw.x VALUES (6, 6, 6)")

    def late(step: Step, node: str) -> None:
        if step == "planned":
            may_go.set()
            first.join(60)

    assert ran(sandbox, announce=late) == ["below", "t_append", "t_merge", "t_scd2", "t_table"]
    tables = [n for n in MODELS if n.startswith("t_") and n != "t_view"]
    for environment, ids in (("dev", [5, 6]), ("pr", [5])):
        shown = sandbox.shown(environment)
        assert {n: [r[0] for r in shown[n] if r[0] > 4] for n in tables} == dict.fromkeys(tables, ids)
