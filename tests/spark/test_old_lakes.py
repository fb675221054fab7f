"""Lakes that older versions made: this one opens them, has nothing to do, builds on them, rolls back and cleans up.

scripts/make_lake_fixture.py made them; what is in each, and the projects, stand in tests/fixtures.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sqb import __version__
from sqb.spark.engine import Engine
from support.old_lake import FIXTURES, OldProject, unpack, use_fake_dbt
from support.sandbox import environment as variables

LAKES = sorted(path.parent.name for path in FIXTURES.glob("*/lake.tar.xz"))
# Nothing is young enough to be left alone for that alone.
AT_ONCE = (
    '\n[janitor]\nfile_retention = "0s"\nsnapshot_retention = "0s"\nhistory_retention = "0s"\nkeep_snapshots = 1\n'
)
# Models that are what their query gives; what a target builds from nothing has the same rows.
FUNCTIONS = (
    "regions",
    "stg_orders",
    "by_customer",
    "details",
    "regions_total",
    "largest",
    "returned",
    "orders_merge",
    "orders_tracked",
    "custom_first",
)
Row = tuple[Any, ...]
Rows = list[Row]


@pytest.fixture(scope="module", params=LAKES)
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake as its version left it, here; each project in it is the matter of one test."""
    folder = unpack(FIXTURES / request.param / "lake.tar.xz", tmp_path_factory.mktemp("old"))
    # Moments were noted as Python shows them there.
    with variables({"TZ": "UTC"}):
        time.tzset()
        yield folder
    time.tzset()
    shutil.rmtree(folder)


def seen_then(old: Path, project: str, when: str = "now") -> dict[str, Rows]:
    """The rows that readers saw when the lake was made."""
    rows = json.loads((old / "rows.json").read_text())[project][when]
    return {name: [tuple(row) for row in item] for name, item in rows.items()}


def assert_rows(project: OldProject, expected: dict[str, Rows]) -> None:
    for name, rows in expected.items():
        assert project.rows(name) == rows, name


def assert_nothing_to_do(project: OldProject, *arguments: str) -> None:
    """With the caches that are there, and without any."""
    assert "Nothing to do" in project.sqb("plan", *arguments)
    shutil.rmtree(project.folder / ".sqb", ignore_errors=True)
    assert "Nothing to do" in project.sqb("plan", *arguments)


def clean_at_once(project: OldProject) -> None:
    """The janitor with no patience, twice: what it removed first may let go of more."""
    settings = (project.folder / "sqlbuild_project.toml").read_text()
    if AT_ONCE not in settings:
        project.put("sqlbuild_project.toml", settings + AT_ONCE)
    project.sqb("janitor")
    project.sqb("janitor")


