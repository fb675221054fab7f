"""Few groups are collected and written without Spark; whatever that cannot do, Spark does."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from sqb.build.incremental import group_state
from sqb.build.kinds import table
from sqb.spark.data import local_rows
from support.sandbox import Sandbox, ordered_rows


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What went to a stage without Spark: figures, or rows of a result."""
    done: list[str] = []
    fill, collect = group_state.fill_stage, table.collect_and_fill

    def fill_stage(*given: Any) -> bool:
        is_filled = fill(*given)
        done.append("figures" if is_filled else "figures by Spark")
        return is_filled

    def collect_and_fill(*given: Any) -> Any:
        written = collect(*given)
        done.append("rows" if written is not None else "rows by Spark")
        return written

    monkeypatch.setattr(group_state, "fill_stage", fill_stage)
    monkeypatch.setattr(table, "collect_and_fill", collect_and_fill)
    return done


def make(sandbox: Sandbox, query: str, header: str = "", settings: str = "") -> None:
    sandbox.write("sqlbuild_project.toml", f'name = "sandbox"\n[incremental]\nmin_rows = 0\n{settings}')
    sandbox.write("models/m/groups.sql", f"-- @refresh: incremental\n{header}{query}")
    sandbox.sql("CREATE SCHEMA raw")


def run(sandbox: Sandbox, query: str, run_type: str = "incremental") -> None:
    done = next(n for n in sandbox.build().nodes if n.planned.name == "m.groups")
    assert (done.error, done.run_type) == (None, run_type)
    assert sandbox.rows("m.groups") == ordered_rows(sandbox.sql(query))
    # Readers outside see the same through the statistics of the files.
    assert sandbox.sql(f"SELECT * FROM m.groups EXCEPT ALL ({query})") == []


FACTS = "FROM raw.facts AS f JOIN raw.dims AS d ON f.k = d.k"
KINDS = f"""SELECT t, i, d.d, ts, ntz, s, b, flag, dec, upper(s) AS big, CAST(i AS TINYINT) AS tiny,
    named_struct('a', CAST(i AS SMALLINT), 'b', array(s, NULL)) AS nested, CAST(NULL AS DOUBLE) AS nothing,
    CAST(sum(x) AS DOUBLE) AS total, count(*) AS n, max(x) AS most, min(x * dec) AS least, avg(dec) AS mean
    {FACTS} GROUP BY t, i, d.d, ts, ntz, s, b, flag, dec"""
