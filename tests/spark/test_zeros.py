"""0.0 and -0.0 are two values in rows and checksums, and one value as a key; every NaN is one value."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from sqb.spark.data.changes import MULTIPLICITY, compute_contents, sum_changes
from sqb.spark.data.checksum import build_content_columns, format_content
from sqb.spark.data.diff import compare_rows, keep_missing_rows
from support.sandbox import Sandbox


def test_a_net_change_tells_zeros_apart(spark: SparkSession) -> None:
    zeros = "(1, 0D, 1), (1, -0D, -1), (2, -0D, 1), (2, -0D, -1)"
    rows = f"{zeros}, (3, double('NaN'), 1), (3, double('NaN'), -1), (4, NULL, 1)"
    frame = spark.sql(
        f"SELECT id, x, array(x, float(x)) AS xs, named_struct('x', x) AS s, bigint(n) AS {MULTIPLICITY}"
        f" FROM VALUES {rows} AS t(id, x, n)"
    )
    changes = sum_changes(frame, ["id", "x", "xs", "s"])
    shown = changes.selectExpr("id", "string(x)", "string(xs)", "string(s)", MULTIPLICITY).collect()
    assert sorted(map(tuple, shown), key=str) == sorted(
        [
            (1, "0.0", "[0.0, 0.0]", "{0.0}", 1),
            (1, "-0.0", "[-0.0, -0.0]", "{-0.0}", -1),
            (4, None, "[null, null]", "{null}", 1),
        ],
        key=str,
    )


def test_a_content_tells_zeros_apart_and_no_other_values_than_before(spark: SparkSession) -> None:
    def content(value: str) -> str:
        frame = spark.sql(f"SELECT {value} AS x")
        return format_content(frame.agg(*build_content_columns(frame.schema)).collect()[0].asDict())

    for one, other in (("0D", "-0D"), ("0F", "-0F"), ("array(0D)", "array(-0D)"), ("map('a', 0D)", "map('a', -0D)")):
        assert content(one) != content(other)
    assert content("double('NaN')") == content("-double('NaN')")
    # Written down by a version that did not tell them apart.
    plain = spark.sql("SELECT xxhash64(1364410881, x IS NULL, x) AS h FROM VALUES (0D), (1.5D) AS t(x)").collect()
    frame = spark.sql("SELECT * FROM VALUES (0D), (1.5D) AS t(x)")
    assert compute_contents({"f": frame})["f"].sums[0] == sum(row.h for row in plain) % (1 << 64)


def test_a_diff_has_one_key_and_two_rows(spark: SparkSession) -> None:
    def frame(*rows: str) -> DataFrame:
        return spark.sql(f"SELECT k, v FROM VALUES {', '.join(rows)} AS t(k, v)")

    before = frame("(0D, 1)", "(double('NaN'), 2)", "(1D, 3)", "(NULL, 4)")
    now = frame("(-0D, 1)", "(double('NaN'), 5)", "(1D, 3)", "(NULL, 4)")
    differences = compare_rows(before, now, ["k"], 10)
    assert (differences.added, differences.removed, differences.changed, differences.by_column) == (
        0,
        0,
        2,
        {"k": 1, "v": 1},
    )
    assert sorted(str(dict(r.changes)) for r in differences.changed_rows) == ["{'k': (0.0, -0.0)}", "{'v': (2, 5)}"]
    differences = compare_rows(before, now, [], 10)
    assert (differences.added, differences.removed) == (2, 2)
    # Several rows of one key, in both forms: the first of before goes with the first of now.
    differences = compare_rows(frame("(0D, 1)", "(-0D, 2)"), frame("(0D, 7)", "(-0D, 8)", "(-0D, 9)"), ["k"], 10)
    assert (differences.added, differences.removed, differences.changed, differences.unique) == (1, 0, 2, False)
    assert len(differences.changed_rows) == 2 and len(differences.added_rows) == 1
    assert keep_missing_rows(frame("(0D, 1)", "(2D, 2)"), frame("(-0D, 3)"), ["k"]).count() == 2


def test_models_follow_zeros(sandbox: Sandbox) -> None:
    sandbox.sql("CREATE NAMESPACE raw")
    sandbox.sql("CREATE TABLE raw.t (id INT, x DOUBLE)")
    sandbox.sql("CREATE TABLE raw.u (id INT, x DOUBLE)")
    sandbox.sql("INSERT INTO raw.t VALUES (1, 0D), (2, 1D), (3, double('NaN'))")
    sandbox.sql("INSERT INTO raw.u VALUES (1, 0D), (4, -0D)")
    head = "-- @refresh: incremental\n"
    queries = {
        "shown": "SELECT id, x, CAST(x AS STRING) AS s FROM raw.t",
        "below": "SELECT id, CAST(x AS STRING) AS s FROM m.shown",
        "groups": "SELECT x, count(*) AS n FROM raw.t GROUP BY x",
        "joined": "SELECT t.id AS a, u.id AS b, string(t.x) AS x, string(u.x) AS y"
        " FROM raw.t AS t FULL OUTER JOIN raw.u AS u ON t.x = u.x",
    }
    for name, query in queries.items():
        sandbox.write(f"models/m/{name}.sql", head + query)
    sandbox.write("models/m/log.sql", f"{head}-- @kind: append\nSELECT id, x FROM raw.t")
    assert sandbox.build().ok
    for statement in ("UPDATE raw.t SET x = -0D WHERE id = 1", "INSERT INTO raw.t VALUES (5, 0D)"):
        sandbox.sql(statement)
        result = sandbox.build()
        assert result.ok and all(n.run_type == "incremental" for n in result.nodes if n.status == "ok")
        for name, query in queries.items():
            text = f"SELECT string(struct(*)) FROM ({query})"
            wanted = sorted(str(r[0]) for r in sandbox.sql(text))
            assert sorted(str(r[0]) for r in sandbox.sql(f"SELECT string(struct(*)) FROM m.{name}")) == wanted, name
            assert sandbox.content(f"m.{name}") == sandbox.identities()[f"m.{name}"]["sqb.content"]
    log = sandbox.sql("SELECT id, string(x) FROM m.log")
    assert sorted(map(tuple, log)) == [(1, "-0.0"), (1, "0.0"), (2, "1.0"), (3, "NaN"), (5, "0.0")]
