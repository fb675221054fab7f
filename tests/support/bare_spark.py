"""A Spark without Iceberg, as a program of its own: only there can functions be made in Spark's own way.

Reads `{"setup": […], "pairs": {name: [functions, query, other query]}}` and answers with the rows of both queries.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    wanted = json.load(sys.stdin)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")  # type: ignore[attr-defined]
    builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.sql.codegen.wholeStage", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    for statement in wanted["setup"]:
        session.sql(statement)
    answers = {}
    for name, (functions, query, other) in wanted["pairs"].items():
        made = [f.replace("CREATE FUNCTION", "CREATE OR REPLACE TEMPORARY FUNCTION") for f in functions]
        refused = [answer for f in made if not isinstance(answer := _answer(session, f), list)]
        answers[name] = refused or [_answer(session, query), _answer(session, other)]
    session.stop()
    print("answers: " + json.dumps(answers))


def _answer(session: SparkSession, query: str) -> Any:
    try:
        frame = session.sql(query)
        rows = sorted(repr(tuple(row)) for row in frame.collect())
        return [[f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields], rows]
    except Exception as error:
        condition = getattr(error, "getCondition", None)
        return (condition() if condition is not None else None) or type(error).__name__


if __name__ == "__main__":
    main()