ZONE = """[connections.local.spark.conf]
"spark.sql.session.timeZone" = "{}"
"""


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_values_of_every_type_come_out_as_spark_would_write_them(
    sandbox: Sandbox, filled: list[str], zone: str
) -> None:
    make(sandbox, KINDS)
    sandbox.edit("sqlbuild_project.toml", "[incremental]", ZONE.format(zone) + "[incremental]")
    sandbox.sql("CREATE TABLE raw.facts (k BIGINT, x INT)")
    sandbox.sql(
        "CREATE TABLE raw.dims (k BIGINT, t BIGINT, i INT, d DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, s STRING,"
        " b BINARY, flag BOOLEAN, dec DECIMAL(12,3))"
    )
    sandbox.sql(
        "INSERT INTO raw.dims SELECT id, id, CAST(id AS INT), date_add(DATE '1899-12-30', CAST(id AS INT)),"
        " TIMESTAMP '1582-10-10 01:02:03.000004' + make_interval(0, 0, 0, CAST(id AS INT)),"
        " TIMESTAMP_NTZ '2024-03-31 02:30:00', concat('å', id, '\\'${env:HOME}'),"
        " CAST(CAST(id AS STRING) AS BINARY), id % 2 = 0, CAST(id AS DECIMAL(12,3)) / 8 FROM range(20)"
    )
    sandbox.sql("INSERT INTO raw.dims VALUES (-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    sandbox.sql("INSERT INTO raw.dims (k, s, d) VALUES (-2, '', DATE '0001-01-01'), (-3, 'x', DATE '9999-12-31')")
    sandbox.sql("INSERT INTO raw.facts SELECT id - 1, 7 FROM range(12)")
    run(sandbox, KINDS, "backfill")
    for change in (
        "INSERT INTO raw.facts VALUES (3, NULL), (-1, 8), (15, 9)",
        "DELETE FROM raw.facts WHERE k BETWEEN 4 AND 6",
        "INSERT INTO raw.facts VALUES (-2, 1), (-3, 2)",
        "DELETE FROM raw.facts",
    ):
        sandbox.sql(change)
        run(sandbox, KINDS)
        # The figures of a group that is gone are gone too.
        groups = sandbox.sql("SELECT count(*) FROM m.groups")
        assert sandbox.sql("SELECT count(*) FROM m__sqb_state.groups__2") == groups
    assert set(filled) == {"figures", "rows"}


HOSTILE = f"SELECT d.d, d.s, count(*) AS n {FACTS} GROUP BY d.d, d.s"
DIMS = "INSERT INTO raw.dims VALUES (1, DATE '2024-01-01', 'a'), (2, NULL, 'b')"


def make_hostile(sandbox: Sandbox, header: str = "") -> None:
    make(sandbox, HOSTILE, header)
    sandbox.sql("CREATE TABLE raw.facts (k INT)")
    sandbox.sql("CREATE TABLE raw.dims (k INT, d DATE, s STRING)")
    sandbox.sql(DIMS)
    sandbox.sql("INSERT INTO raw.facts VALUES (1)")
    run(sandbox, HOSTILE, "backfill")


@pytest.mark.parametrize("value", ["date_add(DATE '9999-12-31', 1), 'a'", "DATE '2024-01-01', CAST(X'C3' AS STRING)"])
def test_what_python_cannot_describe_is_written_by_spark(sandbox: Sandbox, filled: list[str], value: str) -> None:
    make_hostile(sandbox)
    sandbox.sql(f"INSERT INTO raw.dims SELECT 3, {value}")
    sandbox.sql("INSERT INTO raw.facts VALUES (3), (1)")
    done = next(n for n in sandbox.build().nodes if n.planned.name == "m.groups")
    assert (done.error, done.run_type) == (None, "incremental")
    assert filled == ["figures by Spark", "rows by Spark"]
    hashed = "SELECT unix_date(d) AS d, hex(s) AS s, n FROM"
    assert sandbox.sql(f"{hashed} m.groups EXCEPT ALL {hashed} ({HOSTILE})") == []
    assert sandbox.sql(f"{hashed} ({HOSTILE}) EXCEPT ALL {hashed} m.groups") == []


@pytest.mark.parametrize(
    "header",
    ["-- @partitioned_by: d\n", "-- @sorted_by: s\n", "-- @table_properties: {write.format.default: orc}\n"],
)
def test_a_table_that_is_laid_out_is_written_by_spark(sandbox: Sandbox, filled: list[str], header: str) -> None:
    make_hostile(sandbox, header)
    sandbox.sql("INSERT INTO raw.facts VALUES (1), (2)")
    run(sandbox, HOSTILE)
    assert filled == ["figures", "rows by Spark"]


def test_groups_that_are_not_few_any_more_stay_with_spark(sandbox: Sandbox, filled: list[str]) -> None:
    query = f"SELECT d.name, count(*) AS n, max(f.x) AS most {FACTS} GROUP BY d.name"
    make(sandbox, query, settings="small_rows = 5\n")
    sandbox.sql("CREATE TABLE raw.dims AS SELECT id AS k, concat('g', id) AS name FROM range(10)")
    sandbox.sql("CREATE TABLE raw.facts AS SELECT id AS k, id AS x FROM range(4)")
    run(sandbox, query, "backfill")
    sandbox.sql("INSERT INTO raw.facts SELECT id, id FROM range(3, 9)")
    run(sandbox, query)
    assert filled == []
    sandbox.sql("DELETE FROM raw.facts WHERE k > 1")
    run(sandbox, query)
    sandbox.sql("INSERT INTO raw.facts VALUES (1, 99), (0, NULL)")
    run(sandbox, query)
    sandbox.sql("DELETE FROM raw.facts WHERE x = 99")
    run(sandbox, query)
    assert filled[-2:] == ["figures", "rows"]


def test_rows_that_spark_may_not_hand_over_stay_with_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.sql("SELECT id, repeat('x', 1000) AS text FROM range(3000)")
    assert local_rows.collect_rows(spark, frame, 5_000) is not None
    assert local_rows.collect_rows(spark, frame, 2_999) is None
    error = RuntimeError("Total size of serialized results is bigger than spark.driver.maxResultSize (1024.0 MiB)")
    monkeypatch.setattr(type(frame), "toArrow", lambda self: raise_error(error))
    assert local_rows.collect_rows(spark, frame, 5_000) is None
    error.args = ("another one",)
    with pytest.raises(RuntimeError, match="another one"):
        local_rows.collect_rows(spark, frame, 5_000)


def raise_error(error: Exception) -> None:
    raise error


def test_a_change_that_touches_no_group_writes_no_figures(sandbox: Sandbox, filled: list[str]) -> None:
    make_hostile(sandbox)
    sandbox.sql("INSERT INTO raw.facts VALUES (99)")
    run(sandbox, HOSTILE)
    assert "figures" not in filled
    assert len(sandbox.sql("SELECT * FROM m__sqb_state.groups__2.snapshots")) == 1
