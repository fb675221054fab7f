"""Ask Spark for its functions and write `src/sqb/sql/columns/functions/spark_functions.py`: a few minutes, on one core.

    python scripts/spark_functions.py

A number of arguments is taken if Spark does not refuse it as such. A function has a result type if all calls that Spark
accepts, with arguments of many types, have one and the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession

FILE = Path(__file__).resolve().parents[1] / "src/sqb/sql/columns/functions/spark_functions.py"
HEADER = '''"""The functions of Spark 4.1: name, numbers of arguments (`+`: or more), the type of results if it is one.

scripts/spark_functions.py asks Spark and writes this file; tests/spark/test_columns.py asks again.
"""

TABLE = """\\
'''
MOST = 8
COLUMNS = {
    "b": "boolean",
    "i": "int",
    "l": "bigint",
    "d": "double",
    "m": "decimal(10,2)",
    "s": "string",
    "y": "binary",
    "t": "date",
    "ts": "timestamp",
    "ai": "array<int>",
    "as_": "array<string>",
    "aa": "array<array<int>>",
    "msi": "map<string,int>",
    "mis": "map<int,string>",
    "st": "struct<a:int>",
    "ast": "array<struct<a:int,b:string>>",
}
TWO = ("i", "d", "s", "t", "ts", "as_", "msi", "b", "ai")
THREE = ("i", "s", "t", "as_")
# Spark's grammar reads these itself, or takes any even number of arguments.
LEFT_OUT = frozenset(["case", "cast", "try_cast", "named_struct", "map"])
# The type depends on what the calls here do not try: elements of arrays, the precision of times, intervals.
DEPENDENT = frozenset(
    [
        "array_insert",
        "flatten",
        "map_filter",
        "map_from_entries",
        "slice",
        "median",
        "shiftleft",
        "shiftright",
        "shiftrightunsigned",
        "try_divide",
        "current_time",
        "make_time",
        "to_time",
        "try_to_time",
        "time",
        "window_time",
        "session_window",
        "json_tuple",
        "in",
        "nanvl",
    ]
)
_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)\n", re.DOTALL)


def main() -> None:
    """Ask for all functions and write the table."""
    logging.disable(logging.CRITICAL)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")  # type: ignore[attr-defined]
    session = builder.config("spark.sql.timeType.enabled", "true").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    session.sql(f"SELECT {nulls}").createOrReplaceTempView("t")
    names = sorted(row[0] for row in session.sql("SHOW FUNCTIONS").collect())
    lines = [line for name in names if name.replace("_", "").isalnum() and (line := describe_function(session, name))]
    FILE.write_text(HEADER + "\n".join(lines) + '\n"""\n', encoding="utf-8")
    session.stop()


def describe_function(session: SparkSession, name: str) -> str | None:
    """The line of a function in the table; None for what is not called in expressions."""
    counts = [n for n in range(MOST + 1) if takes_count(session, name, n)]
    if name in LEFT_OUT or not counts:
        return None
    is_unbounded = {MOST - 1, MOST} <= set(counts)
    while is_unbounded and len(counts) > 1 and counts[-2] == counts[-1] - 1:
        counts.pop()
    kinds = set() if name in DEPENDENT else set(iter_result_types(session, name, counts))
    result = kinds.pop() if len(kinds) == 1 else "?"
    return f"{name} {','.join(map(str, counts))}{'+' if is_unbounded else ''} {result}"


def takes_count(session: SparkSession, name: str, count: int) -> bool:
    """Whether Spark takes a call with so many arguments, whatever it says of their types."""
    text = explain(session, f"SELECT {name}({', '.join(['s'] * count)}) AS r FROM t")
    return "[WRONG_NUM_ARGS" not in text and "ROUTINE" not in text


def iter_result_types(session: SparkSession, name: str, counts: list[int]) -> Iterator[str]:
    """The types of all calls that Spark accepts."""
    for count in counts:
        if count > 4:
            continue
        columns = {1: tuple(COLUMNS), 2: TWO, 3: THREE}.get(count, ())
        calls = product(columns, repeat=count) if count < 4 else ((c,) * count for c in COLUMNS)
        for arguments in calls:
            found = _ANALYZED.search(explain(session, f"SELECT {name}({', '.join(arguments)}) AS r FROM t"))
            if found and re.fullmatch(r"r: [a-z_<>:,() \d]+", found[1]) and found[1] != "r: void":
                yield found[1].removeprefix("r: ")


def explain(session: SparkSession, query: str) -> str:
    """What Spark makes of a query, its refusal included: EXPLAIN raises nothing."""
    return "\n".join(row[0] for row in session.sql(f"EXPLAIN EXTENDED {query}").collect())


if __name__ == "__main__":
    main()
