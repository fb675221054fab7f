"""Figures of groups beside a table: what happens to them when builds are cut off, when they are lost, or not theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqb.build.incremental import group_state
from sqb.errors.base import SqbError
from sqb.names import Relation
from sqb.plan.recorded.group_state import NamedState, parse_states
from support.sandbox import Sandbox, ordered_rows

QUERY = """SELECT d.region, count(*) AS n, sum(f.x) AS x, avg(f.amount) AS amount
    FROM raw.facts AS f JOIN raw.dims AS d ON f.k = d.k GROUP BY d.region"""
MODEL = "-- @refresh: incremental\n" + QUERY


class CutOff(SqbError):
    """The end of a build at a step."""

    code = "SQB-TEST"


@pytest.fixture(params=["small", "large"])
def star(sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A star whose figures are merged as a whole, or only in the groups that changes touch."""
    if request.param == "large":
        sandbox.write("sqlbuild_project.toml", 'name = "sandbox"\n[incremental]\nsmall_rows = 0\n')
    sandbox.write("models/m/by_region.sql", MODEL)
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql("CREATE TABLE raw.facts (id INT, k INT, x BIGINT, amount DECIMAL(10,2))")
    sandbox.sql("CREATE TABLE raw.dims (k INT, region STRING)")
    sandbox.sql("INSERT INTO raw.facts VALUES (1, 1, 5, 1.50), (2, 2, NULL, 2.00), (3, 1, 7, NULL), (4, NULL, 1, 1)")
    sandbox.sql("INSERT INTO raw.dims VALUES (1, 'n'), (2, 's'), (3, '${env:HOME}')")
    run(sandbox, "backfill")
    yield sandbox


def run(sandbox: Sandbox, run_type: str) -> None:
    """Build, in a certain way, what the query gives."""
    done = next(n for n in sandbox.build().nodes if n.planned.name == "m.by_region")
    assert (done.error, done.run_type) == (None, run_type)
    check(sandbox)


def check(sandbox: Sandbox) -> None:
    assert sandbox.rows("m.by_region") == ordered_rows(sandbox.sql(QUERY))


def add_fact(sandbox: Sandbox, number: int) -> None:
    sandbox.sql(f"INSERT INTO raw.facts VALUES ({number}, {number % 4}, {number}, {number}.25)")


def cut_off(sandbox: Sandbox, at: str) -> None:
    """A build that fails at a step of the model."""

    def announce(step: str, node: str) -> None:
        if step == at and node == "m.by_region":
            raise CutOff(f"cut off at {at}")

    assert any(isinstance(n.error, CutOff) for n in sandbox.build(announce=announce).nodes)


def test_cut_off_between_the_two_commits(star: Sandbox) -> None:
    """The figures are ahead of the table; the next runs do not start from them."""
    for number, step in enumerate(("state published", "written", "before publish"), 5):
        add_fact(star, number)
        before = star.rows("m.by_region")
        cut_off(star, step)
        assert star.rows("m.by_region") == before
    add_fact(star, 8)
    run(star, "incremental")
    star.sql("DELETE FROM raw.facts WHERE id = 6")
    run(star, "incremental")


@pytest.mark.parametrize("step", ["planned", "state published", "before publish"])
@pytest.mark.parametrize("newer", [False, True])
def test_two_builds_at_once(star: Sandbox, step: str, newer: bool) -> None:
    """Both write figures, one of them before the other: what the table's commit names is what it is made from."""
    add_fact(star, 5)
    done: list[str] = []

    def announce(at: str, node: str) -> None:
        if at == step and not done:
            done.append(node)
            if newer:
                add_fact(star, 6)
            run(star, "incremental")

    result = star.build(announce=announce)
    assert done and [(n.status, n.error) for n in result.nodes] == [("skipped", None)], result.nodes
    check(star)
    for number in (7, 8):
        add_fact(star, number)
        run(star, "incremental")


