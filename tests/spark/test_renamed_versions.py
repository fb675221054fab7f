"""A model that is renamed in a virtual environment begins as what the environment shows under its old name."""

from __future__ import annotations

from sqb.environments.model import Status
from sqb.environments.promotion.promote import promote
from support.environments import ran, write_project
from support.sandbox import Sandbox

READER = "SELECT day, sum(n) AS n FROM {} GROUP BY day"
TOP = "-- @kind: view\nSELECT day, n FROM {}"


def write_shop(sandbox: Sandbox) -> None:
    models = {
        "stg": "SELECT id, day, n FROM raw.x WHERE n > 0",
        "log": "-- @kind: append\nSELECT id, n FROM stg",
        "shown": TOP.format("stg"),
        "per_day": READER.format("stg"),
        "above": TOP.format("shown"),
    }
    write_project(sandbox, models)


def rename(sandbox: Sandbox) -> None:
    """The same models, three of them under other names."""
    for name in ("stg", "log", "shown"):
        sandbox.remove(f"models/{name}.sql")
    sandbox.write("models/orders.sql", "-- @renamed_from: stg\nSELECT id, day, n FROM raw.x WHERE n > 0")
    sandbox.write("models/journal.sql", "-- @kind: append\n-- @renamed_from: log\nSELECT id, n FROM orders")
    sandbox.write("models/seen.sql", TOP.format("orders").replace("\n", "\n-- @renamed_from: shown\n", 1))
    sandbox.write("models/per_day.sql", READER.format("orders"))
    sandbox.write("models/above.sql", TOP.format("seen"))


def list_computed(sandbox: Sandbox, environment: str) -> list[str]:
    """The tables that a build into an environment would compute, not clone."""
    plan = sandbox.plan(virtual_env=environment)
    return [p.name for p in plan.nodes if p.action == "run" and p.kind != "view" and p.run_type != "reuse"]


def test_a_rename_is_a_name_for_the_same_rows(sandbox: Sandbox) -> None:
    write_shop(sandbox)
    ran(sandbox)
    before = sandbox.shown("dev")
    # What left the source stays in the log: rows that no query gives back.
    sandbox.sql("DELETE FROM raw.x WHERE id = 1")
    ran(sandbox)
    assert (1, 10) in sandbox.shown("dev")["log"]
    before = sandbox.shown("dev")
    rename(sandbox)
    session = sandbox.entered("pr")
    assert {s.name: str(s.reason) for s in session.stale.values() if s.root} == {
        "default.orders": "Config changed",
        "default.journal": "Config changed",
        "default.seen": "Config changed",
    }
    assert list_computed(sandbox, "pr") == []
    ran(sandbox, "pr")
    names = {"stg": "orders", "log": "journal", "shown": "seen"}
    assert sandbox.shown("pr") == {names.get(name, name): rows for name, rows in before.items()}
    assert ran(sandbox, "pr") == [] and sandbox.entered("pr").status is Status.FINALIZED
    # The other environment shows what it did, until the rename is promoted; nothing is built for that.
    assert sandbox.shown("dev") == before
    done = promote(
        sandbox.entered("pr").workspace, sandbox.store(), sandbox.lake(), "pr", "dev", lambda mine, theirs: None
    )
    assert done.promotion.removed == ("default.log", "default.shown", "default.stg")
    assert sandbox.shown("dev") == sandbox.shown("pr") and list_computed(sandbox, "dev") == []
    assert ran(sandbox, "dev") == []
    # From here on it is a model like any other.
    sandbox.sql("INSERT INTO raw.x VALUES (7, 7, 7)")
    assert ran(sandbox, "dev") == ["journal", "orders", "per_day"]
    assert {(1, 10), (7, 7)} <= set(sandbox.shown("dev")["journal"]) and (7, 7) in sandbox.shown("dev")["above"]


def test_a_rename_with_another_query_keeps_a_log(sandbox: Sandbox) -> None:
    write_shop(sandbox)
    ran(sandbox)
    sandbox.sql("DELETE FROM raw.x WHERE id = 1")
    rename(sandbox)
    sandbox.edit("models/journal.sql", "id, n FROM", "id, n, day FROM")
    ran(sandbox)
    assert (1, 10, None) in sandbox.shown("dev")["journal"] and "log" not in sandbox.shown("dev")
    # Without the line, the name in the lake is the one that counts; readers may run once, rows stay.
    journal = sandbox.shown("dev")["journal"]
    sandbox.edit("models/journal.sql", "-- @renamed_from: log\n", "")
    sandbox.edit("models/orders.sql", "-- @renamed_from: stg\n", "")
    assert "journal" not in ran(sandbox) or sandbox.shown("dev")["journal"] == journal
    assert sandbox.shown("dev")["journal"] == journal


def test_renames_of_a_part_wait_for_the_rest(sandbox: Sandbox) -> None:
    write_shop(sandbox)
    ran(sandbox)
    rename(sandbox)
    ran(sandbox, select=("orders",))
    both = sandbox.shown("dev")
    assert both["orders"] == both["stg"] and sandbox.entered().status is Status.ACTIVE
    ran(sandbox)
    assert {"stg", "log", "shown"} & set(sandbox.shown("dev")) == set()
    assert sandbox.entered().status is Status.FINALIZED
