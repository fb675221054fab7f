"""Random projects and random changes: after every build each relation is what a full rebuild would give.

A project has one to six tables and models over them and over each other: stars, snowflakes, aggregates over aggregates,
outer joins, set operations, windows, subqueries. Every run of the tests builds the projects of the same seeds; a
failure prints the seed and the project, made small, as the files of a case. To run some seeds again, or many new ones:

    SQB_EXACTNESS_SEED=4711,4712 pytest tests/properties/test_exactness.py
    SQB_EXACTNESS_PROJECTS=200 pytest tests/properties/test_exactness.py -s      (make soak)
    SQB_EXACTNESS_PROJECTS=200 SQB_EXACTNESS_FIRST=1000 pytest …                 (from a seed of one's own)
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

from support.exactness import FEATURES, NotExact, World, list_features, make_world, shake
from support.sandbox import SandboxMaker
from support.shrink_projects import render_case, shrink_project, take_project

# Every run builds these: many small projects, and some larger ones. `make soak` builds the largest.
FIXED = range(40)
SEED = os.environ.get("SQB_EXACTNESS_SEED")
PROJECTS = os.environ.get("SQB_EXACTNESS_PROJECTS")
FIRST = os.environ.get("SQB_EXACTNESS_FIRST")
MODELS = int(os.environ.get("SQB_EXACTNESS_MODELS", "5" if PROJECTS else "2"))
# How many tables a query may read, through views and CTEs: what Spark plans for minutes says no more than what it
# plans at once.
RELATIONS = os.environ.get("SQB_EXACTNESS_RELATIONS", "40" if PROJECTS else None)
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
    first = int(FIRST) if FIRST is not None else SystemRandom().randrange(2**32)
    return list(range(first, first + int(PROJECTS)))


SEEDS = list_seeds()


def find_relations(seed: int) -> int:
    """How many relations a query of a seed's project may read."""
    if RELATIONS is not None:
        return int(RELATIONS)
    return 10 if seed % 5 == 0 else 5


@pytest.mark.timeout(0 if PROJECTS else 1800)
@pytest.mark.parametrize("block", range(1 if SEED else BLOCKS))
def test_incremental_equals_full(new_sandbox: SandboxMaker, block: int) -> None:
    counted: Counter[str] = Counter()
    rebuilt: Counter[str] = Counter()
    features: set[str] = set()
    for seed in SEEDS[block :: 1 if SEED else BLOCKS]:
        relations = find_relations(seed)
        print(
            f"SQB_EXACTNESS_SEED={seed} SQB_EXACTNESS_MODELS={MODELS} SQB_EXACTNESS_RELATIONS={relations}", flush=True
        )
        began = time.monotonic()
        world = try_seed(seed, new_sandbox, relations)
        features |= list_features(world)
        print(f"  {time.monotonic() - began:.1f} s, {dict(world.run_types)}", flush=True)
        counted += world.run_types
        counted["figures of groups"] += world.states
        rebuilt += world.rebuilt
    print(f"{dict(counted)}; rebuilt: {dict(rebuilt)}; without: {sorted(FEATURES - features)}")
    # Projects that are only rebuilt, or have no groups whose changes are added up, would pass too.
    assert SEED or (counted["incremental"] > counted["full"] and counted["figures of groups"] > 0)
    # So would projects that are all alike.
    assert SEED or PROJECTS or features == FEATURES


def try_seed(seed: int, new_sandbox: SandboxMaker, relations: int) -> World:
    """Build the project of a seed, change its tables and build again, some times."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        sandbox = new_sandbox(Path(folder) / "project")
        world, tables = make_world(sandbox, random, MODELS, relations)
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
