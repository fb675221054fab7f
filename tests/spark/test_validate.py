"""`sqb validate --spark` on real Spark, and selectors that ask what came of builds there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sqb
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.spark.engine import Engine
from support.engine import LakeSessions
from unit.folders import write

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/raw_orders.csv": "id,customer,amount\n1,Ada,10\n2,Ada,20\n3,Grace,5\n",
    "models/staging/orders.sql": "SELECT id, customer, amount FROM raw_orders",
    "models/staging/past.sql": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, amount FROM staging.orders",
    "models/marts/revenue.sql": "SELECT customer, sum(amount) AS total FROM staging.orders GROUP BY customer",
    "models/marts/now.sql": "-- @kind: view\nSELECT id FROM past WHERE is_current",
}
# What only Spark says: sqb does not look at the values of arguments.
ONLY_SPARK = "SELECT max(id) AS id, percentile(amount, 2.0) AS t FROM staging.orders"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


@pytest.fixture
def spark(engine: Engine, root: Path) -> SparkSession:
    return LakeSessions(engine, LakeLocation.embedded(root / "lake" / "catalog.db", root / "lake" / "data")).take()


def test_spark_analyses_what_was_never_built(root: Path, spark: SparkSession) -> None:
    project = sqb.Project(root, spark=spark)
    messages = project.validate(spark=True)
    assert (messages["errors"], messages["analysed"], messages["models"]) == ([], 4, 4)

    write(root, {"models/marts/wrong.sql": ONLY_SPARK, "models/marts/unknown.sql": "SELECT idd FROM orders"})
    write(root, {"models/marts/below.sql": "SELECT w.id, w.t FROM wrong AS w"})
    without = sqb.Project(root, spark=spark).validate()
    assert [(e["code"], e["file"]) for e in without["errors"]] == [("SQB-S006", "models/marts/unknown.sql")]
    messages = sqb.Project(root, spark=spark).validate(spark=True)
    # What sqb tells itself is told once, and what reads a model without columns is not analysed.
    assert [(e["file"], e["line"]) for e in messages["errors"]] == [
        ("models/marts/unknown.sql", 1),
        ("models/marts/wrong.sql", 1),
    ]
    assert messages["analysed"] == 5
    assert not (root / "lake" / "data").exists() or not any((root / "lake" / "data").rglob("*.parquet"))


def names(plan: sqb.Plan) -> list[str]:
    return [node.name for node in plan.nodes]


def test_what_failed_is_selected_and_built_again(root: Path, spark: SparkSession) -> None:
    late = "SELECT customer, IF(total < 10, total, raise_error('too much')) AS total FROM revenue"
    write(root, {"models/marts/checked.sql": late, "models/marts/after.sql": "SELECT customer FROM checked"})
    project = sqb.Project(root, spark=spark)
    assert names(project.plan(select="result:error")) == []
    result = project.build()
    assert not result.ok
    assert names(project.plan(select="result:error")) == ["marts.checked"]
    assert names(project.plan(select=["result:error+", "result:skipped"])) == ["marts.checked", "marts.after"]
    write(root, {"models/marts/checked.sql": late.replace("< 10", "< 100")})
    retried = sqb.Project(root, spark=spark).build(select="result:error+").raise_for_failures()
    assert [n.name for n in retried.ran] == ["marts.checked", "marts.after"]
    assert names(project.plan(select="result:error")) == []


def test_states_are_those_of_the_environment(root: Path, spark: SparkSession) -> None:
    settings = 'name = "shop"\n\n[targets.dev]\nschema = "dev"\n\n[virtual]\nenabled = true\n'
    write(root, {"sqlbuild_project.toml": settings, "models/marts/now.sql": "SELECT customer FROM revenue"})
    project = sqb.Project(root, spark=spark)
    project.build().raise_for_failures()
    assert names(project.plan(select="state:modified")) == names(project.plan(select="state:new")) == []
    revenue = FILES["models/marts/revenue.sql"].replace("sum", "max")
    edits = {"models/marts/revenue.sql": revenue, "models/marts/fresh.sql": "SELECT total FROM revenue"}
    write(root, {"sqlbuild_project.toml": settings, **edits})
    edited = sqb.Project(root, spark=spark)
    assert names(edited.plan(select="state:modified")) == ["marts.revenue", "marts.fresh"]
    # Another environment begins as what the baseline shows: the edit is an edit there too.
    edited.build(select="state:modified+", virtual_env="feature").raise_for_failures()
    assert names(edited.plan(select="state:modified", virtual_env="feature")) == []
    new = edited.plan(select="state:new", include_stale_upstreams=True)
    assert names(new) == ["marts.revenue", "marts.fresh"]
    assert set(names(edited.plan(select="state:old", virtual_env="feature"))) >= {"marts.revenue", "marts.fresh"}
