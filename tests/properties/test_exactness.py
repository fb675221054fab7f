"""Random projects and random changes: after every build each relation is what a full rebuild would give.

A project has one to six tables and models over them and over each other: stars, snowflakes, aggregates over aggregates,
outer joins, set operations, windows, subqueries. Every run of the tests builds the projects of the same seeds; a
failure prints the seed and the project, made small, as the files of a case. To run some seeds again, or many new ones:

    SQB_EXACTNESS_SEED=4711,4712 pytest tests/properties/test_exactness.py
    SQB_EXACTNESS_PROJECTS=200 pytest tests/properties/test_exactness.py -s      (make soak)
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom

import pytest

from support.exactness import NotExact, World, make_world, shake
from support.sandbox import SandboxMaker
from support.shrink_projects import render_case, shrink_project, take_project

# Every run builds these: many small projects. `make soak` builds larger ones.
FIXED = range(48)
SEED = os.environ.get("SQB_EXACTNESS_SEED")
PROJECTS = os.environ.get("SQB_EXACTNESS_PROJECTS")
MODELS = int(os.environ.get("SQB_EXACTNESS_MODELS", "5" if PROJECTS else "2"))
# How many tables a query may read, through views and CTEs: what Spark plans for minutes says no more than what it
# plans at once.
RELATIONS = int(os.environ.get("SQB_EXACTNESS_RELATIONS", "40" if PROJECTS else "10"))
BUILDS = int(os.environ.get("SQB_EXACTNESS_BUILDS", "1"))
# How many smaller projects are tried when one fails.
SHRINKS = int(os.environ.get("SQB_EXACTNESS_SHRINKS", "60"))
BLOCKS = 4


def list_seeds() -> list[int]:
    """The seeds of this run: those that are asked for, as many new ones as are asked for, or those of every run."""
    if SEED is not None:
        return [int(seed) for seed in SEED.split(",")]
    if PROJECTS is None:
        return list(FIXED)
    first = SystemRandom().randrange(2**32)
    return list(range(first, first + int(PROJECTS)))


SEEDS = list_seeds()


@pytest.mark.timeout(0 if PROJECTS else 1800)
@pytest.mark.parametrize("block", range(1 if SEED else BLOCKS))
def test_incremental_equals_full(new_sandbox: SandboxMaker, block: int) -> None:
    counted: Counter[str] = Counter()
    rebuilt: Counter[str] = Counter()
    for seed in SEEDS[block :: 1 if SEED else BLOCKS]:
        print(
            f"SQB_EXACTNESS_SEED={seed} SQB_EXACTNESS_MODELS={MODELS} SQB_EXACTNESS_RELATIONS={RELATIONS}", flush=True
        )
        began = time.monotonic()
        world = try_seed(seed, new_sandbox)
        print(f"  {time.monotonic() - began:.1f} s, {dict(world.run_types)}", flush=True)
        counted += world.run_types
        counted["figures of groups"] += world.states
        rebuilt += world.rebuilt
    print(f"{dict(counted)}; rebuilt: {dict(rebuilt)}")
    # Projects that are only rebuilt, or have no groups whose changes are added up, would pass too.
    assert SEED or (counted["incremental"] > counted["full"] and counted["figures of groups"] > 0)


def try_seed(seed: int, new_sandbox: SandboxMaker) -> World:
    """Build the project of a seed, change its tables and build again, some times."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        sandbox = new_sandbox(Path(folder) / "project")
        world, tables = make_world(sandbox, random, MODELS, RELATIONS)
        try:
            world.build()
            for _ in range(BUILDS):
                shake(world, random, tables)
                world.build()
        except NotExact as error:
            small, found = shrink_project(take_project(world), error, new_sandbox, SHRINKS)
            case = render_case(small, new_sandbox, f"what the random project of seed {seed} showed")
            raise NotExact(f"seed {seed}\n{case or found}") from None
        finally:
            sandbox.close()
    # Frames that nothing refers to any more keep what they hold in Spark until Python collects them.
    gc.collect()
    return world
