"""Checks on real rows: each of the catalogue passes, fails, meets NULL and meets an empty table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sqb.build.checks.report import Failure, Report, format_failure
from sqb.build.checks.store_failures import iter_violating_rows
from sqb.build.checks.verify import verify_checks
from sqb.checks.catalogue import CATALOGUE
from sqb.checks.model import Check, Role
from sqb.errors.base import SqbErrors
from sqb.errors.build import CheckFailed, CheckNotEvaluated
from sqb.lake.iceberg import IcebergLake
from sqb.names import quote
from sqb.project.values import Golden
from support.checks import check, reader

COLUMNS = (
    "id BIGINT, v INT, d DECIMAL(10,2), f DOUBLE, s STRING, e STRING, u STRING, n STRING, ts TIMESTAMP, day DATE,"
    " a BIGINT, b BIGINT, k STRING, l ARRAY<INT>, cid BIGINT"
)
U = "123e4567-e89b-12d3-a456-42661417400"
GOOD = f"""
(1, 0, 1.00, 0.5, 'aa', 'a@b.org', '{U}1', '1', '2026-01-09 20:00:00', '2026-01-01', 0, 10, 'x', array(1), 1),
(2, 3, 2.50, 1.5, 'ab', 'a.b+c@d-e.co.uk', '{U}2', '-2', '2026-01-08', '2026-01-02', 10, 20, 'y', array(1), 2),
(3, 5, 3.00, 2.5, 'aa', 'x@y.z', '{U}3', '3', '2026-01-07', '2026-01-03', 20, 25, 'x', array(NULL), 1),
(4, 7, 4.00, 3.5, 'ab', 'x@y.z', '{U.upper()}4', '4', '2026-01-06', '2026-01-04', 25, 30, 'y', array(1), 2),
(5, 9, 5.00, 4.5, 'ac', 'x@y.z', '{U}5', '5', '2026-01-05', '2026-01-05', 30, NULL, 'x', array(1), 3)
"""
BAD = f"""
(NULL, -1, 0.00, double('NaN'), '', 'nobody', 'x', 'abc', '2020-01-01', '2019-01-01', 0, 10, 'x', array(), 99),
(2, 100, 1.00, double('Infinity'), 'zzzz', 'a@b', '{U}', '9999999999', NULL, NULL, 5, 6, 'x', array(1), 1),
(2, 5, 1.00, 1.0, 'zz', 'a b@c.d', '{U}1', '1.5', NULL, NULL, 100, NULL, 'x', array(1), 1),
(2, 5, 1.00, 1.0, 'zz', 'x@y.z', '{U}1', '1', NULL, NULL, 200, 201, 'x', array(1), 1),
(7, 5, 1.00, 1.0, 'zz', 'x@y.z', '{U}1', '1', NULL, NULL, 50, 50, 'x', array(1), 1),
(9, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""
NOTHING = "(" + ", ".join(["NULL"] * 15) + ")"
RELATIONS = {"good": GOOD, "bad": BAD, "nulls": f"{NOTHING}, {NOTHING}", "empty": ""}
NOW = datetime(2026, 1, 10, tzinfo=UTC).timestamp()
OTHERS = {"customers": "(SELECT id FROM good)", "five": "(SELECT * FROM good)", "staging.ten": "range(10)"}
GOLDEN = {
    "golden/k.csv": Golden("golden/k.csv", ("K", "v"), (("x", "0"), ("y", "3"), ("x", "5"), ("y", "7"), ("x", "9"))),
    "golden/twice.csv": Golden("golden/twice.csv", ("k",), (("x",), ("x",), ("x",), ("y",), ("y",))),
    "golden/once.csv": Golden("golden/once.csv", ("k",), (("x",), ("y",))),
    "golden/odd.csv": Golden("golden/odd.csv", ("k", "v"), (("x", "abc"), (None, None))),
    "golden/none.csv": Golden("golden/none.csv", ("k",), ()),
}
AUDITS = {
    "too_large": "SELECT id, v FROM @@this WHERE v > @@most",
    "strangers": "SELECT @@this.cid, c.id FROM @@this LEFT JOIN customers c ON c.id = @@this.cid WHERE c.id IS NULL",
}
READER = reader(AUDITS, GOLDEN)

ONE, TWO, THREE = "1 row violates it", "2 rows violate it", "3 rows violate it"
# The check as written, and what it says of `bad`, of rows of NULLs and of an empty table; None where it holds.
CASES: list[tuple[str, str | None, str | None, str | None]] = [
    ("not_null(id)", ONE, TWO, None),
    ("not_null(id, v)", TWO, TWO, None),
    ("not_empty(s)", ONE, None, None),
    ("not_empty(l)", ONE, None, None),
    ("at_least_one(id)", None, "no row has a value in id", "no row has a value in id"),
    ("null_percent(v, 10%)", "percentage of NULL in v is 16.666667, not <= 10", "v is 100, not <= 10", None),
    ("required_if(id, v < 0)", ONE, None, None),
    ("unique(id)", THREE, None, None),
    ("composite_unique(v, s)", THREE, None, None),
    ("primary_key(id)", "4 rows violate it", TWO, None),
    ("duplicate_percent(id, 10)", "the percentage of duplicates is 40, not <= 10", None, None),
    ("not_constant(k)", "k has the same value in every row", None, None),
    ("distinct_count(v, =, 5)", "the number of different values of v is 3, not = 5", "v is 0,", "v is 0,"),
    ("approx_distinct(k, >=, 2)", "estimated number of different values of k is 1, not >= 2", "k is 0,", "k is 0,"),
    ("cardinality(k, <=, 2)", None, None, None),
    ("cardinality(v, >, 3)", "the number of different values of v is 3, not > 3", "v is 0,", "v is 0,"),
    ("compare(v, >=, 0)", ONE, None, None),
    ("compare(a, <, b)", ONE, None, None),
    ("compare(day, >=, '2020-01-01')", ONE, None, None),
    ("between(v, 0, 9)", TWO, None, None),
    ("between(ts, TIMESTAMP '2025-01-01', TIMESTAMP '2027-01-01')", ONE, None, None),
    ("in_list(s, 'aa', 'ab', 'ac')", "5 rows violate it", None, None),
    ("not_in(s, 'zzzz')", ONE, None, None),
    ("check(v % 2 = 1 OR v = 0)", TWO, None, None),
    ("no_nan(f)", ONE, None, None),
    ("finite(f)", TWO, None, None),
    ("finite(v)", None, None, None),
    ("like(s, 'a_')", "5 rows violate it", None, None),
    ("not_like(s, 'zzz%')", ONE, None, None),
    (r"matches(n, '^-?\d$')", THREE, None, None),
    ("email(e)", THREE, None, None),
    ("uuid(u)", TWO, None, None),
    ("length_between(s, 1, 3)", TWO, None, None),
    ("length_eq(s, 2)", TWO, None, None),
    ("valid_type(n, int)", THREE, None, None),
    ("valid_type(n, decimal(4,1))", TWO, None, None),
    ("sequential(id)", "id has repeated values", None, None),
    ("sequential_step(id, 1)", "id has repeated values", None, None),
    ("no_overlap(a, b)", TWO, None, None),
    ("no_overlap(a, b, k)", TWO, None, None),
    ("references(cid, customers.id)", ONE, None, None),
    ("reconcile_count(five)", "the number of rows is 6, but 5 in five", "is 2, but 5", "is 0, but 5"),
    ("reconcile_count(staging.ten, 50%)", None, "is 2, but 10 in staging.ten, more than 50% apart", "is 0, but 10"),
    ("reconcile_sum(d, five.d)", "the sum of d is 4, but 15.5 in five.d", "is 0, but 15.5", "is 0, but 15.5"),
    ("golden(golden/k.csv)", "9 rows differ from golden/k.csv", "7 rows differ", "5 rows differ"),
    ("golden(golden/twice.csv)", "5 rows differ from golden/twice.csv", "7 rows differ", "5 rows differ"),
    ("row_count(=, 5)", "the number of rows is 6, not = 5", "is 2, not = 5", "is 0, not = 5"),
    (
        "freshness(ts, 24h)",
        "the newest ts is 2,201 days old, more than 24h 0m",
        "no row has a value in ts",
        "no row has a value in ts",
    ),
    (
        "freshness(day, 10d)",
        "the newest day is 2,566 days old, more than 10 days",
        "no row has a value",
        "no row has a value",
    ),
    ("column_exists(v)", None, None, None),
    ("column_type(d, DECIMAL(10, 2))", None, None, None),
    ("mean(v, <=, 4.8)", "the mean of v is 22.8, not <= 4.8", None, None),
    ("mean(f, =, 2.5)", "the mean of f is NaN, not = 2.5", None, None),
    ("mean_between(d, 3, 3.1)", "the mean of d is 0.8, not between 3 and 3.1", None, None),
    ("min(v, >=, 0)", "the min of v is -1, not >= 0", None, None),
    ("max(v, <, 10)", "the max of v is 100, not < 10", None, None),
    ("min(day, >, DATE '2020-01-01')", "the min of day is 2019-01-01, not > DATE '2020-01-01'", None, None),
    ("max(s, <, 'b')", "the max of s is zzzz, not < 'b'", None, None),
    ("sum(d, =, 15.5)", "the sum of d is 4, not = 15.5", None, None),
    ("median(d, >, 1)", "the median of d is 1, not > 1", None, None),
    ("stddev(v, <, 4)", "the standard deviation of v is 43.234246, not < 4", None, None),
    ("zscore(v, 1.7)", "the greatest z-score of v is 1.78", None, None),
    ("percentile(v, 0.5, <, 6)", None, None, None),
    ("percentile(v, 0.9, <, 10)", "the percentile 0.9 of v is 62, not < 10", None, None),
    ("entropy(k, >, 0.9)", "the entropy is 0, not > 0.9", None, None),
    ("low_entropy(k, 0.5)", "the entropy is 0, not >= 0.5", None, None),
    ("approaching_limit(v, 10, 95%)", "the max of v is 100, which is 95% of 10 or more", None, None),
    ("approaching_limit(v, int)", None, None, None),
    # Without a run before they hold; see below.
    ("row_count_delta(10%)", None, None, None),
    ("sum_delta(v, 10%)", None, None, None),
    ("mean_delta(v, 10%)", None, None, None),
    ("too_large(most => 10)", ONE, None, None),
    ("strangers()", TWO, TWO, None),
]


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession) -> Iterator[None]:
    names = ", ".join(column.split()[0] for column in COLUMNS.replace("(10,2)", "(10;2)").split(", "))
    typed = [c.replace(";", ",").split() for c in COLUMNS.replace("(10,2)", "(10;2)").split(", ")]
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in typed)
    for view, rows in RELATIONS.items():
        source = f"VALUES {rows or NOTHING} AS t({names})" + ("" if rows else " WHERE FALSE")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT {casts} FROM {source}")
    yield
    for view in RELATIONS:
        spark.catalog.dropTempView(view)


