"""TPC-H and TPC-DS with rows: after every change each model is what its query gives over all rows.

`make test` runs one pair. By hand (`make tpc`, hours), or a part of it:

    make tpc ONLY=q03:lineitem                     one query, one changed table
    make tpc ONLY=tpcds:q07                        one query, each of its tables
    make tpc ONLY=tpch::orders                     every query that reads a table
    make tpc ONLY=tpcds MODES=merge-on-read SEED=7
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import tpc_env

from support.required import missing
from support.sandbox import SandboxMaker
from support.tpc_rows import Choice, TpcWorld

BY_HAND = "SQB_TPC_ONLY" in os.environ
CHOICES = [Choice.parse(text) for text in os.environ.get("SQB_TPC_ONLY", "tpch:q03:lineitem").replace(",", " ").split()]
MODES = os.environ.get("SQB_TPC_MODES", "copy-on-write,merge-on-read" if BY_HAND else "copy-on-write").split(",")
ROUNDS = int(os.environ.get("SQB_TPC_ROUNDS", "3" if BY_HAND else "1"))
SEED = int(os.environ.get("SQB_TPC_SEED", "1"))
# The generator of TPC-DS does not end for less.
SCALES = {"tpch": "0.001", "tpcds": "0.01"}
CHANGES = ("inserts", "updates", "deletes")

pytestmark = pytest.mark.timeout(0 if BY_HAND else 900)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rows of each benchmark that is chosen."""
    if not tpc_env.TEXTS.is_file():
        missing("the rows of TPC-H and TPC-DS cannot be made: scripts/tpc_env.py installs what makes them")
    folder = tmp_path_factory.mktemp("tpc")
    for benchmark in {choice.benchmark for choice in CHOICES}:
        tpc_env.generate("rows", benchmark, SCALES[benchmark], str(folder / benchmark))
    return folder


@pytest.fixture
def world(
    new_sandbox: SandboxMaker, tmp_path: Path, rows: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[TpcWorld, Choice]]:
    choice, mode = request.param
    sandbox = new_sandbox(tmp_path / "project")
    made = TpcWorld(sandbox, choice.list_queries(), mode, Random(SEED))
    made.create(rows / choice.benchmark)
    made.build()
    yield made, choice
    print(f"{choice} {mode}: {dict(made.run_types)}")
    sandbox.close()


EVERY = pytest.mark.parametrize(
    "world", [(choice, mode) for choice in CHOICES for mode in MODES], indirect=True, ids=lambda p: f"{p[0]}-{p[1]}"
)


@EVERY
def test_each_table_changes_alone(world: tuple[TpcWorld, Choice]) -> None:
    lake, choice = world
    for table in choice.list_tables():
        for how in CHANGES:
            print(f"{how} in {table}", flush=True)
            lake.change(table, how)
            lake.build()


@EVERY
def test_all_tables_change_at_once(world: tuple[TpcWorld, Choice]) -> None:
    lake, choice = world
    for _ in range(ROUNDS):
        for table in choice.list_read_tables():
            lake.change(table, lake.random.choice(CHANGES))
        lake.build()
