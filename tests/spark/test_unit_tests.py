"""Unit tests of models on real Spark: rows of every type, what is equal to what, CTEs, the clock, empty inputs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from sqb.build.unit_tests.execute import UnitTestRunner
from sqb.build.unit_tests.passed_cache import InputStates
from sqb.errors.base import SqbError
from sqb.lake.metadata.table_state import compute_columns_token
from sqb.lake.port import Columns, ColumnState, TableState
from sqb.names import Relation
from sqb.workspace import open_workspace
from unit.folders import write

Try = Callable[..., str]
STATES = {
    Relation("raw", "typed"): [
        ("id", '"long"'),
        ("small", '"int"'),
        ("price", '"decimal(10, 2)"'),
        ("ratio", '"double"'),
        ("half", '"float"'),
        ("ok", '"boolean"'),
        ("day", '"date"'),
        ("at", '"timestamptz"'),
        ("local", '"timestamp"'),
        ("name", '"string"'),
        ("raw", '"binary"'),
        ("tags", '["list","string",false]'),
        ("counts", '["map","string","int",false]'),
        ("point", '["struct",[["x","int",false],["days",["list","date",false],false]]]'),
    ]
}


@pytest.fixture(scope="module")
def attempt(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Try:
    """Tries one test of a model `m`; what does not hold, as text, and nothing when all does."""

    def attempt(sql: str, test: str, **files: str) -> str:
        root = tmp_path_factory.mktemp("project")
        body = textwrap.indent(textwrap.dedent(test), "    ")
        more = {name.replace("__", "/"): text for name, text in files.items()}
        seeds = {"seeds/rates.csv": "cur,rate\nEUR,1.10\n", "seeds/rates.yml": 'columns: {rate: "decimal(10,4)"}\n'}
        write(
            root,
            {"models/s/m.sql": sql, **seeds, **more, "tests/t.yml": f"tests:\n  - name: t\n    model: s.m\n{body}"},
        )
        workspace = open_workspace(root)
        states = {}
        for relation, columns in STATES.items():
            made = Columns.of(ColumnState(name, kind) for name, kind in columns)
            states[relation] = TableState("u", columns=made, columns_token=compute_columns_token(made))
        try:
            UnitTestRunner(workspace, InputStates(states)).run_test(workspace.project.tests[0], spark)
        except SqbError as error:
            return f"{type(error).__name__} at {error.at}: {error.message}" + (f" ({error.hint})" if error.hint else "")
        return ""

    return attempt


def test_values_of_every_type_come_back_as_they_were_given(attempt: Try) -> None:
    row = """
      id: -9223372036854775808
      small: 7.0
      price: '0.10'
      ratio: 1.5e-7
      half: 0.1
      ok: yes
      day: 2024-02-29
      at: 2026-01-02T03:04:05.678901+02:00
      local: 2026-01-02 03:04:05
      name: "it's \\\\ 'quoted'\\n日本 {x}"
      raw: !!binary AP8=
      tags: [a, null, "b'"]
      counts: {k: 1, l: null}
      point: {x: 1, days: [2024-02-29]}
    """
    one = textwrap.indent(textwrap.dedent(row).strip(), "    ").strip()
    assert (
        attempt(
            "SELECT * FROM raw.typed",
            f"given:\n  raw.typed:\n  - {one}\n  - {{id: 2}}\nexpect:\n  - id: 2\n  - {one}\n",
        )
        == ""
    )


def test_the_same_value_in_other_words(attempt: Try) -> None:
    assert (
        attempt(
            """
        SELECT CAST(9 AS DECIMAL(10, 2)) AS d, 9 AS i, CAST(9 AS DOUBLE) AS f, CAST(0.1 AS FLOAT) AS h,
          DATE '2026-01-02' AS day, TIMESTAMP '2026-01-02 03:04:05' AS at, true AS b, '9' AS s,
          array(1, 2) AS l, map('a', 1.0BD) AS m,
          named_struct('x', 1, 'y', array(TIMESTAMP '2026-01-02 00:00:00')) AS p, INTERVAL '1' DAY AS iv
        """,
            """
        expect:
          - d: 9.0
            i: '9'
            f: 9
            h: 0.1
            day: '2026-01-02'
            at: 2026-01-02T04:04:05+01:00
            b: 'true'
            s: 9
            l: [1.0, 2]
            m: {a: 1}
            p: {y: [2026-01-02], X: 1}
            iv: INTERVAL '1' DAY
        """,
        )
        == ""
    )


NUMBERS = "SELECT * FROM VALUES (1, CAST('NaN' AS DOUBLE)), (1, CAST('NaN' AS DOUBLE)), (2, NULL) AS t(a, b)"


@pytest.mark.parametrize(
    ("sql", "expect", "result"),
    [
        (NUMBERS, "[{a: 1, b: .nan}, {a: 2}, {b: .nan, a: 1}]", ""),
        (NUMBERS, "[{a: 1}, {a: 2}, {a: 1}]", ""),
        (NUMBERS, "[{a: 1, b: .nan}, {a: 2}]", "+   1  NaN     unexpected"),
        (NUMBERS, "[{a: 1, b: .nan}, {a: 1, b: .nan}, {a: 2, b: 0}]", "+   2  NULL    unexpected: b differs"),
        ("SELECT 9.004BD AS d, CAST(9 AS BIGINT) AS i", "[{d: 9.00}]", "-   9.000    expected, missing"),
        ("SELECT 9.004BD AS d, CAST(9 AS BIGINT) AS i", "[{i: 9.5}]", "-   9.5    expected, missing"),
        ("SELECT 0.1D + 0.2D AS d", "[{d: 0.3}]", "+   0.30000000000000004    unexpected"),
        ("SELECT 1 AS a WHERE false", "[]", ""),
        ("SELECT 1 AS a", "[]", "+   1    unexpected"),
        ("SELECT array(1, 2) AS l", "[{l: [2, 1]}]", "-   [2, 1]    expected, missing"),
        ("SELECT map('a', 1, 'b', 2) AS m", "[{m: {b: 2, a: 1}}]", ""),
        ("SELECT 1 AS a, 2 AS a, 3 AS b", "[{b: 3}]", ""),
        (
            "SELECT 1 AS a, 2 AS a",
            "[{a: 1}]",
            "UnknownTestColumn at tests/t.yml:4:14: t: the result of s.m: more than one column",
        ),
        ("SELECT 1 AS total", "[{totl: 1}]", "there is no column \"totl\" (did you mean 'total'?)"),
        (
            "SELECT 1 AS a",
            "[{a: x}]",
            'UnfitTestValue at tests/t.yml:4:14: t: the result of s.m: `a`: "x" is not a value of type INT',
        ),
        ("SELECT DATE '2026-01-02' AS a", "[{a: 2026-02-30}]", "is not a value of type DATE"),
        ("SELECT id FROM range(10001)", "[]", "TooManyTestRows"),
        ("SELECT 1 / 0 AS a", "[]", "QueryFailed at models/s/m.sql:1:8: division by zero"),
        ("SELECT nope AS a", "[]", 'unknown column "nope"\nin the unit test t (tests/t.yml:2:11)'),
    ],
)
def test_what_is_equal_and_what_is_told(attempt: Try, sql: str, expect: str, result: str) -> None:
    messages = attempt(sql, f"expect: {expect}")
    assert (result in messages) if result else messages == ""


def test_in_order(attempt: Try) -> None:
    sql = "SELECT id FROM range(3) ORDER BY id DESC"
    assert attempt(sql, "ordered: true\nexpect: [{id: 2}, {id: 1}, {id: 0}]") == ""
    assert "but in another order" in attempt(sql, "ordered: true\nexpect: [{id: 0}, {id: 1}, {id: 2}]")


CTES = """
WITH big AS (SELECT id, price FROM raw.typed AS t WHERE t.price > 1),
  sums (n, total) AS (WITH big AS (SELECT 1) SELECT count(*), sum(x.price) FROM (SELECT * FROM raw.typed) AS x)
