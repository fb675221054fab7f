"""The engine: silent, isolated per worker, cancellable, and gone when it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from sqb.lake.iceberg import IcebergLake
from sqb.spark.errors import explain_failure
from sqb.spark.session.local import ClassicEngine as Engine

START = """
import os, signal, sys, time
from pathlib import Path
from sqb.errors.base import SqbError
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.spark.errors import explain_failure
from sqb.spark.session.local import start_engine

def start(folder, **conf):
    folder = Path(folder)
    connection = Connection(spark=SparkSettings(master="local[2]", conf={"spark.driver.memory": "1g", **conf}))
    place = LakeLocation.embedded(folder / "catalog.db", folder / "data")
    return start_engine(connection, place, folder / "log" / "spark.log", print, 2)
"""


def run(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_workers_do_not_share_settings_or_views(engine: Engine) -> None:
    first, second = engine.worker_session(), engine.worker_session()
    first.conf.set("spark.sql.iceberg.snapshot-property.sqb.model", "x")
    first.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    assert second.conf.get("spark.sql.iceberg.snapshot-property.sqb.model", None) is None
    assert not second.catalog.tableExists("mine")


def test_interrupts_still_belong_to_the_caller(engine: Engine) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_table_committed_beside_spark_is_seen(spark: SparkSession, lake: IcebergLake) -> None:
    spark.sql("CREATE OR REPLACE TABLE s.beside AS SELECT 1L AS id")
    assert spark.table("s.beside").count() == 1
    table = lake.writer.catalog.load_table("s.beside")
    table.append(table.scan().to_arrow())
    assert spark.table("s.beside").count() == 2


def test_cancel_ends_what_runs(engine: Engine) -> None:
    session = engine.worker_session()
    failures: list[BaseException] = []

    def slow() -> None:
        try:
            # Many short tasks: those that have begun are not interrupted, and must not take the tests after this one.
            session.sql("SELECT max(sha2(string(id), 512)) FROM range(0, 400000000, 1, 8000)").collect()
        except Exception as error:
            failures.append(error)

    worker = threading.Thread(target=slow)
    worker.start()
    deadline = time.monotonic() + 60
    while worker.is_alive() and time.monotonic() < deadline:
        time.sleep(0.5)
        engine.cancel_all()
    worker.join(10)
    assert [explain_failure(error, "").kind for error in failures] == ["cancelled"]
    assert engine.alive()


def test_nothing_is_printed_nothing_is_left(tmp_path: Path) -> None:
    home = tmp_path / "my project? 100%"
    here = tmp_path / "here"
    home.mkdir()
    here.mkdir()
    done = run(
        f"""
        before = signal.getsignal(signal.SIGINT)
        engine = start({str(home)!r})
        assert signal.getsignal(signal.SIGINT) is before
        session = engine.worker_session()
        session.sql("CREATE NAMESPACE a")
        session.sql("CREATE TABLE a.t AS SELECT 1 AS id")
        assert session.table("a.t").count() == 1
        try:
            session.sql("SELECT nope FROM a.t")
        except Exception as error:
            assert explain_failure(error, "").message == 'unknown column "nope"'
        pid = engine._process.pid
        os.kill(pid, signal.SIGINT)
        assert session.sql("SELECT 1").collect()[0][0] == 1
        engine.stop()
        engine.stop()
        assert not engine.alive()
        assert not Path(f"/proc/{{pid}}").exists()
        again = start({str(home)!r})
        session = again.worker_session()
        assert session.table("a.t").count() == 1
        os.kill(again._process.pid, signal.SIGKILL)
        try:
            session.sql("SELECT 1").collect()
        except Exception as error:
            assert explain_failure(error, "").kind == "lost", error
        again._process.wait()
        assert not again.alive()
        again.cancel_all()
        again.stop()
        """,
        here,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(here.iterdir()) == []
    assert (home / "log" / "spark.log").stat().st_size > 0


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(
        f"""
        options = {{"spark.driver.extraJavaOptions": "-XX:+UseG1GC -XX:+UseSerialGC"}}
        for conf in (options, {{"spark.master": "nonsense"}}):
            try:
                start({str(tmp_path)!r}, **conf)
            except SqbError as error:
                print(error.code, error.message, error.hint)
        """,
        tmp_path,
    )
    assert done.stderr == ""
    hint = f"Spark's log is {tmp_path}/log/spark.log"
    assert done.stdout.splitlines() == [
        f"SQB-E002 Spark did not start: Multiple garbage collectors selected {hint}",
        f"SQB-E002 Spark did not start: Master must either be yarn or start with spark, k8s, or local {hint}",
    ]


def test_an_interrupted_start_leaves_no_process(tmp_path: Path) -> None:
    done = run(
        f"""
        import threading
        from sqb.spark.session import local
        threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            start({str(tmp_path)!r})
        except KeyboardInterrupt:
            print("interrupted", local._LAUNCHED)
        """,
        tmp_path,
    )
    assert (done.stdout, done.stderr) == ("interrupted []\n", "")
