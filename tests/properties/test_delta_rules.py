"""Random queries over random changes: the change by the rules of their operators is the one that comparing gives.

All on DuckDB, which has no part in the product but gives the same answers to these queries, thousands of times faster.
`SQB_RULES_SEEDS` says how many queries; `make soak` asks for thousands. A difference is shrunk and printed.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import get_args

import pytest

from sqb.sql.delta.rules import RULES
from sqb.sql.delta.rules.places import How
from support.rule_cases import (
    Outcome,
    RuleTrial,
    list_trials,
    list_trials_of,
    list_ways,
    read_trial,
    run_trial,
    shrink,
)

SEEDS = int(os.environ.get("SQB_RULES_SEEDS", "32"))
FIRST = int(os.environ.get("SQB_RULES_FIRST", "0"))
# What only asks whether something fails does not wait for a small case.
SHRINKS = os.environ.get("SQB_RULES_SHRINK", "1")
BLOCKS = 4
# Queries that failed once, in fewer words: figures that no rule adds changes to were read for ever; what DuckDB says
# of no rows, which is not what Spark says of them.
FOUND = (
    "SELECT q2.s AS x0, count(*) AS x1 FROM raw.f AS q1 FULL JOIN raw.b AS q2 ON q1.k = q2.n FULL JOIN raw.z AS q5"
    " ON q2.k = q5.g GROUP BY q2.s",
    "SELECT q1.g AS x0, sum(q1.k) AS x1 FROM raw.e AS q1 FULL JOIN raw.z AS q2 USING (g) GROUP BY q1.g"
    " HAVING sum(q1.n) >= (SELECT max(q3.n) FROM raw.b AS q3)",
    "SELECT sum(q1.k) AS x0, count(*) AS x1, count(DISTINCT q1.s) AS x2, count_if(q1.k > 0) AS x3 FROM raw.e AS q1",
)


# For each rule and each way of a place a query in which nothing hides a mistake.
PLAIN = (
    "SELECT DISTINCT f.k AS x0, f.g AS x1 FROM raw.f AS f",
    "SELECT a.k AS x0 FROM raw.a AS a UNION SELECT b.k AS x0 FROM raw.b AS b",
    "SELECT f.k AS x0 FROM raw.f AS f EXCEPT ALL SELECT e.g AS x0 FROM raw.e AS e",
    "SELECT f.k AS x0 FROM raw.f AS f INTERSECT ALL SELECT e.g AS x0 FROM raw.e AS e",
    "SELECT f.k AS x0 FROM raw.f AS f UNION ALL SELECT e.g AS x0 FROM raw.e AS e",
    "SELECT f.k AS x0, a.s AS x1, b.n AS x2 FROM raw.f AS f JOIN raw.a AS a ON f.k = a.k JOIN raw.b AS b ON a.k = b.k",
    "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.k AND f.g < a.g",
    "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f LEFT JOIN raw.a AS a USING (k)",
    "SELECT f.k AS x0, a.s AS x1 FROM raw.f AS f RIGHT JOIN raw.a AS a ON f.k = a.k",
    "SELECT f.k AS x0, a.k AS x1, a.s AS x2 FROM raw.f AS f FULL JOIN raw.a AS a ON f.k = a.k",
    "SELECT f.k AS x0 FROM raw.f AS f LEFT ANTI JOIN raw.a AS a ON f.k = a.k",
    "SELECT f.k AS x0 FROM raw.f AS f WHERE EXISTS (SELECT 1 FROM raw.a AS a WHERE a.k = f.k AND a.g <> f.g)",
    "SELECT f.k AS x0 FROM raw.f AS f WHERE f.k IN (SELECT a.k AS y FROM raw.a AS a)",
    "SELECT f.k AS x0 FROM raw.f AS f WHERE f.k NOT IN (SELECT a.k AS y FROM raw.a AS a WHERE a.g = 1)",
    "SELECT f.k AS x0 FROM raw.f AS f WHERE f.g = 1 OR f.k IN (SELECT a.k AS y FROM raw.a AS a)",
    "SELECT f.k AS x0 FROM raw.f AS f WHERE f.n > (SELECT max(b.n) AS y FROM raw.b AS b) - 3",
    "SELECT f.k AS x0, (SELECT count(*) FROM raw.a AS a WHERE a.k = f.k) AS x1 FROM raw.f AS f",
    "SELECT a.s AS x0, count(*) AS x1, sum(f.d) AS x2, max(f.n) AS x3 FROM raw.f AS f JOIN raw.a AS a ON f.k = a.k"
    " GROUP BY a.s",
    "SELECT a.s AS x0, sum(f.n) AS x1 FROM raw.f AS f LEFT JOIN raw.a AS a ON f.k = a.k GROUP BY a.s"
    " HAVING count(*) > 1",
    "SELECT f.k AS x0, f.n AS x1, rank() OVER (PARTITION BY f.k ORDER BY f.n) AS x2 FROM raw.f AS f",
    "SELECT x0, count(*) AS x1 FROM (SELECT f.k AS k, count(*) AS x0 FROM raw.f AS f GROUP BY f.k) AS q GROUP BY x0",
    "WITH q AS (SELECT f.k AS k, f.n AS n FROM raw.f AS f) SELECT q1.k AS x0, q2.n AS x1 FROM q AS q1 JOIN q AS q2"
    " ON q1.k = q2.k",
)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_rules_give_what_comparing_gives(block: int) -> None:
    outcomes = [try_all(list_trials(seed)) for seed in range(FIRST + block, FIRST + SEEDS, BLOCKS)]
    ran = sum(outcome == "same" for found in outcomes for outcome in found)
    # A query that DuckDB cannot run, or that has no operators, says nothing.
    assert ran >= 0.7 * sum(map(len, outcomes))


def try_all(trials: list[RuleTrial]) -> list[Outcome]:
    outcomes = []
    for trial in trials:
        outcome, found = run_trial(trial)
        if outcome == "different":
            smaller: RuleTrial = shrink(trial) if SHRINKS else trial
            pytest.fail(smaller.describe(run_trial(smaller)[1] or found))
        outcomes.append(outcome)
    return outcomes


def test_every_rule_is_tried_often() -> None:
    """The test above would hold of queries that are only compared."""
    rules: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        for trial in list_trials(seed):
            if read := read_trial(trial):
                _, tree, proposal = read
                rules.update(chosen.rule for chosen in proposal.rules.values())
                ways.update(way for index in proposal.rules for way in list_ways(tree, proposal, index))
    assert {rule.name for rule in RULES} == rules.keys()
    assert set(get_args(How)) == ways.keys()
    least = SEEDS / 10
    assert min(rules.values()) >= least and min(ways.values()) >= least, (rules, ways)


@pytest.mark.parametrize("sql", PLAIN)
def test_plain_queries(sql: str) -> None:
    for seed in range(2):
        try_all(list_trials_of(sql, Random(seed), seed))


@pytest.mark.parametrize("sql", FOUND)
def test_what_was_wrong_once(sql: str) -> None:
    for seed in range(4):
        try_all(list_trials_of(sql, Random(seed), seed))
