"""Nodes that use the build's Spark from a process of their own."""

from __future__ import annotations

import json
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sqb.build.python.child_process import Answer, Call, run_child
from sqb.errors.build import CheckFailed, QueryFailed
from sqb.errors.python import NodeTimedOut
from sqb.lake.iceberg import IcebergLake
from sqb.spark.sharing.parent import SharedSession, share_session


class Build:
    """What a build does for its children."""

    def __init__(self, root: Path, session: SparkSession) -> None:
        self.root, self.session = root, session
        self.lent: SharedSession | None = None
        self.ended: list[str] = []
        self.lines: list[str] = []
        (root / "python").mkdir()

    @contextmanager
    def run(self, code: str, type: str = "task", **settings: Any) -> Iterator[Answer]:
        (self.root / "python" / "nodes.py").write_text(textwrap.dedent(code).lstrip("\n"))
        call = Call("n", type, self.root, "nodes", "f", run_id="r", target="dev", **settings)
        with run_child(call, self.serve, threading.Event(), self.lines.append) as answer:
            yield answer

    def serve(self, request: str, arguments: Mapping[str, Any]) -> Any:
        match request:
            case "spark":
                self.lent = share_session(self.session)
                return self.lent.address()
            case "changes":
                self.session.sql("SELECT 1 AS id, -1 AS sign").createOrReplaceGlobalTempView("changes_of_it")
                return "changes_of_it"
            case "ended":
                assert self.lent is not None
                self.lent.end(arguments["view"])
                self.ended.append(arguments["view"])
        return None


@pytest.fixture
def build(tmp_path: Path, spark: SparkSession, lake: IcebergLake) -> Build:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.udf.register("shout", lambda text: text.upper())
    return Build(tmp_path, session)


def test_a_session_is_a_copy_of_the_builds_and_what_it_makes_can_be_read(build: Build) -> None:
    build.session.sql("CREATE OR REPLACE TABLE s.child_in AS SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, name)")
    (version,) = build.session.sql("SELECT max(snapshot_id) FROM s.child_in.snapshots").collect()[0]
    build.session.sql("INSERT INTO s.child_in VALUES (3, 'c')")
    build.session.sql("CREATE OR REPLACE TABLE s.child_out (n BIGINT)")
    (build.root / "python").joinpath("words.py").write_text("def loud(text):\n    return text + MARK\nMARK = '!'\n")
    code = """
        from pyspark.sql import functions as F
        from words import loud

        def f(ctx):
            known = ctx.query(f"SELECT count(*) AS n FROM {ctx.relation('child_in')}").first().n
            ctx.execute(f"INSERT INTO s.child_out SELECT {known} AS n")
            print(ctx.spark.conf.get("spark.sql.shuffle.partitions"), ctx.query("SELECT shout('x')").first()[0])
            print(ctx.spark.catalog.currentCatalog(), ctx.spark.catalog.tableExists("s.child_in"))
            ctx.spark.conf.set("spark.sql.shuffle.partitions", "5")
            ctx.spark.createDataFrame([(1,)], "a int").createOrReplaceTempView("mine")
            louder = F.udf(loud)
            ctx.result({"known": known})
            ctx.write(ctx.ref("child_in").select("id", louder("name").alias("name")))
            return ctx.query("SELECT '9' AS id, 1 AS more")
    """
    names = {"child_in": "`lake`.`s`.`child_in`"}
    pinned = {"child_in": f"`lake`.`s`.`child_in` VERSION AS OF {version}"}
    options = {"columns": {"id": "bigint", "extra": "date"}}
    with build.run(code, "loader", relations=names, pinned=pinned, options=options) as answer:
        assert answer.error is None, answer.error
        assert answer.used_spark and answer.files == ()
        frame = build.session.table(f"global_temp.{answer.view}")
        assert frame.dtypes == [("id", "bigint"), ("name", "string"), ("more", "int"), ("extra", "date")]
        assert sorted(map(tuple, frame.collect())) == [(1, "a!", None, None), (2, "b!", None, None), (9, None, 1, None)]
    assert json.loads(answer.payload) == {"known": 3}
    assert build.lines == ["n: 3 X", "n: lake True"]
    assert build.session.table("s.child_out").first() == (3,)
    # Nothing of the child's session is left in the build's.
    assert build.session.conf.get("spark.sql.shuffle.partitions") == "3"
    assert not build.session.catalog.tableExists("mine")
    assert build.ended == [answer.view]
    assert not build.session.catalog.tableExists(f"global_temp.{answer.view}")


def test_models_read_changes_and_can_neither_stop_spark_nor_let_it_talk(build: Build) -> None:
    code = """
        from pyspark.sql import SparkSession

        def f(ctx):
            found = ctx.changes("x").selectExpr("id", "sign + 1 AS s")
            assert SparkSession.builder.getOrCreate() is ctx.spark
            ctx.spark.stop()
            ctx.spark.sparkContext.stop()
            return found
    """
    with build.run(code, "model", pinned={"x": "`s`.`x`"}) as answer:
        assert build.session.table(f"global_temp.{answer.view}").collect() == [(1, 0)]
    assert build.lines == []


def test_what_spark_refuses_is_told_in_words_with_the_place_in_python(build: Build) -> None:
    code = """
        def f(ctx):
            ctx.query("SELECT idd FROM VALUES (1) AS t(id)")
    """
    with build.run(code) as answer:
        error = answer.error
    assert isinstance(error, QueryFailed) and error.at is not None
    assert (error.message, error.hint, error.at.line) == ('unknown column "idd"', 'did you mean "id"?', 2)
    with build.run("def f(ctx):\n    return ctx.query('SELECT explode(sequence(1, 9)) AS id')", "check") as answer:
        assert isinstance(answer.error, CheckFailed)
        assert answer.error.message == "9 rows violate it"
        assert answer.error.evidence == ("id", "1", "2", "3", "4", "5", "… and 4 more")


def test_a_stopped_node_leaves_no_job_in_spark(build: Build) -> None:
    code = """
        import time
        from pyspark.sql import functions as F

        def slow(x):
            time.sleep(0.2)
            return 1

        def f(ctx):
            spark = ctx.spark
            spark.range(0, 1000, 1, 2).select(F.sum(F.udf(slow, "int")("id"))).collect()
    """
    # Long enough for the child to have Spark, on a busy machine too.
    with build.run(code, timeout=8.0) as answer:
        assert isinstance(answer.error, NodeTimedOut)
        assert answer.error.at is not None and answer.error.at.line == 10
    tracker = build.session.sparkContext.statusTracker()
    until = time.monotonic() + 5
    while tracker.getActiveJobsIds() and time.monotonic() < until:
        time.sleep(0.05)
    assert tracker.getActiveJobsIds() == []
    assert build.session.range(3).count() == 3
