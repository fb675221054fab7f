"""Random queries: whatever is claimed of them holds on random data. Spark is not needed to refute a wrong claim."""

from __future__ import annotations

import os
from random import Random

import pytest

from support.pieces import NotThere, facts_of, refute
from support.random_lake import FLAT_SHAPES, Maker, Rel, without_qualify

TABLES = {
    "t0": {"k": "int", "g": "string", "k2": "int", "x": "double"},
    "t1": {"k": "int", "g": "string", "n": "bigint", "g2": "string"},
    "t2": {"k": "bigint", "g": "string", "dt": "date", "k2": "int"},
}
SEEDS = int(os.environ.get("SQB_SOUNDNESS_SEEDS", "150"))


def new_maker(random: Random) -> Maker:
    """Makes queries of few levels: others are tried with all their rules in `test_delta_rules.py`."""
    return Maker(random, [Rel(f"raw.{name}", dict(columns)) for name, columns in TABLES.items()], FLAT_SHAPES)


@pytest.mark.parametrize("block", range(10))
def test_claims_hold(block: int) -> None:
    for seed in range(block, SEEDS, 10):
        random = Random(seed)
        make = new_maker(random)
        sql = without_qualify(make.query(2).sql)
        try:
            facts, wrong = refute(sql, TABLES, random)
        except NotThere:
            continue
        assert wrong is None, f"seed {seed}: {wrong}\n{sql}\n{facts}"


def test_random_queries_are_of_every_class() -> None:
    """The test above would hold of queries that nothing is claimed of."""
    seen = []
    for seed in range(60):
        make = new_maker(Random(seed))
        seen.append(facts_of(without_qualify(make.query(2).sql), TABLES)[1].kind)
    assert seen.count("linear") > 5 and seen.count("keyed") > 20


def test_a_wrong_claim_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that ignores the types of columns: '1' and '01' are two values, and both equal 1."""
    from sqb.sql.delta.keys.propagate import BlockReader

    monkeypatch.setattr(BlockReader, "_has_same_type", lambda self, one, other: True)
    tables = {"s": {"id": "string"}, "c": {"id": "int"}}
    sql = "SELECT s.id AS i FROM raw.s AS s LEFT JOIN raw.c AS c ON s.id = c.id"
    assert refute(sql, tables, Random(1), rounds=30)[1] is not None
