"""Writes what DuckDB's extensions know of TPC-H and TPC-DS: query texts and columns, or rows. Runs in .venv-tpc.

    python scripts/tpc_generate.py texts FILE                   both benchmarks as one JSON document
    python scripts/tpc_generate.py rows tpch|tpcds SF FOLDER    a Parquet file for each table

The texts follow templates of the TPC, whose licence is not that of this project: they are written where they are used
and are not part of the repository.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import duckdb

GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def connect(benchmark: str) -> Any:
    """A database with the benchmark's extension."""
    package = importlib.import_module(f"duckdb_extension_{benchmark}")
    assert package.__file__ is not None
    file = next(Path(package.__file__).parent.glob("extensions/*/*.duckdb_extension"))
    connection = duckdb.connect()
    connection.execute(f"LOAD '{file}'")
    return connection


def read_benchmark(benchmark: str) -> dict[str, Any]:
    """The query texts by number, and the columns of each table with DuckDB's types."""
    connection = connect(benchmark)
    connection.execute(f"CALL {GENERATORS[benchmark]}(sf=0)")
    texts = connection.execute(f"SELECT query_nr, query FROM {benchmark}_queries() ORDER BY 1").fetchall()
    columns = connection.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY 1, ordinal_position"
    ).fetchall()
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in columns:
        tables.setdefault(table, {})[column] = kind
    return {"queries": {f"q{number:02}": text for number, text in texts}, "tables": tables}


def write_rows(benchmark: str, scale: str, folder: Path) -> None:
    """A Parquet file for each table."""
    connection = connect(benchmark)
    connection.execute(f"CALL {GENERATORS[benchmark]}(sf={float(scale)})")
    folder.mkdir(parents=True, exist_ok=True)
    for (table,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["texts", file]:
            Path(file).write_text(json.dumps({name: read_benchmark(name) for name in GENERATORS}, indent=1))
        case ["rows", ("tpch" | "tpcds") as benchmark, scale, folder]:
            write_rows(benchmark, scale, Path(folder))
        case _:
            sys.exit(__doc__)