def test_several_tables_changed_at_once(star: Sandbox) -> None:
    add_fact(star, 5)
    star.sql("UPDATE raw.dims SET region = 's' WHERE k = 1")
    star.sql("INSERT INTO raw.dims VALUES (1, 'twice'), (NULL, 'none')")
    star.sql("UPDATE raw.facts SET k = 3 WHERE id = 2")
    run(star, "incremental")
    star.sql("DELETE FROM raw.dims WHERE k = 1")
    star.sql("DELETE FROM raw.facts WHERE k = 3")
    run(star, "incremental")
    star.sql("DELETE FROM raw.facts")
    run(star, "incremental")
    add_fact(star, 9)
    star.sql("INSERT INTO raw.dims VALUES (1, 'again')")
    run(star, "incremental")


def test_figures_that_are_lost_are_made_again(star: Sandbox) -> None:
    star.sql("DROP TABLE m__sqb_state.by_region__2")
    add_fact(star, 5)
    run(star, "full")
    add_fact(star, 6)
    run(star, "incremental")
    # Another table under their name is not theirs.
    star.sql("DROP TABLE m__sqb_state.by_region__2")
    star.sql("CREATE TABLE m__sqb_state.by_region__2 AS SELECT 1 AS g0")
    add_fact(star, 7)
    run(star, "full")
    add_fact(star, 8)
    run(star, "incremental")


def test_another_definition_has_figures_of_its_own(star: Sandbox) -> None:
    star.edit("models/m/by_region.sql", "sum(f.x) AS x", "sum(f.x + 0) AS x")
    run(star, "backfill")
    add_fact(star, 5)
    run(star, "incremental")
    star.edit("models/m/by_region.sql", "incremental", "full")
    add_fact(star, 6)
    run(star, "full")
    star.edit("models/m/by_region.sql", "full", "incremental")
    add_fact(star, 7)
    # The rebuild made none, so there is nothing to add to.
    run(star, "full")
    add_fact(star, 8)
    run(star, "incremental")


