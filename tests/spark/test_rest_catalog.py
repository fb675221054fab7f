"""A project on a REST catalog: Spark writes through the server, planning and publishing ask it directly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqb.lake.janitor.run import Janitor
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.settings import Retention
from sqb.spark.engine import Engine
from support.rest_server import RestServer
from support.sandbox import Sandbox, names_by_status

PROJECT = """name = "sandbox"
[targets.dev]
connection = "team"
[connections.team]
catalog = {{ type = "rest", name = "team", uri = "{uri}", warehouse = "{warehouse}" }}
"""
ORDERS = (
    "-- @kind: merge\n-- @unique_key: id\n-- @constraint: not_null(id)\nSELECT id, day, n FROM raw_orders WHERE n > 0"
)


@pytest.fixture
def rest(rest_server: RestServer, engine: Engine, tmp_path: Path) -> Iterator[Sandbox]:
    """A project whose lake is a REST catalog and a folder; the shared Spark knows another catalog as `lake`."""
    rest_server.empty()
    warehouse = tmp_path / "warehouse"
    made = Sandbox(tmp_path / "project", engine, LakeLocation("team", "rest", "team", rest_server.uri, str(warehouse)))
    made.write("sqlbuild_project.toml", PROJECT.format(uri=rest_server.uri, warehouse=warehouse))
    made.write("seeds/raw_orders.csv", "id,day,n\n1,1,10\n2,1,20\n3,2,0\n")
    made.write("models/marts/orders.sql", ORDERS)
    made.write("models/marts/per_day.sql", "SELECT day, sum(n) AS n FROM orders GROUP BY day")
    made.write("models/marts/top.sql", "-- @kind: view\nSELECT day FROM per_day WHERE n > 25")
    yield made
    made.close()


def test_the_life_of_a_project(rest: Sandbox) -> None:
    assert names_by_status(rest.build()) == {"ok": ["marts.orders", "marts.per_day", "marts.top", "seeds.raw_orders"]}
    assert rest.rows("marts.orders") == [(1, 1, 10), (2, 1, 20)]
    assert rest.rows("marts.top") == [(1,)]
    assert {n.action for n in rest.plan().nodes} == {"skip"}
    assert not rest.asked, "planning needs no Spark"
    # New rows, through the seed and the tables to the view.
    rest.write("seeds/raw_orders.csv", "id,day,n\n1,1,10\n2,1,20\n3,2,30\n")
    rest.build()
    assert rest.rows("marts.per_day") == [(1, 30), (2, 30)]
    assert rest.rows("marts.top") == [(1,), (2,)]
    # A table takes the place of a view, and a view that of a table.
    rest.edit("models/marts/top.sql", "-- @kind: view\n", "")
    rest.edit("models/marts/per_day.sql", "SELECT", "-- @kind: view\nSELECT")
    assert not [n for n in rest.build().nodes if n.error]
    assert rest.rows("marts.per_day") == [(1, 30), (2, 30)]
    assert rest.rows("marts.top") == [(1,), (2,)]
    kinds = {
        str(r): p.is_view
        for r, p in rest.lake().list_pointers().items()
        if r.schema == "marts" and "_sqlb" not in r.name
    }
    assert kinds == {"marts.orders": False, "marts.per_day": True, "marts.top": False}
    assert rest.stages() == []
    nothing = Retention(stages=0, history=0, snapshots=0, files=0, keep_snapshots=1)
    swept = list(Janitor(rest.lake(), nothing).clean())
    assert [s for s in swept if s.what == "kept"] == []
    assert rest.rows("marts.orders") == [(1, 1, 10), (2, 1, 20), (3, 2, 30)]
    assert {n.action for n in rest.plan().nodes} == {"skip"}


def test_virtual_environments(rest: Sandbox) -> None:
    with (rest.folder / "sqlbuild_project.toml").open("a") as file:
        file.write("[virtual]\nenabled = true\n")
    assert not [n for n in rest.build(virtual_env="dev").nodes if n.error]
    rest.edit("models/marts/per_day.sql", "sum(n)", "max(n)")
    rest.edit("models/marts/orders.sql", "n > 0", "n >= 0")
    assert not [n for n in rest.build(virtual_env="pr").nodes if n.error]
    assert rest.shown("dev")["per_day"] == [(1, 30)]
    assert rest.shown("pr")["per_day"] == [(1, 20), (2, 0)]
    assert rest.shown("pr")["orders"] == [(1, 1, 10), (2, 1, 20), (3, 2, 0)]
    assert not [n for n in rest.build(virtual_env="dev").nodes if n.error]
    assert rest.shown("dev") == rest.shown("pr")
