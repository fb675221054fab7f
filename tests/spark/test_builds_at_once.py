"""Two or three builds of one target at once: one of them does the work, the others take it over or leave it."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sqb.build.failpoints import Announce, Step
from sqb.build.result import BuildResult
from support.sandbox import Sandbox, names_by_status

MODELS = {
    "t_table": "SELECT id, n FROM raw.x",
    "t_merge": "-- @kind: merge\n-- @unique_key: id\nSELECT id, n FROM raw.x",
    "t_append": "-- @kind: append\nSELECT id, n FROM raw.x",
    "t_scd2": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, n FROM raw.x",
    "t_tracked": "-- @kind: tracked\n-- @group_key: id\nSELECT id, n FROM raw.x",
    "t_view": "-- @kind: view\nSELECT id, n FROM raw.x",
    "below": "SELECT t.id, t.n, x.n AS direct FROM t_table t JOIN raw.x x ON t.id = x.id",
}
TABLES = [name for name in MODELS if name != "t_view"]
MEANWHILE = "another build has made it meanwhile"
NEWER = "another build has made it from newer versions"


def write_project(sandbox: Sandbox) -> None:
    for name, sql in MODELS.items():
        sandbox.write(f"models/s/{name}.sql", sql)
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql("CREATE OR REPLACE TABLE raw.x AS SELECT * FROM VALUES (1, 10), (2, 20) AS t(id, n)")


def once_at(wanted: Step, node: str, act: Any) -> Announce:
    """Somebody who does something once, when a node comes to a step."""
    done: list[str] = []
    there = threading.Lock()

    def announce(step: Step, name: str) -> None:
        with there:
            if step != wanted or (node and name != node) or done:
                return
            done.append(name)
        act()

    return announce


def details(result: BuildResult) -> dict[str, str]:
    return {n.name.removeprefix("s."): n.detail for n in result.nodes}


def assert_current(sandbox: Sandbox, history: list[tuple[int, int]] | None = None) -> None:
    """Every table is its query over the source as it is now; `history` are the rows of the logs."""
    now = sandbox.rows("raw.x")
    for name in ("t_table", "t_merge", "t_tracked", "t_view"):
        assert sandbox.rows(f"s.{name}") == now, name
    assert sandbox.rows("s.below") == [(i, n, n) for i, n in now]
    assert [row[:2] for row in sandbox.rows("s.t_scd2") if row[4]] == now
    assert sandbox.rows("s.t_append") == (sorted(history) if history is not None else now)
    assert sandbox.stages() == [] and sandbox.lake().list_runs() == {}
    assert sandbox.plan().nothing_to_do


def test_the_slower_one_takes_over_what_the_faster_one_has_made(sandbox: Sandbox) -> None:
    write_project(sandbox)
    other = once_at("planned", "", lambda: assert_ok(sandbox.build()))
    result = sandbox.build(announce=other)
    assert result.ok and set(details(result).values()) == {MEANWHILE}, details(result)
    assert_current(sandbox)
    sandbox.sql("INSERT INTO raw.x VALUES (3, 30)")
    result = sandbox.build(announce=once_at("before publish", "s.t_table", lambda: assert_ok(sandbox.build())))
    messages = details(result)
    assert result.ok and messages["t_table"] == messages["below"] == MEANWHILE, messages
    assert_current(sandbox)


def assert_ok(result: BuildResult) -> None:
    assert result.ok, [str(n.error) for n in result.nodes if n.error is not None]


def test_older_versions_are_never_published_over_newer_ones(sandbox: Sandbox) -> None:
    write_project(sandbox)
    assert sandbox.build().ok
    sandbox.sql("INSERT INTO raw.x VALUES (3, 30)")

    def overtake() -> None:
        sandbox.sql("UPDATE raw.x SET n = 11 WHERE id = 1")
        # It has read more, and is ready sooner.
        assert_ok(sandbox.build())

    result = sandbox.build(announce=once_at("before publish", "s.t_table", overtake), concurrency=1)
    messages = details(result)
    assert result.ok and messages["t_table"] == messages["below"] == NEWER, messages
    assert_current(sandbox, [(1, 10), (1, 11), (2, 20), (3, 30)])


def test_what_is_below_an_overtaken_table_is_built_at_the_newer_versions(sandbox: Sandbox) -> None:
    write_project(sandbox)
    assert sandbox.build().ok
    sandbox.sql("INSERT INTO raw.x VALUES (3, 30)")

    def overtake() -> None:
        sandbox.sql("UPDATE raw.x SET n = 11 WHERE id = 1")
        assert_ok(sandbox.build(select=["t_table"]))

    result = sandbox.build(announce=once_at("before publish", "s.t_table", overtake))
    assert result.ok and details(result)["t_table"] == NEWER
    by_name = {n.name: n.status for n in result.nodes}
    assert by_name["s.below"] == "ok" and sandbox.rows("s.below") == [(1, 11, 11), (2, 20, 20), (3, 30, 30)]
    # What had been published before is brought up to date by the next build.
    assert sandbox.build().ok
    assert sandbox.rows("s.t_merge") == sandbox.rows("raw.x") and sandbox.plan().nothing_to_do


def test_the_one_with_newer_versions_goes_on_from_what_the_other_has_left(sandbox: Sandbox) -> None:
    """An older build is paused before each publish, and let go when the newer one is about to publish the same."""
    write_project(sandbox)
    assert sandbox.build().ok
    sandbox.sql("INSERT INTO raw.x VALUES (3, 30)")
    names = [f"s.{name}" for name in TABLES if name != "below"]
    go, gone = {n: threading.Event() for n in names}, {n: threading.Event() for n in names}
    planned = threading.Event()

    def older(step: Step, node: str) -> None:
        if step == "planned":
            planned.set()
        if step == "before publish" and node in go:
            assert go[node].wait(120)
        if step == "published" and node in gone:
            gone[node].set()

    def newer(step: Step, node: str) -> None:
        if step == "before publish" and node in go and not go[node].is_set():
            go[node].set()
            assert gone[node].wait(120)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sandbox.build, announce=older, concurrency=8)
        assert planned.wait(120)
        sandbox.sql("UPDATE raw.x SET n = 11 WHERE id = 1")
        second = pool.submit(sandbox.build, announce=newer, concurrency=8)
        for build in (first, second):
            assert_ok(build.result(300))
    assert {n.name for n in second.result().nodes if n.status == "ok"} >= set(names)
    assert_current(sandbox, [(1, 10), (1, 11), (2, 20), (3, 30)])
    # The step in between is in the history: two changes, of which the other build made the first.
    assert [row[:2] for row in sandbox.rows("s.t_scd2")] == [(1, 10), (1, 11), (2, 20), (3, 30)]


def test_three_builds_at_once_all_end_well(sandbox: Sandbox) -> None:
    write_project(sandbox)
    log: list[tuple[int, int]] = [(1, 10), (2, 20)]
    with ThreadPoolExecutor(3) as pool:
        for i in range(3, 6):
            running: list[Future[BuildResult]] = [pool.submit(sandbox.build)]
            sandbox.sql(f"INSERT INTO raw.x VALUES ({i}, {i}0)")
            log.append((i, i * 10))
            running += [pool.submit(sandbox.build) for _ in range(2)]
            for build in running:
                assert_ok(build.result(300))
            assert_current(sandbox, log)


def test_another_definition_is_a_conflict(sandbox: Sandbox) -> None:
    write_project(sandbox)
    assert sandbox.build().ok
    sandbox.edit("models/s/t_table.sql", "id, n", "id, n + 1 AS n")

    def other_checkout() -> None:
        sandbox.edit("models/s/t_table.sql", "n + 1", "n + 2")
        assert_ok(sandbox.build(select=["t_table"]))

    result = sandbox.build(announce=once_at("before publish", "s.t_table", other_checkout))
    assert names_by_status(result)["failed"] == ["s.t_table"]
    assert sandbox.rows("s.t_table") == [(1, 12), (2, 22)]


def test_a_definition_that_this_build_replaces_is_no_conflict(sandbox: Sandbox) -> None:
    """The other build still has the old text: what it leaves is where the new definition begins."""
    write_project(sandbox)
    assert sandbox.build().ok
    sandbox.edit("models/s/t_table.sql", "id, n", "id, n + 1 AS n")

    def old_checkout() -> None:
        sandbox.sql("INSERT INTO raw.x VALUES (3, 30)")
        sandbox.edit("models/s/t_table.sql", "n + 1 AS n", "n")
        assert_ok(sandbox.build(select=["t_table"]))
        sandbox.edit("models/s/t_table.sql", "id, n", "id, n + 1 AS n")

    result = sandbox.build(announce=once_at("before publish", "s.t_table", old_checkout))
    assert_ok(result)
    assert sandbox.rows("s.t_table") == [(1, 11), (2, 21), (3, 31)]