class Counting:
    """A session that counts the queries that are run through it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.queries = spark, list[str]()

    def sql(self, text: str) -> Any:
        self.queries.append(text)
        return self.spark.sql(text)


def role_of(text: str) -> Role:
    entry = CATALOGUE.get(text.partition("(")[0])
    return "warning" if entry is not None and entry.roles == ("warning",) else "audit"


def run(spark: Any, texts: list[str], whole: str, **options: Any) -> Report:
    checks = [check(text, role_of(text), READER) for text in texts]
    return verified(spark, checks, whole, whole, **options)


def verified(spark: Any, checks: list[Check], new: str, whole: str, **options: Any) -> Report:
    return verify_checks(spark, checks, new, whole, OTHERS.__getitem__, golden=GOLDEN.__getitem__, now=NOW, **options)


def messages(report: Report) -> dict[str, str]:
    return {failure.check.text: failure.message for failure in (*report.failures, *report.warnings)}


@pytest.mark.parametrize(("relation", "expected"), [("good", None), ("bad", 1), ("nulls", 2), ("empty", 3)])
def test_every_check_on(spark: SparkSession, relation: str, expected: int | None) -> None:
    session = Counting(spark)
    texts = messages(run(session, [case[0] for case in CASES], relation))
    wanted = {case[0]: case[expected] or "" for case in CASES if expected is not None and case[expected]}
    assert set(texts) == set(wanted)
    assert {text: texts[text] for text in texts if wanted[text] not in texts[text]} == {}
    if relation == "good":
        # One for all that can share it; distinct values of three columns, percentiles of two, the entropy of one; the
        # figures of two other relations; ten queries of violations; the columns.
        assert len(session.queries) == 1 + 3 + 2 + 1 + 2 + 10 + 1


def test_no_check_is_left_out() -> None:
    assert {check(case[0], role_of(case[0]), READER).name for case in CASES} == {*CATALOGUE, *AUDITS}


def one(report: Report) -> Failure:
    (failure,) = (*report.failures, *report.warnings)
    return failure


def test_violating_rows_are_shown(spark: SparkSession) -> None:
    failure = one(run(spark, ["in_list(s, 'aa')"], "bad"))
    assert (failure.violations, len(failure.examples)) == (5, 5)
    assert failure.examples[0] | {"e": ""} == {
        "id": "NULL", "v": "-1", "d": "0.00", "f": "NaN", "s": "", "e": "", "u": "x", "n": "abc",
        "ts": "2020-01-01 00:00:00", "day": "2019-01-01", "a": "0", "b": "10", "k": "x", "l": "[]", "cid": "99",
    }  # fmt: skip
    keys = one(run(spark, ["unique(id)"], "bad"))
    assert keys.examples == ({"id": "2", "number of rows": "3"},)


def test_more_than_five_violations_are_counted(spark: SparkSession) -> None:
    whole = "(SELECT id DIV 2 AS id, X'00ff' AS x FROM range(20))"
    outcome = run(spark, ["unique(id)", "compare(id, <, 3)", "too_large(most => -1)"], whole)
    by_text = {failure.check.text: failure for failure in outcome.failures}
    assert (by_text["unique(id)"].violations, len(by_text["unique(id)"].examples)) == (20, 5)
    assert (by_text["compare(id, <, 3)"].violations, by_text["compare(id, <, 3)"].examples[0]["x"]) == (14, "0x00FF")
    with pytest.raises(SqbErrors) as error:
        outcome.raise_failures()
    first = next(e for e in error.value.errors if e.message.startswith("unique"))
    assert first.message == "unique(id): 20 rows violate it"
    assert (first.evidence[0], first.evidence[-1]) == ("id  number of rows", "… and 5 more")
    # `v` is not a column here: that check alone could not be evaluated.
    last = by_text["too_large(most => -1)"]
    assert (last.evaluated, "unknown column" in last.message) == (False, True)


def test_a_check_that_spark_cannot_evaluate_fails_alone(spark: SparkSession) -> None:
    texts = ["not_null(id)", "check(CAST(n AS INT) > 0)", "row_count(>, 100)"]
    checks = [check(text, "constraint") for text in texts]
    checks += [check("mean(v, >, 0)"), check("check(1 / v > 0)", "warning")]
    report = verified(spark, checks, "bad", "bad")
    result = messages(report)
    assert result.pop("check(CAST(n AS INT) > 0)").startswith(
        "it could not be evaluated: the value 'abc' is not a valid"
    )
    assert result == {
        "not_null(id)": ONE,
        "row_count(>, 100)": "the number of rows is 6, not > 100",
        "check(1 / v > 0)": ONE,
    }
    with pytest.raises(SqbErrors) as error:
        report.raise_failures()
    assert {type(e) for e in error.value.errors} == {CheckFailed, CheckNotEvaluated}


def test_row_checks_see_the_new_rows_and_the_others_the_whole(spark: SparkSession) -> None:
    texts = ["not_null(id)", "compare(v, <, 50)", "row_count(=, 6)", "unique(id)", "references(cid, customers.id)"]
    constraints = [check(text, "constraint") for text in texts]
    new = "(SELECT * FROM bad WHERE id = 7)"
    assert messages(verified(spark, constraints, new, "bad")) == {
        "unique(id)": THREE,
        "references(cid, customers.id)": ONE,
    }
    # What held before is asked only about what the new rows touch.
    assert messages(verified(spark, constraints, new, "bad", held_before=lambda check: True)) == {}
    touching = "(SELECT * FROM bad WHERE v = 100)"
    assert messages(verified(spark, constraints, touching, "bad", held_before=lambda check: True)) == {
        "compare(v, <, 50)": ONE,
        "unique(id)": THREE,
    }
    # An empty delta fails nothing that the whole table passes.
    nothing = "(SELECT * FROM good WHERE FALSE)"
    passing = [check(t, "constraint") for t in ("not_null(id)", "row_count(=, 5)", "at_least_one(id)", "unique(id)")]
    assert messages(verified(spark, passing, nothing, "good")) == {}


def test_severities(spark: SparkSession) -> None:
    checks = [check("not_null(id, severity => warn)", "audit"), check("row_count(>, 100)", "warning")]
    report = verified(spark, checks, "bad", "bad")
    assert (report.passed, len(report.warnings)) == (True, 2)
    report.raise_failures()


def test_deltas_compare_with_the_run_before(spark: SparkSession) -> None:
    texts = ["row_count_delta(10%)", "sum_delta(v, 10%)", "mean_delta(v, 10%)"]
    first = run(spark, texts, "good")
    assert first.figures == {"rows": 5, "sum(v)": 24, "about(v)": 24.0, "count(v)": 5}
    remaining = json.loads(json.dumps(first.figures))
    assert messages(run(spark, texts, "good", previous=remaining)) == {}
    assert messages(run(spark, texts, "bad", previous=remaining)) == {
        "row_count_delta(10%)": "the number of rows went from 5 to 6, by more than 10%",
        "sum_delta(v, 10%)": "the sum of v went from 24 to 114, by more than 10%",
        "mean_delta(v, 10%)": "the mean of v went from 4.8 to 22.8, by more than 10%",
    }
    empty = run(spark, texts, "empty", previous=remaining)
    assert messages(empty) == {"row_count_delta(10%)": "the number of rows went from 5 to 0, by more than 10%"}
    assert messages(run(spark, texts, "good", previous=empty.figures)) == {
        "row_count_delta(10%)": "the number of rows went from 0 to 5, by more than 10%"
    }


def test_golden_files_count_repetitions(spark: SparkSession) -> None:
    texts = ["golden(golden/twice.csv)", "golden(golden/once.csv)", "golden(golden/none.csv)"]
    by_name = {f.check.text: f for f in run(spark, texts, "(SELECT k, v FROM good)").failures}
    assert "golden(golden/twice.csv)" not in by_name
    once = sorted(tuple(example.values()) for example in by_name["golden(golden/once.csv)"].examples)
    assert once == [("unexpected", "x", "2"), ("unexpected", "y", "1")]
    assert by_name["golden(golden/none.csv)"].message == "5 rows differ from golden/none.csv"
    assert messages(run(spark, ["golden(golden/none.csv)"], "empty")) == {}
    # A text that is no value of the column's type equals nothing, NULL included; NULL equals NULL.
    whole = "(SELECT CAST(NULL AS STRING) AS k, CAST(NULL AS INT) AS v UNION ALL SELECT 'x', NULL)"
    assert sorted(tuple(row.values()) for row in one(run(spark, ["golden(golden/odd.csv)"], whole)).examples) == [
        ("missing", "x", "abc", "1"),
        ("unexpected", "x", "NULL", "1"),
    ]


def test_columns_of_the_relation(spark: SparkSession) -> None:
    texts = ["column_exists(ghost)", "column_exists(ID)", "column_type(v, bigint)", "column_type(l, array<int>)"]
    assert messages(run(spark, texts, "good")) == {
        "column_exists(ghost)": "there is no column ghost",
        "column_type(v, bigint)": "v is int, not bigint",
    }


def test_odd_numbers(spark: SparkSession) -> None:
    """Sums beyond what a type holds, exact sums of doubles in any order, steps of decimals."""
    whole = (
        "(SELECT CAST(9223372036854775807 AS BIGINT) AS big, 1e300 AS huge, 0.1D AS tenth,"
        " CAST(id * 0.5 AS DECIMAL(38, 2)) AS half FROM range(10))"
    )
    texts = [
        "sum(big, >, 9223372036854775807)",
        "sum(huge, >, 1)",
        "sum(tenth, =, 1)",
        "mean(tenth, =, 0.1)",
        "sequential_step(half, 0.5)",
        "stddev(big, =, 0)",
        "zscore(big, 1)",
        "median(huge, >, 1)",
    ]
    assert messages(run(spark, texts, whole)) == {}
    steps = one(run(spark, ["sequential_step(half, 0.25)"], whole))
    assert steps.message == "half does not go up by 0.25 everywhere"
    assert steps.examples[0] == {"value before": "0.00", "half": "0.50"}


def test_odd_names(spark: SparkSession) -> None:
    """Columns whose names are keywords, hold dots, quotes or blanks, or are those that checks use themselves."""
    names = ["select", "a.b", "it's `col`", "n", "w"]
    whole = f"(SELECT {', '.join(f'id AS {quote(name)}' for name in names)} FROM range(3))"
    forms = (
        "not_null({0})", "unique({0})", "composite_unique({0}, {1})", "compare({0}, =, {1})", "sum({0}, =, 3)",
        "sequential({0})", "no_overlap({0}, {1})", "zscore({0}, 5)", "entropy({0}, >, 1)", "column_exists({0})",
        "references({0}, staging.ten.id)", "distinct_count({0}, =, 3)", "check({0} >= 0)",
    )  # fmt: skip
    pairs = zip(names, [*names[1:], names[0]], strict=True)
    texts = [form.format(quote(one), quote(other)) for one, other in pairs for form in forms]
    assert messages(run(spark, texts, whole)) == {}
    assert len(run(spark, ["sequential_step(n, 2)", "zscore(w, 0.5)", "unique(`a.b`)"], whole).failures) == 2


def test_violating_rows_can_be_kept(spark: SparkSession, lake: IcebergLake) -> None:
    report = run(spark, ["not_null(id)", "row_count(>, 100)", "unique(id)", "strangers()"], "bad")
    at = datetime(2026, 1, 10, 12, tzinfo=UTC)
    for run_id in ("r1", "r2"):
        lake.state.append_failures(iter_violating_rows(spark, report.failures, "s", "staging.bad", run_id, at))
    rows = spark.sql(f"SELECT * FROM {lake.name}.s._sqlbuild_failures WHERE run_id = 'r1'").collect()
    by_check: dict[str, list[Any]] = {}
    for row in rows:
        by_check.setdefault(row.check_text, []).append(row.row_json and json.loads(row.row_json))
    assert by_check["audit: row_count(>, 100)"] == [None]
    assert by_check["audit: unique(id)"] == [{"id": 2, "number of rows": 3}]
    assert [row["v"] for row in by_check["audit: not_null(id)"]] == [-1]
    assert len(by_check["audit: strangers()"]) == 2
    assert {(row.node_name, row.severity) for row in rows} == {("staging.bad", "error")}
    assert {row.ts.astimezone(UTC) for row in rows} == {at}
    assert list(iter_violating_rows(spark, (), "s", "n", "r3", at)) == []


def test_a_table_at_a_version_can_be_checked(spark: SparkSession, lake: IcebergLake) -> None:
    table = f"`{lake.name}`.`s`.`checked`"
    spark.sql(f"CREATE TABLE {table} USING iceberg AS SELECT * FROM good")
    (snapshot,) = (row[0] for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect())
    spark.sql(f"INSERT INTO {table} SELECT * FROM bad")
    shapes = ("not_null", "unique", "no_overlap", "references", "golden", "median", "entropy", "distinct", "strangers")
    texts = [case[0] for case in CASES if case[0].startswith(shapes)]
    assert messages(run(spark, texts, f"{table} VERSION AS OF {snapshot}")) == {}
    assert format_failure(one(run(spark, ["not_null(id)"], table))) == "not_null(id): 1 row violates it"
    spark.sql(f"DROP TABLE {table}")
