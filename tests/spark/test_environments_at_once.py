"""Two builds at once into environments that share tables: one of them does the work, and both show it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sqb.build.steps import Announce, Step
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
    assert len({str(r.binding.relation) for e in ("dev", "pr") for r in sandbox.store().refs(e).values()}) == 6
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
    before = sandbox.shown("dev")
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")
    # The other build comes later and reads more, and is ready sooner.
    faster = other_build_at(sandbox, "before publish", "INSERT INTO raw.x VALUES (6, 6, 6)")
    result = sandbox.build(announce=faster, concurrency=1)
    failed = {n.planned.name: n.error for n in result.nodes if n.error is not None}
    assert sorted(failed) == [f"default.t_{kind}" for kind in ("append", "merge", "scd2", "table")]
    assert {e.code for e in failed.values() if e is not None} == {"SQB-L007"}
    # Tables show what they showed; the view's source is not pinned.
    assert {n: r for n, r in sandbox.shown("dev").items() if n != "t_view"} == {
        n: r for n, r in before.items() if n != "t_view"
    }
    assert ran(sandbox) == []
    assert without_times(sandbox.shown("dev")) == without_times(sandbox.shown("pr"))
    assert [r for r in sandbox.shown("dev")["t_append"] if r[0] > 4] == [(5, 5), (6, 6)]


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
