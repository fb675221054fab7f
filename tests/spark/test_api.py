"""The Python API on real Spark: a session that is handed in is worked on, and left as it was."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sqb
from sqb import events
from sqb.cli import main
from sqb.errors.call import PlanOutOfDate
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.session_settings import RESULT_SETTINGS
from sqb.spark.engine import Engine
from sqb.spark.session.external import use_session
from support.engine import LakeSessions

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/orders.csv": "id,customer,amount\n1,Ada,10\n2,Ada,20\n3,Grace,5\n",
    "models/staging/orders.sql": "-- @constraint: not_null(id)\nSELECT id, customer, amount FROM seeds.orders",
    "models/marts/revenue.sql": "SELECT customer, sum(amount) AS total FROM staging.orders GROUP BY customer",
    "models/marts/big.sql": "-- @kind: view\nSELECT * FROM revenue WHERE total > 10",
    "tests/revenue.yml": "tests:\n- {name: sums, model: revenue, given: {staging.orders: [{customer: A, amount: 1},"
    " {customer: A, amount: 2}]}, expect: [{customer: A, total: 3}]}\n",
}


@pytest.fixture
def project(tmp_path: Path) -> sqb.Project:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sqb.Project(tmp_path)


@pytest.fixture
def spark(engine: Engine, project: sqb.Project) -> SparkSession:
    """A session as a notebook has it, with the project's catalog."""
    return LakeSessions(
        engine, LakeLocation.embedded(project.root / "lake" / "catalog.db", project.root / "lake" / "data")
    ).take()


def test_a_session_that_is_handed_in_does_not_decide_about_rows(project: sqb.Project, spark: SparkSession) -> None:
    theirs = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.variable.substitute": "true",
    }
    for key, value in theirs.items():
        spark.conf.set(key, value)
    text = "SELECT hour(TIMESTAMP '2024-01-01 12:00:00Z') AS h, try_cast('x' AS int) AS x"
    (project.root / "models/marts/hours.sql").write_text(text)
    built = sqb.build(project, select="hours", spark=spark).raise_for_failures()
    assert [n.name for n in built.ran] == ["marts.hours"]
    assert [tuple(r) for r in spark.sql("SELECT h FROM marts.hours").collect()] == [(12,)]
    # A key that looks like a variable is data, also where one session works on after another.
    (project.root / "models/marts/sums.sql").write_text(
        "-- @refresh: incremental\nSELECT customer, sum(amount) AS total FROM seeds.orders GROUP BY customer"
    )
    orders = project.root / "seeds/orders.csv"
    for row in ("4,${env:HOME},1\n", "5,${env:HOME},2\n"):
        orders.write_text(orders.read_text() + row)
        sqb.build(project, select="+sums", spark=spark).raise_for_failures()
    by_name = {r.customer: r.total for r in spark.table("marts.sums").collect()}
    assert by_name == {"Ada": 30, "Grace": 5, "${env:HOME}": 3}
    asked = "SET spark.sql.ansi.enabled", "SET spark.sql.legacy.timeParserPolicy"
    engine = use_session(spark, "lake", lambda _: dict(RESULT_SETTINGS), None)
    try:
        session = engine.worker_session()
        assert [session.sql(text).collect()[0][1] for text in asked] == ["true", "CORRECTED"]
    finally:
        engine.stop()
    assert {key: spark.conf.get(key) for key in theirs} == theirs


def test_a_session_that_is_handed_in(
    project: sqb.Project, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.sql("SELECT 1 AS one").createOrReplaceTempView("mine")
    before = spark.conf.getAll
    heard: list[events.Event] = []
    built = sqb.build(project, spark=spark, listen=heard.append).raise_for_failures()
    assert [n.name for n in built.ran] == ["seeds.orders", "staging.orders", "marts.revenue", "marts.big"]
    assert ([t.status for t in built.tests], built["revenue"].rows) == (["passed"], 2)
    assert {e.name for e in heard if isinstance(e, events.NodeStarted)} == {n.name for n in built}

    # It is the caller's, as it was.
    assert spark.conf.getAll == before and [tuple(r) for r in spark.table("mine").collect()] == [(1,)]
    assert [tuple(r) for r in spark.sql("SELECT * FROM marts.big").collect()] == [("Ada", 30)]

    mine = sqb.Project(project.root, spark=spark)
    rows = mine.query("SELECT customer, total FROM revenue ORDER BY 1")
    assert (rows.columns, rows.rows) == (("customer", "total"), (("Ada", 30), ("Grace", 5)))
    assert str(rows).splitlines()[0].split() == ["customer", "total"]
    with pytest.raises(sqb.errors.CallError):
        mine.query("DROP TABLE marts.revenue")

    # A change, planned and built by another thread.
    (project.root / "seeds/orders.csv").write_text("id,customer,amount\n1,Ada,10\n2,Ada,25\n3,Grace,5\n")
    plan = mine.plan()
    main.run(["plan", "--json", "--project-dir", str(project.root)])
    assert plan.to_dict() == json.loads(capsys.readouterr().out)
    results: list[sqb.Result] = []
    thread = threading.Thread(target=lambda: results.append(mine.build(plan)))
    thread.start()
    thread.join()
    assert [n.name for n in results[0].ran] == ["seeds.orders", "staging.orders", "marts.revenue"]
    assert mine.query("SELECT * FROM big").rows == (("Ada", 35),)

    # What fails is in the result, at its place; a plan of then is refused.
    plan = mine.plan(select="revenue", full_refresh=True)
    (project.root / "models/marts/revenue.sql").write_text(
        "SELECT customer, sum(amount / 0) AS total FROM staging.orders GROUP BY 1"
    )
    with pytest.raises(PlanOutOfDate):
        mine.build(plan)
    failed = mine.build()
    assert [n.name for n in failed.failed] == ["marts.revenue"] and not failed.ok
    text = sqb.error_text(failed.errors[0], project.root)
    assert "models/marts/revenue.sql:1:22" in text and "amount / 0" in text
    assert capsys.readouterr() == ("", "")


def test_sessions_that_do_not_fit(project: sqb.Project, engine: Engine) -> None:
    assert project.build(select="seeds.orders").ok
    other = project.build(select="staging.orders", spark=engine.worker_session())
    assert [n.name for n in other.failed] == ["staging.orders"]
    assert "is another one" in other.errors[0].message
    # A Spark that is there and was not handed in.
    (error,) = project.build(select="staging.orders").errors
    assert error.hint is not None and "spark=spark" in error.hint
