"""Builds into virtual environments on real Spark: what each environment shows, and what is built for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from sqb.build.failpoints import Step
from sqb.environments.adopt import adopt_tables
from sqb.environments.model import Status
from sqb.errors.base import SqbError
from sqb.errors.environments import Detached, StaleUpstreams, ViewTaken
from sqb.operations.environment import list_misplaced_views
from support.environments import PROJECT, file_of, ran, write_project
from support.sandbox import Sandbox, names_by_status, ordered_rows

MODELS = {
    "stg": "SELECT id, day, n FROM raw.x WHERE n > 0",
    "per_day": "SELECT day, sum(n) AS n FROM stg GROUP BY day",
    "log": "-- @kind: append\nSELECT id, n FROM stg",
    "past": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, n FROM stg",
    "top": "-- @kind: view\nSELECT p.day, p.n, l.label FROM per_day p JOIN labels l ON p.day = l.day",
}
SHOWN = {
    "labels": [(1, "mon"), (2, "tue")],
    "log": [(1, 10), (2, 20), (3, 60)],
    "past": [(1, 10, True), (2, 20, True), (3, 60, True)],
    "per_day": [(1, 30), (2, 60)],
    "stg": [(1, 1, 10), (2, 1, 20), (3, 2, 60)],
    "top": [(1, 30, "mon"), (2, 60, "tue")],
}


def write_shop(sandbox: Sandbox) -> None:
    write_project(sandbox, MODELS)
    sandbox.write("seeds/labels.csv", "day,label\n1,mon\n2,tue\n")


def shown(sandbox: Sandbox, environment: str) -> dict[str, list[tuple[Any, ...]]]:
    """What an environment shows, less the times of histories."""
    output = sandbox.shown(environment)
    return {name: [(*r[:2], r[4]) for r in rows] if name == "past" else rows for name, rows in output.items()}


def status(sandbox: Sandbox, environment: str) -> Status:
    return sandbox.store().read_environments()[environment].status


def physical(sandbox: Sandbox, environment: str) -> dict[str, str]:
    refs = sandbox.store().read_refs(environment)
    return {file_of(name): str(ref.binding.relation) for name, ref in refs.items() if ref.binding.relation}


def stop_at(wanted: Step) -> Any:
    """Somebody who ends a build at a step."""

    def announce(step: Step, node: str) -> None:
        if step == wanted:
            raise KeyboardInterrupt

    return announce


def test_the_life_of_two_environments(sandbox: Sandbox) -> None:
    write_shop(sandbox)
    # The environment that is meant where none is named is called like the target.
    assert ran(sandbox) == sorted(SHOWN)
    assert shown(sandbox, "dev") == SHOWN and status(sandbox, "dev") is Status.FINALIZED
    version = {file_of(n.name): n.version_hash[:8] for n in sandbox.entered("dev").project}
    assert physical(sandbox, "dev") == {n: f"dev__sqb_physical.{n}__v_{version[n]}" for n in SHOWN}
    views = [r for r in sandbox.relations() if r.startswith("dev__dev.")]
    assert views == [f"dev__dev.{n}" for n in sorted(SHOWN)]
    before = sandbox.lake().list_pointers()
    assert ran(sandbox) == []
    assert sandbox.settled is not None and sandbox.settled.views == 0
    assert sandbox.lake().list_pointers() == before

    # Another one begins as the baseline, and shares its tables.
    assert ran(sandbox, "pr") == []
    assert shown(sandbox, "pr") == SHOWN and physical(sandbox, "pr") == physical(sandbox, "dev")
    sandbox.write("models/stg.sql", "/* why */ select id, day, n\nFROM raw.x WHERE n > 0 -- positive")
    assert ran(sandbox, "pr") == []

    # What differs gets tables of its own; the log is kept, and so is the history.
    sandbox.write("models/stg.sql", "SELECT id, day, n FROM raw.x WHERE n > 10")
    stale = sandbox.entered("pr").stale
    assert [(s.name, str(s.reason)) for s in stale.values() if s.root] == [("default.stg", "Query changed")]
    assert {str(s.reason) for s in stale.values() if not s.root} == {"Upstream changed"}
    assert ran(sandbox, "pr") == ["log", "past", "per_day", "stg", "top"]
    edited = {
        "labels": SHOWN["labels"],
        "log": SHOWN["log"],
        "past": [(1, 10, False), (2, 20, True), (3, 60, True)],
        "per_day": [(1, 20), (2, 60)],
        "stg": [(2, 1, 20), (3, 2, 60)],
        "top": [(1, 20, "mon"), (2, 60, "tue")],
    }
    assert shown(sandbox, "pr") == edited and shown(sandbox, "dev") == SHOWN
    mine, theirs = physical(sandbox, "pr"), physical(sandbox, "dev")
    assert [n for n in SHOWN if mine[n] == theirs[n]] == ["labels"]

    # Going back to a definition that has a table is no work, and so is to follow the other one.
    assert ran(sandbox, "dev") == [] and shown(sandbox, "dev") == edited
    sandbox.write("models/stg.sql", MODELS["stg"])
    assert ran(sandbox, "dev") == [] and shown(sandbox, "dev") == SHOWN
    assert [c.number for c in sandbox.store().read_checkpoints("dev")] == [3, 2, 1]


def test_parts_of_an_environment(sandbox: Sandbox) -> None:
    models = {
        "a": "SELECT id, n FROM raw.x",
        "b": "SELECT id, n FROM a",
        "c": "SELECT id, n FROM b",
        "other": "SELECT max(n) AS n FROM raw.x",
        "both": "SELECT c.id, c.n + o.n AS n FROM c CROSS JOIN other o",
    }
    write_project(sandbox, models)
    ran(sandbox)
    before = shown(sandbox, "dev")
    sandbox.edit("models/a.sql", "id, n", "id, n + 1 AS n")
    sandbox.edit("models/other.sql", "max(n)", "max(n) + 1")
    # Nothing is built upon versions that are not the project's.
    with pytest.raises(StaleUpstreams) as refused:
        sandbox.build(virtual_env="pr", select=["c"])
    assert refused.value.message == "selected models have stale required upstreams: default.a, default.b"
    assert shown(sandbox, "dev") == before
    plan = sandbox.plan(virtual_env="pr", select=["c"], include_stale_upstreams=True)
    assert [file_of(n.name) for n in plan.nodes] == ["a", "b", "c"]
    assert ran(sandbox, "pr", select=["a"]) == ["a"] and status(sandbox, "pr") is Status.ACTIVE
    assert sandbox.settled is not None
    assert [file_of(n) for n in sandbox.settled.remaining] == ["b", "c", "other", "both"]
    now = shown(sandbox, "pr")
    assert now["a"] == [(1, 11), (2, 21), (3, 61), (4, 0)] and now["b"] == before["b"]
    with pytest.raises(StaleUpstreams, match=r"stale required upstreams: default\.b$"):
        sandbox.build(virtual_env="pr", select=["c"])
    # The minimal closure: what is not stale any more is not built again.
    assert ran(sandbox, "pr", select=["c"], include_stale_upstreams=True) == ["b", "c"]
    assert status(sandbox, "pr") is Status.ACTIVE
    # Of what was selected only what is stale.
    sandbox.sql("INSERT INTO raw.x VALUES (9, 9, 9)")
    plan = sandbox.plan(virtual_env="pr", select=["+both"], changes_only=True)
    assert [file_of(n.name) for n in plan.nodes] == ["other", "both"]
    assert ran(sandbox, "pr", changes_only=True) == ["both", "other"]
    assert status(sandbox, "pr") is Status.FINALIZED
    assert shown(sandbox, "pr")["a"] == now["a"]
    assert ran(sandbox, "pr", changes_only=True) == []
    assert ran(sandbox, "pr") == ["a", "b", "both", "c"]
    assert (9, 10) in shown(sandbox, "pr")["c"] and shown(sandbox, "dev") == before


def test_data_that_moves_under_shared_tables(sandbox: Sandbox) -> None:
    write_shop(sandbox)
    ran(sandbox)
    ran(sandbox, "pr")
    sandbox.sql("INSERT INTO raw.x VALUES (5, 2, 5)")
    sandbox.sql("DELETE FROM raw.x WHERE id = 1")
    assert ran(sandbox, "pr") == ["log", "past", "per_day", "stg"]
    after = {
        "labels": SHOWN["labels"],
        "log": [(1, 10), (2, 20), (3, 60), (5, 5)],
        "past": [(1, 10, False), (2, 20, True), (3, 60, True), (5, 5, True)],
        "per_day": [(1, 20), (2, 65)],
        "stg": [(2, 1, 20), (3, 2, 60), (5, 2, 5)],
        "top": [(1, 20, "mon"), (2, 65, "tue")],
    }
    # The tables are shared, and yet the other one shows what it showed before its own build, views included.
    assert shown(sandbox, "pr") == after and shown(sandbox, "dev") == SHOWN
    assert physical(sandbox, "pr") == physical(sandbox, "dev")
    assert ran(sandbox, "dev") == []
    assert sandbox.settled is not None and sandbox.settled.views == 5
    assert shown(sandbox, "dev") == after

    # Columns that come and go are no less invisible, through tables and through views.
    sandbox.write("models/stg.sql", "SELECT * FROM raw.x")
    sandbox.write("models/seen.sql", "-- @kind: view\nSELECT * FROM raw.x")
    sandbox.write("models/through.sql", "-- @kind: view\nSELECT * FROM stg")
    ran(sandbox, "dev")
    ran(sandbox, "pr")
    before = sandbox.columns("dev__dev.stg"), sandbox.rows("dev__dev.stg"), sandbox.rows("dev__dev.through")
    sandbox.sql("ALTER TABLE raw.x ADD COLUMN extra int AFTER id")
    sandbox.sql("ALTER TABLE raw.x DROP COLUMN day")
    sandbox.write("models/per_day.sql", "SELECT id AS day, n FROM stg")
    assert "stg" in ran(sandbox, "pr")
    for view in ("stg", "seen", "through"):
        assert sandbox.columns(f"dev__pr.{view}") == ["id int", "extra int", "n int"]
        assert (5, None, 5) in sandbox.rows(f"dev__pr.{view}")
    assert (sandbox.columns("dev__dev.stg"), sandbox.rows("dev__dev.stg"), sandbox.rows("dev__dev.through")) == before
    assert ran(sandbox, "dev") == []
    for view in ("stg", "seen", "through"):
        assert sandbox.columns(f"dev__dev.{view}") == ["id int", "extra int", "n int"]
    assert shown(sandbox, "dev") == shown(sandbox, "pr")


def test_nothing_of_a_build_that_failed_is_shown(sandbox: Sandbox) -> None:
    models = {
        "good": "SELECT id, n FROM raw.x",
        "bad": "-- @audit: row_count(<, 5)\nSELECT id, n FROM raw.x",
        "below": "SELECT count(*) AS n FROM bad",
        "over": "-- @kind: view\nSELECT g.id, b.n FROM good g CROSS JOIN below b",
    }
    write_project(sandbox, models)
    assert ran(sandbox) == ["bad", "below", "good", "over"]
    before, refs = shown(sandbox, "dev"), sandbox.store().read_refs("dev")
    sandbox.sql("INSERT INTO raw.x VALUES (5, 3, 5)")
    result = sandbox.build()
    assert names_by_status(result) == {
        "ok": ["default.good"],
        "failed": ["default.bad"],
        "blocked": ["default.below", "default.over"],
    }
    # The table of `good` has moved on, and nobody sees that.
    assert sandbox.settled is not None and sandbox.settled.failed
    assert (5, 5) in sandbox.rows(physical(sandbox, "dev")["good"])
    assert shown(sandbox, "dev") == before and sandbox.store().read_refs("dev") == refs
    assert len(sandbox.store().read_checkpoints("dev")) == 1
    # What fits together still does, but a build of it failed: it is not promoted without being told to.
    assert status(sandbox, "dev") is Status.ACTIVE and sandbox.entered("dev").status is Status.ACTIVE
    # Also not when it fails with a definition of its own, and a new environment shows what it began as.
    sandbox.edit("models/good.sql", "id, n", "id, n * 2 AS n")
    assert not sandbox.build(virtual_env="pr").ok
    assert shown(sandbox, "pr") == before and status(sandbox, "pr") is Status.ACTIVE
    sandbox.sql("DELETE FROM raw.x WHERE id = 1")
    assert ran(sandbox, "pr") == ["bad", "below", "good", "over"]
    now = shown(sandbox, "pr")
    assert now["good"] == [(2, 40), (3, 120), (4, -2), (5, 10)] and now["below"] == [(4,)]
    assert shown(sandbox, "dev") == before and status(sandbox, "pr") is Status.FINALIZED


@pytest.mark.parametrize("step", ["version begun", "published", "before history", "environment begun", "views moved"])
def test_a_build_that_ends_in_the_middle(sandbox: Sandbox, step: Step) -> None:
    models = {"a": "SELECT id, n FROM raw.x", "b": "-- @kind: append\nSELECT id, n FROM a", "gone": "SELECT 1 AS one"}
    write_project(sandbox, models)
    ran(sandbox)
    ran(sandbox, "pr")
    before = shown(sandbox, "dev")
    sandbox.edit("models/a.sql", "id, n", "id, n + 1 AS n")
    sandbox.edit("models/b.sql", "id, n", "id, n, 'new' AS mark")
    sandbox.remove("models/gone.sql")
    with suppress(KeyboardInterrupt):
        assert not sandbox.build(virtual_env="pr", announce=stop_at(step)).ok
    moved = step == "views moved"
    assert (sandbox.rows("dev__pr.a") != before["a"]) is moved
    assert shown(sandbox, "dev") == before
    # Whoever comes next finishes it, or does it again.
    left = step in ("environment begun", "views moved")
    assert ran(sandbox, "pr") == [] if left or step == "before history" else ran(sandbox, "pr")
    now = shown(sandbox, "pr")
    assert now["a"] == [(1, 11), (2, 21), (3, 61), (4, 0)] and sorted(now) == ["a", "b"]
    old, new = [(1, 10), (2, 20), (3, 60), (4, -1)], now["a"]
    assert sorted(now["b"]) == sorted([*((*row, None) for row in old), *((*row, "new") for row in new)], key=str)
    assert status(sandbox, "pr") is Status.FINALIZED and sandbox.store().read_journal("pr") is None
    assert "dev__pr.gone" not in sandbox.relations() and "dev__dev.gone" in sandbox.relations()
    assert shown(sandbox, "dev") == before
    assert ran(sandbox, "pr") == []


def test_views_that_others_change(sandbox: Sandbox) -> None:
    write_project(sandbox, {"a": "SELECT id, n FROM raw.x", "b": "SELECT id FROM a"})
    ran(sandbox)
    expected = shown(sandbox, "dev")
    # Views that were dropped or replaced are made again without any work.
    sandbox.sql("CREATE OR REPLACE VIEW dev__dev.a AS SELECT 7 AS seven")
    assert ran(sandbox) == [] and shown(sandbox, "dev") == expected
    sandbox.sql("DROP VIEW dev__dev.a")
    assert list_misplaced_views(sandbox.entered("dev")) == ["default.a"]
    assert ran(sandbox) == [] and shown(sandbox, "dev") == expected and not list_misplaced_views(sandbox.entered("dev"))
    # One that somebody made anew is theirs.
    sandbox.sql("DROP VIEW dev__dev.a")
    sandbox.sql("CREATE VIEW dev__dev.a AS SELECT 7 AS seven")
    with pytest.raises(ViewTaken, match=r"dev__dev\.a is a view that the virtual environment dev has not made"):
        sandbox.build()
    sandbox.sql("DROP VIEW dev__dev.a")
    sandbox.sql("ALTER VIEW dev__dev.b SET TBLPROPERTIES ('mine' = '1')")
    assert ran(sandbox) == [] and shown(sandbox, "dev") == expected
    # A table in the place of a view is somebody's.
    sandbox.sql("DROP VIEW dev__dev.b")
    sandbox.sql("CREATE TABLE dev__dev.b AS SELECT 1 AS one")
    with pytest.raises(ViewTaken, match=r"dev__dev\.b is a table that the virtual environment dev has not made"):
        sandbox.build()
    with pytest.raises(ViewTaken, match=r"dev__dev\.b is a table"):
        sandbox.plan()
    assert sandbox.rows("dev__dev.b") == [(1,)] and sandbox.rows("dev__dev.a") == expected["a"]
    sandbox.sql("DROP TABLE dev__dev.b")
    # A model that is gone or is called something else now.
    sandbox.remove("models/b.sql")
    sandbox.write("models/c.sql", "SELECT id FROM a")
    assert ran(sandbox) == ["c"] and [r for r in sandbox.relations() if r.startswith("dev__dev.")] == [
        "dev__dev.a",
        "dev__dev.c",
    ]
    store = sandbox.store()
    with store.lock("dev", "test") as token:
        there = store.read_environments()["dev"]
        store.set_environment(replace(there, status=Status.DETACHED, was=there.status), token)
    with pytest.raises(Detached, match="the virtual environment dev is detached"):
        sandbox.build()


def test_models_that_start_from_the_version_before(sandbox: Sandbox) -> None:
    header = "-- @kind: incremental\n-- @cursor: day\n-- @cursor_type: integer\n-- @cursor_grain: 1\n"
    header += "-- @incremental_strategy: delete_insert\n-- @replay_on_change: bounded-2\n"
    models = {
        "stg": "SELECT id, day, n FROM raw.x",
        "flow": header + "SELECT id, day, n, 1 AS v FROM stg WHERE day >= __cursor_start() AND day < __cursor_end()",
    }
    write_project(sandbox, models)
    sandbox.sql("INSERT INTO raw.x SELECT 10 + day, day, day FROM (SELECT explode(sequence(3, 9)) AS day)")
    ran(sandbox)
    before = sandbox.rows("dev__dev.flow")
    assert len(before) == 11
    # The window is [8, 10): what is before stays as the old definition made it, what is in it is made again.
    sandbox.edit("models/flow.sql", "1 AS v", "2 AS v")
    sandbox.edit("models/stg.sql", "FROM raw.x", "FROM raw.x WHERE id <> 18")
    assert ran(sandbox, "pr") == ["flow", "stg"]
    rows = sandbox.rows("dev__pr.flow")
    assert [r for r in rows if r[1] < 8] == [r for r in before if r[1] < 8]
    # The row of day 8 that the rebuilt upstream has no more is not kept.
    assert [r for r in rows if r[1] >= 8] == [(19, 9, 9, 2)]
    assert sandbox.rows("dev__dev.flow") == before


def test_a_version_that_others_wrote_to_begins_as_it_is_shown(sandbox: Sandbox) -> None:
    write_project(sandbox, {"stg": MODELS["stg"], "log": MODELS["log"]})
    sandbox.build()
    log = physical(sandbox, "dev")["log"]
    sandbox.sql(f"INSERT INTO lake.{log} VALUES (99, 99)")
    sandbox.write("models/log.sql", "-- @kind: append\nSELECT id, n + 0 AS n FROM stg")
    assert sandbox.build(virtual_env="pr").ok
    assert shown(sandbox, "pr")["log"] == shown(sandbox, "dev")["log"] == SHOWN["log"]


def test_functions_and_materializations(sandbox: Sandbox) -> None:
    write_project(sandbox, {"a": "SELECT id, more(n) AS n FROM raw.x", "b": "SELECT id FROM raw.x"})
    sandbox.write("functions/more.sql", "CREATE FUNCTION more(x INT) RETURNS INT RETURN x + 1")
    ran(sandbox)
    function = sandbox.store().read_refs("dev")["more()"].binding
    assert function.type == "function" and function.relation is None
    sandbox.edit("functions/more.sql", "x + 1", "x + 2")
    stale = sandbox.entered("dev").stale
    assert {n: str(s.reason) for n, s in stale.items()} == {"default.a": "Function changed"}
    # The function is what it is in the models that are shown.
    assert ran(sandbox, "pr", select=["a"]) == ["a"]
    assert status(sandbox, "pr") is Status.FINALIZED
    assert sandbox.store().read_refs("pr")["more()"].binding != function
    assert sandbox.store().read_refs("dev")["more()"].binding == function
    assert (1, 12) in sandbox.rows("dev__pr.a") and (1, 11) in sandbox.rows("dev__dev.a")
    sandbox.write("models/a.sql", "-- @kind: custom\n-- @materialization: mine\nSELECT id FROM raw.x")
    sandbox.write(
        "materializations/mine.py",
        'from sqb import materialization\n\n\n@materialization("mine")\ndef mine(ctx): ...\n',
    )
    with pytest.raises(SqbError) as refused:
        sandbox.build()
    assert refused.value.code == "SQB-N005"


def test_the_environment_without_a_suffix_and_its_baseline(sandbox: Sandbox) -> None:
    more = 'unsuffixed_virtual_env = "live"\nbaseline = "live"\n'
    write_project(sandbox, {"a": "SELECT id, n FROM raw.x"}, PROJECT + more)
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS dev")
    sandbox.sql("CREATE TABLE dev.a AS SELECT 1 AS one")
    with pytest.raises(ViewTaken, match=r"dev\.a is a table that the virtual environment live has not made"):
        sandbox.build(virtual_env="live")
    assert sandbox.rows("dev.a") == [(1,)]
    sandbox.sql("DROP TABLE dev.a")
    # It was told before anything ran.
    assert ran(sandbox, "live") == ["a"] and sandbox.rows("dev.a") == [(1, 10), (2, 20), (3, 60), (4, -1)]
    # The default environment begins as the baseline here.
    assert ran(sandbox) == [] and sandbox.rows("dev__dev.a") == sandbox.rows("dev.a")
    assert sandbox.store().read_environments()["dev"].baseline == "live"


def test_tables_from_before_there_were_environments_are_adopted(sandbox: Sandbox) -> None:
    models = {**MODELS, "top": "-- @kind: view\nSELECT day, n FROM per_day"}
    plain = PROJECT.replace("[virtual]\nenabled = true\n", "")
    write_project(sandbox, models, plain + "\n[virtual]\nenabled = true\n")
    sandbox.write("sqlbuild_project.toml", plain)
    assert sandbox.build().ok
    sandbox.sql("UPDATE raw.x SET n = 11 WHERE id = 1")
    assert sandbox.build().ok
    names = ("stg", "per_day", "log", "past", "top")
    before = {n: sandbox.rows(f"dev.{n}") for n in names}
    assert len(before["log"]) == 4 and len(before["past"]) == 4
    sandbox.write("sqlbuild_project.toml", PROJECT + 'unsuffixed_virtual_env = "dev"\n')
    with pytest.raises(ViewTaken, match="5 relations that the virtual environment dev has not made"):
        sandbox.plan()
    workspace = sandbox.entered("dev").workspace
    opened = replace(workspace, project=sandbox.entered("dev").direct)
    store, lake = sandbox.store(), sandbox.lake()
    there = lake.list_pointers()
    assert len(adopt_tables(opened, store, lake, "test", dry_run=True)) == 5 and lake.list_pointers() == there
    done = {a.name.rpartition(".")[2]: a for a in adopt_tables(opened, store, lake, "test")}
    assert {n for n, a in done.items() if a.table is not None} == {"stg", "per_day", "log", "past"}
    assert all(a.gave_way and not a.why_not for a in done.values())
    # Nothing but the view is made again, and everything is as it was, logs and histories included.
    assert ran(sandbox) == ["top"]
    assert {n: sandbox.rows(f"dev.{n}") for n in names} == before and status(sandbox, "dev") is Status.FINALIZED
    assert adopt_tables(opened, store, lake, "test") == []
    # And it goes on from there.
    sandbox.sql("UPDATE raw.x SET n = 12 WHERE id = 1")
    ran(sandbox)
    assert len(sandbox.rows("dev.log")) == 5 and len(sandbox.rows("dev.past")) == 5


class CutOff(Exception):
    """The end of a command at a step."""


SUMS = "SELECT d.label, sum(x.n) AS n FROM raw.x AS x JOIN raw.days AS d ON x.day = d.day GROUP BY d.label"


def test_an_adoption_that_is_cut_off_at_every_step_loses_nothing(sandbox: Sandbox) -> None:
    models = {**MODELS, "sums": f"-- @refresh: incremental\n{SUMS}", "top": "-- @kind: view\nSELECT n FROM sums"}
    tables = [n for n in models if n != "top"]
    plain = PROJECT.replace("[virtual]\nenabled = true\n", "")
    write_project(sandbox, models, plain + "\n[virtual]\nenabled = true\n")
    sandbox.sql("CREATE TABLE raw.days AS SELECT * FROM VALUES (1, 'mon'), (2, 'tue') AS t(day, label)")
    sandbox.write("sqlbuild_project.toml", plain)
    assert sandbox.build().ok
    before = {n: sandbox.rows(f"dev.{n}") for n in models}
    snapshots = snapshots_by_name(sandbox)
    sandbox.write("sqlbuild_project.toml", PROJECT + 'unsuffixed_virtual_env = "dev"\n')
    opened = replace(sandbox.entered("dev").workspace, project=sandbox.entered("dev").direct)
    cuts: list[tuple[Step, str]] = []

    def cut_off(step: Step, node: str) -> None:
        if (step, node) not in cuts:
            cuts.append((step, node))
            raise CutOff

    while True:
        try:
            adopt_tables(opened, sandbox.store(), sandbox.lake(), "test", announce=cut_off)
            break
        except CutOff:
            # All rows are there: under the old name, or in the table of the version.
            now = snapshots_by_name(sandbox)
            assert all(snapshots[n] <= now.get(n, set()) for n in tables), cuts[-1]
    assert {s for s, n in cuts if n == "default.sums"} == {"state published", "version begun", "views moved"}
    assert {file_of(n) for s, n in cuts if s == "version begun"} == set(tables)
    assert {file_of(n) for s, n in cuts if s == "views moved"} == set(models)
    assert ran(sandbox) == ["top"] and {n: sandbox.rows(f"dev.{n}") for n in models} == before
    # The figures have come along: what changes now is followed.
    sandbox.sql("INSERT INTO raw.x VALUES (9, 1, 100)")
    done = {file_of(n.name): (n.run_type, n.error) for n in sandbox.build().nodes}
    assert done["sums"] == ("incremental", None) and sandbox.rows("dev.sums") == ordered_rows(sandbox.sql(SUMS))


def snapshots_by_name(sandbox: Sandbox) -> dict[str, set[int | None]]:
    """The snapshots of tables that builds made, by the names of their models."""
    lake = sandbox.lake()
    pointers = [
        p for r, p in lake.list_pointers().items() if not p.is_view and r.schema in ("dev", "dev__sqb_physical")
    ]
    by_name: dict[str, set[int | None]] = {}
    for relation, state in lake.read_tables(pointers).items():
        by_name.setdefault(relation.name.partition("__v_")[0], set()).add(state.snapshot_id)
    return by_name


def test_a_definition_that_changes_around_an_adoption_loses_no_history(sandbox: Sandbox) -> None:
    """The source has forgotten what the logs hold: one is edited before it is adopted, the others after it."""
    models = dict.fromkeys(("before", "after", "twice"), "-- @kind: append\nSELECT id, n FROM raw.x")
    plain = PROJECT.replace("[virtual]\nenabled = true\n", "")
    write_project(sandbox, models, plain + "\n[virtual]\nenabled = true\n")
    sandbox.write("sqlbuild_project.toml", plain)
    assert sandbox.build().ok
    sandbox.sql("DELETE FROM raw.x WHERE id < 4")
    sandbox.sql("INSERT INTO raw.x VALUES (5, 5, 5)")
    sandbox.write("sqlbuild_project.toml", PROJECT + 'unsuffixed_virtual_env = "dev"\n')
    sandbox.edit("models/before.sql", "id, n", "id, n * 2 AS n")
    sandbox.edit("models/twice.sql", "id, n", "id, n * 2 AS n")
    opened = replace(sandbox.entered("dev").workspace, project=sandbox.entered("dev").direct)
    assert len(adopt_tables(opened, sandbox.store(), sandbox.lake(), "test")) == 3
    sandbox.edit("models/after.sql", "id, n", "id, n * 2 AS n")
    sandbox.edit("models/twice.sql", "n * 2", "n * 3")
    assert ran(sandbox) == ["after", "before", "twice"] and status(sandbox, "dev") is Status.FINALIZED
    old = [(1, 10), (2, 20), (3, 60), (4, -1)]
    assert sandbox.rows("dev.before") == sandbox.rows("dev.after") == [*old, (5, 10)]
    assert sandbox.rows("dev.twice") == [*old, (5, 15)]
    assert ran(sandbox) == []
