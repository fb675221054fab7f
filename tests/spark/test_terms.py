"""A term is written anew from what was parsed: on Spark it is the value of the expression that was written."""

from __future__ import annotations

import sqlglot
from pyspark.sql import SparkSession
from sqlglot import exp

from sqb.sql.delta.keys.expressions import parse_key_expression
from support.terms import SCHEMA, TERMS

ROWS = """
    (0, 0L, '', DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59.999999',
      TIMESTAMP_NTZ '1969-12-31 23:59:59', true, 0D),
    (-7, -4000000000L, ' Ab c ', DATE '2024-02-29', TIMESTAMP '2024-03-31 02:30:00',
      TIMESTAMP_NTZ '2024-10-27 02:30:00', false, double('NaN')),
    (2147483647, 9223372036854775807L, 'ÄÖ ß', DATE '0001-01-01', TIMESTAMP '2024-10-27 02:30:00.123456',
      TIMESTAMP_NTZ '9999-12-31 23:59:59', NULL, -0D),
    (-2147483648, -9223372036854775808L, '💶x', DATE '9999-12-31', NULL, NULL, NULL, NULL),
    (NULL, NULL, NULL, NULL, TIMESTAMP '1582-10-10 00:00:00', TIMESTAMP_NTZ '0001-01-01 00:00:00', NULL, 1.5D)
"""


def test_terms_are_what_was_written(spark: SparkSession) -> None:
    rows = spark.sql(f"SELECT * FROM VALUES {ROWS} AS t({', '.join(SCHEMA)})")
    assert {f.name: f.dataType.simpleString() for f in rows.schema.fields} == SCHEMA
    rows.createOrReplaceTempView("rows_of_every_type")
    pairs = list(TERMS.items())
    columns = ", ".join(f"{one} <=> {other} AS c{i}" for i, (one, other) in enumerate(pairs))
    for row in spark.sql(f"SELECT {columns} FROM rows_of_every_type").collect():
        assert [pair for pair, same in zip(pairs, row, strict=True) if not same] == []
    written = spark.sql(f"SELECT {', '.join(one for one, _ in pairs)} FROM rows_of_every_type").schema.fields
    for field, (one, _) in zip(written, pairs, strict=True):
        assert (one, field.dataType.simpleString()) == (one, _kind(one))


def _kind(expression: str) -> str:
    """The type that a term is said to have."""
    tree = sqlglot.parse_one(expression, dialect="spark")
    for column in list(tree.find_all(exp.Column)):
        column.set("table", exp.to_identifier("t"))
    key_expression = parse_key_expression(tree, {("t", name): kind for name, kind in SCHEMA.items()})
    assert key_expression is not None
    return key_expression[1]