def read_version(project: OldProject, relation: str) -> str:
    """The version of sqb that the current commit of a table records."""
    schema, _, name = relation.partition(".")
    catalog = sqlite3.connect(project.folder / "lake" / "catalog.db")
    query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
    ((pointer,),) = catalog.execute(query, (schema, name)).fetchall()
    catalog.close()
    metadata = json.loads(Path(pointer.removeprefix("file:")).read_text())
    (current,) = (s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
    return str(current["summary"]["sqb.version"])


def read_runs(project: OldProject) -> list[str]:
    """The ids of the runs in the history, the newest first."""
    return [run["run_id"] for run in json.loads(project.sqb("history", "--json"))["runs"]]


def assert_pages(project: OldProject, *names: str) -> None:
    """The pages of a project show what an older version built and ran."""
    document = project.sqb("docs", "build", "--json")
    assert all(name in document for name in names)
    project.sqb("docs", "build", "--output", "pages")
    assert (project.folder / "pages" / "index.html").is_file()


# --- every kind, and a target that was cloned from another ------------------------------------------------------------


def change_sources(shop: OldProject) -> None:
    for statement in (
        "INSERT INTO raw.orders VALUES (30, 0, 12.00, DATE '2024-01-08', 30), (31, 3, 1.00, DATE '2024-01-08', 31)",
        "UPDATE raw.orders SET amount = 99.50 WHERE id = 10",
        "DELETE FROM raw.orders WHERE id = 11",
        "UPDATE raw.customers SET region = 'south' WHERE id = 0",
        "INSERT INTO raw.customers VALUES (5, 'Eve', 'west')",
        "INSERT INTO raw.returns VALUES (9, 'late')",
        "INSERT INTO raw.events VALUES (10, TIMESTAMP '2024-01-06 00:00:00', 'late', 1.5, NULL), "
        "(11, TIMESTAMP '2024-01-06 12:00:00', 'k1', 2.75, NULL)",
        # Both are before every window.
        "DELETE FROM raw.events WHERE seq = 0",
        "UPDATE raw.events SET value = -1 WHERE seq = 1",
    ):
        shop.sql(statement)
    # The key of events_merged must be unique in its window.
    shop.sql("UPDATE raw.events SET seq = 12 WHERE kind = 'late'")
    shop.put("files/rates_2.csv", "region,rate\nwest,0.2\n")
    shop.put("seeds/regions.csv", "region,boss\nnorth,Ada\nsouth,Bea\nwest,\n")


def from_then_on(rows: Rows, column: int, value: Any) -> Rows:
    return [row for row in rows if row[column] >= value]


def before_then(rows: Rows, column: int, value: Any) -> Rows:
    return [row for row in rows if row[column] < value]


def rows_by_the_rule(before: dict[str, Rows], fresh: dict[str, Rows]) -> dict[str, Counter[Row]]:
    """What each model that remembers must hold after the change, by the rule of its kind.

    `before` has its rows before, by the names of models, and `fresh` those of its query's whole result.
    """
    days, merged = before["events_by_day"], before["events_merged"]
    logged, replayed = before["events_logged"], before["events_replayed"]
    day, seq, at = max(r[0] for r in days), max(r[0] for r in merged), max(r[0] for r in replayed)
    window = from_then_on(fresh["events_merged"], 0, seq - 1)
    keys = {row[0] for row in window}
    remaining = {row[0]: row for row in before["orders_kept"]} | {row[0]: row for row in fresh["orders_kept"]}
    return {
        "events_by_day": multiset(before_then(days, 0, day)) + multiset(from_then_on(fresh["events_by_day"], 0, day)),
        "events_merged": multiset([row for row in merged if row[0] not in keys]) + multiset(window),
        "events_logged": multiset(logged)
        + (
            multiset(from_then_on(fresh["events_logged"], 0, max(r[0] for r in logged)))
            - multiset(from_then_on(logged, 0, max(r[0] for r in logged)))
        ),
        "events_replayed": multiset(before_then(replayed, 0, at))
        + multiset(from_then_on(fresh["events_replayed"], 0, at)),
        "orders_kept": multiset(list(remaining.values())),
        "custom_log": multiset(list({*before["custom_log"], *fresh["custom_log"]})),
        "orders_log": multiset(before["orders_log"])
        + (multiset(fresh["orders_log"]) - multiset([orders_row(row) for row in before["raw.orders"]])),
    }


def orders_row(row: Row) -> Row:
    """What the log of orders takes of a row of its source."""
    id, customer, amount, day, _ = row
    return id, customer, amount, day


def multiset(rows: Collection[Row]) -> Counter[Row]:
    # Maps and lists cannot be keys.
    return Counter(tuple(str(value) if isinstance(value, dict) else value for value in row) for row in rows)


def assert_goes_on(history: Rows, before: Rows, current: Rows) -> None:
    """Nothing of a history is lost: versions are added, and those that were current may have ended."""
    assert multiset([row[:-3] for row in history if row[-1]]) == multiset(current)
    ended = {row for row in before if not row[-1]}
    assert ended <= set(history)
    assert {row[:-2] for row in before if row[-1]} <= {row[:-2] for row in history}
    by_key: dict[Any, Rows] = {}
    for row in sorted(history, key=lambda row: (row[0], row[-3])):
        by_key.setdefault(row[0], []).append(row)
    for versions in by_key.values():
        assert all(earlier[-2] is not None and earlier[-2] <= later[-3] for earlier, later in pairwise(versions))
        assert all(row[-2] is None or moment(row[-3]) <= moment(row[-2]) for row in versions)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def of_target(rows: dict[str, Rows], target: str) -> dict[str, Rows]:
    """Rows by the names of models, and those of sources by theirs."""
    return {name.removeprefix(f"{target}."): item for name, item in rows.items()}


def test_every_kind(old: Path, engine: Engine) -> None:
    shop = OldProject(old / "shop", engine)
    then = seen_then(old, "shop")
    assert_rows(shop, then)
    for target in ("prod", "dev"):
        assert_nothing_to_do(shop, "--target", target)
    assert "default.stg_orders" in shop.sqb("history")
    assert_pages(shop, "stg_orders", "customers_history")
    earlier = read_runs(shop)
    made_by = read_version(shop, "prod.by_customer")
    change_sources(shop)
    shop.sqb("build")
    # The history goes on, and new commits record who made them.
    assert earlier and read_runs(shop)[1:] == earlier
    assert made_by != __version__ == read_version(shop, "prod.by_customer")
    # What the janitor lets go of, the clone must not need.
    clean_at_once(shop)
    assert_rows(shop, {n: rows for n, rows in then.items() if n.startswith("dev.") and n != "dev.stg_orders"})
    shop.sqb("build", "--target", "dev")
    shop.sqb("build", "--target", "fresh")
    fresh = of_target({n: shop.rows(n) for n in shop.sandbox.relations() if n.startswith("fresh.")}, "fresh")
    clean_at_once(shop)
    for target in ("prod", "dev"):
        before = of_target(then, target)
        for name in FUNCTIONS:
            assert shop.rows(f"{target}.{name}") == fresh[name], f"{target}.{name}"
        for name, rows in rows_by_the_rule(before, fresh).items():
            assert multiset(shop.rows(f"{target}.{name}")) == rows, f"{target}.{name}"
        history = shop.rows(f"{target}.customers_history")
        assert_goes_on(history, before["customers_history"], [row[:-3] for row in fresh["customers_history"]])
        logs = {"orders": "orders_log", "custom": "custom_log", "events": "events_logged"}
        counts = {log: len(shop.rows(f"{target}.{name}")) for log, name in logs.items()}
        assert dict(shop.rows(f"{target}.below_logs")) == counts
        assert_nothing_to_do(shop, "--target", target)


# --- environments ---------------------------------------------------------------------------------------------------


def shown(team: OldProject, environment: str) -> dict[str, Rows]:
    views = [name for name in team.sandbox.relations() if name.startswith(f"dev__{environment}.")]
    return {name: team.rows(name) for name in views}


def migrate_state(team: OldProject) -> None:
    """A state of another form is told, and brought to this one when somebody asks for it: not before."""
    code, _, err = team.run("plan")
    if code != 0:
        assert "error[SQB-V009]" in err
        assert "error[SQB-V009]" in team.run("build")[2]
        team.sqb("state", "migrate")


def test_environments(old: Path, engine: Engine) -> None:
    team = OldProject(old / "team", engine)
    now = seen_then(old, "team")
    migrate_state(team)
    assert_rows(team, now)
    for environment in ("dev", "pr_1"):
        assert_nothing_to_do(team, "--virtual-env", environment)
        assert re.search(rf"^{environment} +finalized", team.sqb("state", "show"), re.MULTILINE)
    clean_at_once(team)
    assert_rows(team, now)
    # Back through everything that was shown, and forward again: nothing is built for that.
    for checkpoint in (3, 2, 1):
        team.sqb("rollback")
        assert shown(team, "dev") == seen_then(old, "team", f"checkpoint {checkpoint}")
    assert "0 failed" in team.sqb("build")
    assert_rows(team, now)
    team.sql("UPDATE raw.x SET n = 22 WHERE id = 2")
    team.sql("INSERT INTO raw.x VALUES (7, 4, 9)")
    for environment in ("dev", "pr_1"):
        team.sqb("build", "--virtual-env", environment)
    for environment in ("dev", "pr_1"):
        assert_team(shown(team, environment), now, environment, team.rows("raw.x"))
        assert_nothing_to_do(team, "--virtual-env", environment)
    clean_at_once(team)
    assert_team(shown(team, "dev"), now, "dev", team.rows("raw.x"))
    # A promotion merges from where the two agreed, which the older version wrote down.
    assert json.loads(team.sqb("diff", "--from", "pr_1", "--to", "dev", "--json"))
    team.sqb("promote", "--from", "pr_1", "--to", "dev")
    by_model = {name.partition(".")[2]: rows for name, rows in shown(team, "pr_1").items()}
    assert {name.partition(".")[2]: rows for name, rows in shown(team, "dev").items()} == by_model
    assert_pages(team, "pr_1", "worded")


def assert_team(shown: dict[str, Rows], before: dict[str, Rows], environment: str, source: Rows) -> None:
    """Each view has what its model's kind says, after the source has become this."""
    rows = {name.partition(".")[2]: item for name, item in shown.items()}
    then = {name.partition(".")[2]: item for name, item in before.items() if f"__{environment}." in name}
    base = [row for row in source if row[2] > 0]
    days = Counter[int]()
    for _, day, n in base:
        days[day] += n
    assert rows["base"] == base
    assert rows["shown"] == sorted(days.items())
    words = dict(rows["words"])
    assert rows["worded"] == [(day, n, words[day]) for day, n in sorted(days.items()) if day in words]
    assert rows["merged"] == [(id, n + 1) for id, _, n in base]
    assert rows["tracked"] == sorted((day, id, n) for id, day, n in base)
    assert multiset(rows["logged"]) == multiset([*then["logged"], (2, 22), (7, 9)])
    assert_goes_on(rows["history"], then["history"], [(id, n) for id, _, n in source])
    counts = Counter(day for _, day, _ in source)
    window = max(day for day, _ in then["windowed"])
    expected = before_then(then["windowed"], 0, window) + from_then_on(sorted(counts.items()), 0, window)
    assert sorted(rows["windowed"]) == sorted(expected)


# --- Python nodes and dbt ---------------------------------------------------------------------------------------------


def test_python_nodes(old: Path, engine: Engine) -> None:
    feeds = OldProject(old / "feeds", engine)
    then = seen_then(old, "feeds")
    assert_rows(feeds, then)
    # A loader runs in every build; what it does not change runs no more.
    planned = json.loads(feeds.sqb("plan", "--json"))["nodes"]
    upstream = {n["name"] for n in planned if n["action"] == "run" and n["reason"] != "Upstream changed"}
    assert upstream == {"count", "fetch"}
    built = json.loads(feeds.sqb("build", "--json"))
    assert {n["name"] for n in built["nodes"] if n["status"] == "ok" and n["type"] != "hook"} == {"fetch"}
    assert_rows(feeds, then)
    # The loader goes on from what it has loaded, also when the janitor has been there.
    feeds.put("orders.json", '[{"id": 2, "who": "b", "amount": 9}]\n')
    for visits in (8, 9):
        feeds.put("visits.txt", f"{visits}\n")
        feeds.sqb("build")
        for name in ("raw.visits", "default.visits"):
            assert [row[0] for row in feeds.rows(name)] == list(range(1, visits + 1))
        # A run that brings nothing does not make it forget what it brought.
        assert "no new visits" in feeds.sqb("build")
        clean_at_once(feeds)
    assert feeds.rows("default.orders_by") == [("a", 5), ("b", 9)]
    assert feeds.rows("default.scores") == [("a", 50), ("b", 90)]
    assert json.loads((feeds.folder / "page.txt").read_text()) == {"title": "Revenue", "amounts": [14]}


def test_dbt(old: Path) -> None:
    dbt = use_fake_dbt(old / "dbt")
    done = dbt.dbt("plan")
    assert done.code == 0, done.err
    assert "planned models: 0 run, 3 current, 0 blocked" in done.out
    dbt.write({"dbt/models/staging/stg.sql": "select id, 2 as two from {{ ref('raw') }}"})
    assert dbt.dbt("build").code == 0
    assert "planned models: 0 run, 3 current, 0 blocked" in dbt.dbt("plan").out
    assert dbt.plan()["other"] == ("skip", "no change")