def test_tables_with_delete_files(star: Sandbox) -> None:
    star.sql("ALTER TABLE raw.facts SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    star.sql("DELETE FROM raw.facts WHERE id = 3")
    add_fact(star, 5)
    run(star, "incremental")


def test_a_table_that_was_edited_outside_is_rebuilt(star: Sandbox) -> None:
    star.sql("DELETE FROM m.by_region WHERE region = 'n'")
    run(star, "full")
    add_fact(star, 5)
    run(star, "incremental")


@pytest.mark.parametrize(
    "query",
    [
        # A running maximum may have ties.
        """WITH days AS (SELECT day, sum(x) AS x FROM raw.facts GROUP BY day)
        SELECT day, x, max(x) OVER (ORDER BY day ROWS UNBOUNDED PRECEDING) AS most FROM days""",
        "SELECT day, sum(x) AS total FROM raw.facts GROUP BY day ORDER BY total DESC, 1 LIMIT 2",
        """SELECT day FROM (SELECT day, count(*) AS n FROM raw.facts GROUP BY day)
        ORDER BY day DESC NULLS LAST LIMIT 3 OFFSET 1""",
    ],
)
def test_what_a_query_makes_of_its_groups_is_read_from_their_figures(sandbox: Sandbox, query: str) -> None:
    """What could not be followed row by row is read from the figures at once."""
    sandbox.write("models/m/days.sql", f"-- @refresh: incremental\n{query}")
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql("CREATE TABLE raw.facts AS SELECT id % 7 AS day, id AS x FROM range(50)")
    assert [n.run_type for n in sandbox.build().nodes] == ["backfill"]
    for change in ("INSERT INTO raw.facts VALUES (3, 900), (8, 1)", "DELETE FROM raw.facts WHERE day = 2"):
        sandbox.sql(change)
        assert [(n.run_type, n.error) for n in sandbox.build().nodes] == [("incremental", None)]
        assert sandbox.rows("m.days") == ordered_rows(sandbox.sql(query))


LAYERED = """SELECT d.region, count(*) AS n, max(f.x) AS most, count(DISTINCT f.id % 3) AS kinds
    FROM raw.facts AS f JOIN raw.dims AS d ON f.k = d.k GROUP BY d.region"""


@pytest.fixture
def layered(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Forty groups whose figures are large, so that only those that change are written; at most three times over."""
    monkeypatch.setattr(group_state, "_MOST_LAYERS", 3)
    sandbox.write("sqlbuild_project.toml", 'name = "sandbox"\n[incremental]\nsmall_rows = 0\n')
    sandbox.write("models/m/by_region.sql", "-- @refresh: incremental\n" + LAYERED)
    sandbox.sql("CREATE SCHEMA raw")
    facts = "SELECT CAST(id AS INT) AS id, CAST(id % 40 AS INT) AS k, id AS x FROM range(400)"
    # Of a file that is written anew all groups would count as touched.
    modes = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update"))
    sandbox.sql(f"CREATE TABLE raw.facts TBLPROPERTIES ({modes}) AS {facts}")
    sandbox.sql("CREATE TABLE raw.dims AS SELECT CAST(id AS INT) AS k, concat('r', id) AS region FROM range(41)")
    run_layered(sandbox, "backfill")
    return sandbox


def run_layered(sandbox: Sandbox, run_type: str) -> NamedState:
    """Build in a certain way what the query gives; the state that the commit names."""
    done = next(n for n in sandbox.build().nodes if n.planned.name == "m.by_region")
    assert (done.error, done.run_type) == (None, run_type)
    assert sandbox.rows("m.by_region") == ordered_rows(sandbox.sql(LAYERED))
    lake, relation = sandbox.lake(), Relation("m", "by_region")
    state = lake.read_tables([lake.list_pointers()[relation]])[relation]
    return next(iter(parse_states(state.identity.group_state).values()))


def count_written(sandbox: Sandbox, state: NamedState) -> int:
    """The rows that the commit of a state wrote."""
    table = f"m__sqb_state.by_region__{state.operator}"
    where = f"WHERE snapshot_id = {state.snapshot}"
    summary = sandbox.sql(f"SELECT summary['added-records'] FROM {table}.snapshots {where}")
    return int(summary[0][0])


def test_of_a_large_state_only_touched_groups_are_written(layered: Sandbox) -> None:
    """Groups come, leave, come back and lose their largest value; now and then all is written again."""
    written = []
    for change in (
        "INSERT INTO raw.facts VALUES (1000, 1, 9999)",
        # Leaves as a whole; and comes back with the next change.
        "DELETE FROM raw.facts WHERE k = 7",
        "INSERT INTO raw.facts VALUES (1001, 7, 1), (1002, 40, 2)",
        "DELETE FROM raw.facts WHERE x = 9999",
        "UPDATE raw.facts SET k = 40 WHERE k = 8",
    ):
        layered.sql(change)
        state = run_layered(layered, "incremental")
        written.append((state.layers, count_written(layered, state) < 20))
    # The fourth writes all groups again.
    assert written == [(1, True), (2, True), (3, True), (0, False), (1, True)]


def test_what_a_killed_build_wrote_over_a_large_state_is_not_read(layered: Sandbox) -> None:
    layered.sql("INSERT INTO raw.facts VALUES (1000, 1, 9999)")
    assert run_layered(layered, "incremental").layers == 1
    layered.sql("INSERT INTO raw.facts VALUES (1001, 2, 9998)")
    cut_off(layered, "state published")
    layered.sql("DELETE FROM raw.facts WHERE id = 1001")
    layered.sql("INSERT INTO raw.facts VALUES (1002, 3, 9997)")
    # Its newest snapshot is not the one that is named: all is written again, from that one.
    assert run_layered(layered, "incremental").layers == 0
    layered.sql("DELETE FROM raw.facts WHERE id = 1002")
    assert run_layered(layered, "incremental").layers == 1


def test_a_large_state_of_several_layers_that_is_lost_is_made_again(layered: Sandbox) -> None:
    layered.sql("INSERT INTO raw.facts VALUES (1000, 1, 9999)")
    state = run_layered(layered, "incremental")
    layered.sql(f"DROP TABLE m__sqb_state.by_region__{state.operator}")
    layered.sql("INSERT INTO raw.facts VALUES (1001, 2, 9999)")
    assert run_layered(layered, "full").layers == 0
    layered.sql("DELETE FROM raw.facts WHERE x = 9999")
    assert run_layered(layered, "incremental").layers == 1


def test_months_of_a_table_that_is_partitioned_by_day(sandbox: Sandbox) -> None:
    """Which months are touched is known from the partitions; all days of them are read, and others are not."""
    query = "SELECT trunc(day, 'MM') AS month, count(DISTINCT who) AS n FROM raw.visits GROUP BY trunc(day, 'MM')"
    sandbox.write("sqlbuild_project.toml", 'name = "sandbox"\n[incremental]\nmin_rows = 0\n')
    sandbox.write("models/m/months.sql", query)
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql("CREATE TABLE raw.visits (day DATE, who INT) PARTITIONED BY (day)")
    days = "date_add(DATE '2024-01-01', CAST(id % 120 AS INT)) AS day"
    sandbox.sql(f"INSERT INTO raw.visits SELECT {days}, CAST(id % 7 AS INT) AS who FROM range(400) ORDER BY day")
    sandbox.build()
    for change in (
        "INSERT INTO raw.visits VALUES (DATE '2024-02-29', 99), (DATE '2024-03-01', 99)",
        "DELETE FROM raw.visits WHERE day = DATE '2024-01-31'",
        "INSERT INTO raw.visits VALUES (NULL, 1), (DATE '2024-12-31', 2)",
        "DELETE FROM raw.visits WHERE day IS NULL OR day >= DATE '2024-04-01'",
    ):
        sandbox.sql(change)
        done = next(n for n in sandbox.build().nodes if n.planned.name == "m.months")
        assert (done.error, done.run_type) == (None, "incremental")
        assert sandbox.rows("m.months") == ordered_rows(sandbox.sql(query))


EXTREMES = """SELECT d.region, min(f.x) AS low, max(f.x) AS top, count(*) AS n
    FROM raw.facts AS f JOIN raw.dims AS d ON f.k = d.k GROUP BY d.region"""


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_extremes_of_rows_that_are_in_neither_version(sandbox: Sandbox, mode: str) -> None:
    """Values that came and went between two builds, or that only a step of a join of two changes has."""
    sandbox.write("models/m/extremes.sql", "-- @refresh: incremental\n" + EXTREMES)
    sandbox.sql("CREATE SCHEMA raw")
    modes = ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update"))
    sandbox.sql(f"CREATE TABLE raw.facts (id INT, k INT, x INT) TBLPROPERTIES ({modes})")
    sandbox.sql("CREATE TABLE raw.dims (k INT, region STRING)")
    sandbox.sql("INSERT INTO raw.facts VALUES (1, 1, 10), (2, 1, 20), (3, 2, 50), (4, 3, 100)")
    sandbox.sql("INSERT INTO raw.dims VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sandbox.build()
    for statements in (
        ("INSERT INTO raw.facts VALUES (5, 1, 9999), (6, 1, -9999)", "DELETE FROM raw.facts WHERE id IN (5, 6)"),
        ("INSERT INTO raw.facts VALUES (7, 1, 15)",),
        # The fact of region c is gone, and its day is of region b now: it was never one of b's.
        ("DELETE FROM raw.facts WHERE id = 4", "UPDATE raw.dims SET region = 'b' WHERE k = 3"),
        ("DELETE FROM raw.facts WHERE x = 20", "INSERT INTO raw.facts VALUES (8, 1, 3)"),
        (
            "INSERT INTO raw.facts VALUES (9, 2, 60)",
            "DELETE FROM raw.facts WHERE id = 9",
            "DELETE FROM raw.facts WHERE id = 7",
        ),
    ):
        for statement in statements:
            sandbox.sql(statement)
        done = next(n for n in sandbox.build().nodes if n.planned.name == "m.extremes")
        assert (done.error, done.run_type) == (None, "incremental")
        assert sandbox.rows("m.extremes") == ordered_rows(sandbox.sql(EXTREMES)), statements