SELECT big.id, sums.total FROM big JOIN sums ON true JOIN rates ON rates.rate > 1
"""


def test_ctes_and_inputs_that_are_not_given(attempt: Try) -> None:
    given = "given: {typed: [{id: 1, price: 2}, {id: 2, price: 1}]}\n"
    assert attempt(CTES, given + "expect_ctes: {BIG: [{id: 1}], sums: [{n: 2, total: 3.00}]}\nexpect: []") == ""
    assert attempt(CTES, given + "expect_ctes: {sums: [{total: 4}]}").startswith(
        "UnitTestFailed at tests/t.yml:2:11: t: the CTE sums gave other rows than expected\n"
    )


def test_the_clock_stands_still(attempt: Try) -> None:
    sql = """
    SELECT now() AS a, current_timestamp AS b, current_date AS c, localtimestamp AS d, unix_timestamp() AS e,
      curdate() - 1 AS f, 'now()' AS g, current_timestamp() AS h, date_trunc('MONTH', now()) AS i
    """
    at, day = "2026-01-02 03:04:05", "2026-01-02"
    expect = f"{{a: {at}, b: {at}, c: {day}, d: {at}, e: 1767323045, f: 2026-01-01, g: now(), h: {at}, i: 2026-01-01}}"
    assert attempt(sql, f"now: {at}\nexpect: [{expect}]") == ""
    assert attempt(sql, f"now: 2026-01-02T05:04:05+02:00\nexpect: [{expect}]") == ""
    assert attempt("SELECT current_date > DATE '2026-01-02' AS later", "expect: [{later: true}]") == ""


def test_types_that_the_test_declares_or_that_nobody_knows(attempt: Try) -> None:
    sql = "SELECT typeof(a) AS a, typeof(b) AS b, typeof(c) AS c FROM raw.nowhere"
    assert (
        attempt(sql, "given: {nowhere: [{a: 1, b: 2.5, c: 2026-01-02}]}\nexpect: [{a: bigint, b: double, c: date}]")
        == ""
    )
    assert (
        attempt(
            sql,
            "given: {nowhere: [{a: [1], b: {x: y}, c: yes}]}\n"
            "expect: [{a: array<bigint>, b: 'struct<x:string>', c: boolean}]",
        )
        == ""
    )
    columns = "{a: int, b: 'decimal(5,1)', c: array<string>}"
    expect = "[{a: int, b: 'decimal(5,1)', c: array<string>}]"
    assert attempt(sql, f"given: {{nowhere: {{columns: {columns}, rows: [[1, 2, [x]]]}}}}\nexpect: {expect}") == ""
    assert attempt(sql, f"given: {{nowhere: {{columns: {columns}}}}}\nexpect: []") == ""
    csv = 'given: {nowhere: {csv: "a,b,c\\n1,x,2026-01-02\\n"}}\n'
    assert attempt(sql, csv + "expect: [{a: bigint, b: string, c: date}]") == ""
    typed = "given: {typed: {columns: {price: double}, rows: [{price: 1}]}}\nexpect: [{p: double, d: date}]"
    assert attempt("SELECT typeof(price) AS p, typeof(day) AS d FROM raw.typed", typed) == ""


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("", "InputNotGiven at tests/t.yml:2:11: t: s.m reads raw.nowhere, of which no rows are given"),
        ("given: {nowhere: []}", "InputNotGiven at tests/t.yml:2:11: t: no columns of raw.nowhere are known or given"),
        (
            "given: {nowhere: [{a: 1}], rates: [{curr: x}]}",
            "t: seeds.rates: there is no column \"curr\" (did you mean 'cur'?)",
        ),
        (
            "given: {nowhere: [{a: 1}], rates: [{rate: 1.23456}]}",
            "`rate`: 1.23456 is not a value of type DECIMAL(10,4)",
        ),
        ("given: {nowhere: [{a: 1}], rates: [{rate: x}]}", '`rate`: "x" is not a value of type DECIMAL(10,4)'),
    ],
)
def test_given_rows_that_cannot_be(attempt: Try, given: str, result: str) -> None:
    assert result in attempt("SELECT n.a FROM raw.nowhere AS n CROSS JOIN rates", f"{given}\nexpect: []")


def test_columns_of_models_that_are_not_built(attempt: Try) -> None:
    files = {
        "models__s__base.sql": "SELECT id, CAST(price AS STRING) AS text, r.rate FROM raw.typed CROSS JOIN rates AS r",
        "models__s__view.sql": "-- @kind: view\nSELECT *, id * 2 AS twice FROM base",
        "models__s__hist.sql": "-- @kind: scd2\n-- @unique_key: id\nSELECT id FROM base",
    }
    sql = """
    SELECT v.id, typeof(v.text) AS text, typeof(v.twice) AS twice, typeof(v.rate) AS rate, h.is_current
    FROM view AS v JOIN hist AS h ON h.id = v.id
    """
    given = "given: {view: [{id: 1}], hist: [{id: 1, is_current: true}]}\n"
    expect = "expect: [{id: 1, text: string, twice: bigint, rate: 'decimal(10,4)', is_current: true}]"
    assert attempt(sql, given + expect, **files) == ""
    assert "there is no column \"txt\" (did you mean 'text'?)" in attempt(
        sql, "given: {view: [{txt: 1}]}\nexpect: []", **files
    )


def test_self_joins_qualified_names_and_variables(attempt: Try) -> None:
    sql = "SELECT raw.typed.id, o.id AS other, @@region AS r FROM raw.typed JOIN raw.typed AS o ON o.id > raw.typed.id"
    toml = {"sqlbuild_project.toml": 'name = "x"\n[vars]\nregion = "us"\n'}
    test = "vars: {region: eu}\ngiven: {raw.typed: [{id: 1}, {id: 2}]}\nexpect: [{id: 1, other: 2, r: eu}]"
    assert attempt(sql, test, **toml) == ""


def test_a_session_is_left_as_it_was(attempt: Try, spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert attempt("SELECT 1 AS a", "expect: [{a: 1}]") == ""
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
