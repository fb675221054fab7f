"""Texts that mean something to Spark's SQL are data here: in keys, in partitions, in the names of columns and tables.

After every build each relation is what its query gives in full. A failure prints everything that was done.

    SQB_HOSTILE_EXAMPLES=50 pytest tests/properties/test_hostile_values.py
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sqb.names import quote
from support.exactness import World
from support.random_lake import Model, Query
from support.sandbox import SandboxMaker

EXAMPLES = int(os.environ.get("SQB_HOSTILE_EXAMPLES", "1"))
KEYS = (
    "${env:HOME}",
    "${spark.app.name}",
    "${system:user.name}",
    "$${x}",
    "${",
    "'",
    "\\",
    "\\'",
    "\\u0041",
    '"',
    "`",
    "a\nb",
    "a\r\n",
    "\t",
    "\0",
    "-- x",
    "/* x",
    ";",
    "%_",
    ":p",
    "?",
    "{{ x }}",
    "@@x",
    "@m()",
    "",
    " ",
    "NULL",
    "a/b=c%2F",
    "\u2028",
    "é",
    "e\u0301",
    "💶",
)
COLUMNS = (
    "${spark.app.name}",
    "a`b",
    "x y",
    "select",
    "it's",
    'a"b',
    "ü",
    "\\n",
    "@@c",
    "--c",
    "a;b",
    "a,b",
    "(a % 2)",
)
# The first example has the first of each.
TABLES = ("${env:HOME}", "a`b", "t", "x y", "it's", "select", "ü", "@@t", "a;b", "--t")

texts = st.one_of(st.sampled_from(KEYS), st.text(st.characters(exclude_categories=["Cs"]), max_size=8))


@pytest.mark.timeout(0 if EXAMPLES > 5 else 900)
def test_hostile_texts_are_data(new_sandbox: SandboxMaker) -> None:
    # Shrinking would mean hundreds of builds; the report holds all that is needed instead.
    @settings(
        max_examples=EXAMPLES,
        derandomize="SQB_HOSTILE_EXAMPLES" not in os.environ,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(
        more=st.lists(texts, max_size=20),
        key=st.sampled_from(COLUMNS),
        value=st.sampled_from(COLUMNS[1:]),
        tables=st.lists(st.sampled_from(TABLES), min_size=2, max_size=2, unique=True),
    )
    def explore(more: list[str], key: str, value: str, tables: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            sandbox = new_sandbox(Path(folder) / "project")
            try:
                _tell(World(sandbox), [*KEYS, *more], key, value if value != key else "v", tables)
            finally:
                sandbox.close()

    explore()


def _tell(world: World, keys: list[str], key: str, value: str, tables: list[str]) -> None:
    one, other = (f"raw.{quote(name)}" for name in tables)
    k, v = quote(key), quote(value)
    world.do("CREATE NAMESPACE raw")
    world.do(f"CREATE TABLE {one} ({k} STRING, {v} INT)")
    world.do(f"CREATE TABLE {other} ({k} STRING, {v} INT) PARTITIONED BY ({k})")
    _insert(world, one, keys, 1)
    _insert(world, other, keys[::2], 2)
    for name, kind, sql, unique in (
        ("groups", "table", f"SELECT {k}, count(*), max({v}) FROM {one} GROUP BY {k}", None),
        ("parts", "table", f"SELECT {k}, sum({v}) AS {v} FROM {other} GROUP BY {k}", None),
        ("alone", "table", _alone(one, other, k, v), None),
        ("merged", "merge", f"SELECT {k} AS id, max({v}) AS {v} {_known(one, k)}", "id"),
        ("log", "append", f"SELECT {k}, {v} FROM {one}", None),
        ("history", "scd2", f"SELECT {k} AS id, sum({v}) AS {v} {_known(other, k)}", "id"),
        ("sets", "tracked", f"SELECT {k} AS id, {v} FROM {other}", None),
    ):
        world.add(Model(f"m.{name}", kind, Query(sql, {"id": "string"}, unique)))
    path = "models/m/parts.sql"
    world.sandbox.edit(path, "-- @kind: table", f"-- @kind: table\n-- @partitioned_by: {k}")
    world.build()
    _insert(world, one, keys[1::2], 3)
    _insert(world, other, keys[:20], 4)
    world.build()
    world.do(f"DELETE FROM {one} WHERE {v} = 1")
    world.do(f"DELETE FROM {other} WHERE {v} = 2")
    world.build()
    assert set(world.run_types) <= {"backfill", "incremental"}, world.run_types


def _known(table: str, k: str) -> str:
    return f"FROM {table} WHERE {k} IS NOT NULL GROUP BY {k}"


def _alone(one: str, other: str, k: str, v: str) -> str:
    return f"SELECT a.{k}, a.{v} FROM {one} AS a WHERE NOT EXISTS (SELECT 1 FROM {other} AS b WHERE b.{k} = a.{k})"


def _insert(world: World, table: str, keys: Iterable[str], value: int) -> None:
    """Rows by their bytes: the test itself must not depend on how Spark reads a string."""
    rows = ", ".join(f"(CAST(X'{key.encode().hex()}' AS STRING), {value})" for key in keys)
    world.do(f"INSERT INTO {table} VALUES {rows}, (NULL, {value})")
