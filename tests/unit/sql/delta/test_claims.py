"""What is claimed of queries: class, reason, keys. Each claim is also tried on data, where SQLite can run the query."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from sqb.cache import codec
from sqb.sql.delta.facts import Facts, format_key_expression
from sqb.sql.functions.builtins import AGGREGATES, ORDERED_AGGREGATES
from sqb.sql.text.template import Template
from support.pieces import NotThere, facts_of, refute

CLAIMS = yaml.safe_load((Path(__file__).parent / "claims.yml").read_text())
TABLES = CLAIMS["tables"]
# Spark runs these, and the tests of the engine on Spark have their like.
BEYOND_SQLITE = (
    "SELECT o.cid AS c, sum(o.amt) AS s FROM raw.o AS o GROUP BY ALL",
    "SELECT n.k AS k, e.v AS v FROM raw.n AS n LATERAL VIEW explode(n.arr) e AS v",
    "SELECT n.k AS k, count(e.v) AS c FROM raw.n AS n LATERAL VIEW OUTER explode(n.arr) e AS v GROUP BY n.k",
)


@pytest.mark.parametrize("claim", CLAIMS["queries"], ids=lambda claim: claim["query"])
def test_claim(claim: dict[str, Any]) -> None:
    template, facts = facts_of(claim["query"], TABLES)
    assert (facts.kind, facts.why) == (claim["class"], claim.get("why", ""))
    assert _keys(template, facts) == claim.get("keys", [])
    # What is opaque costs a rebuild each time, so there is a reason for it.
    assert ("because" in claim) == (facts.kind == "opaque")


@pytest.mark.parametrize("claim", CLAIMS["queries"], ids=lambda claim: claim["query"])
def test_claim_holds(claim: dict[str, Any]) -> None:
    if claim["query"] in BEYOND_SQLITE:
        with pytest.raises(NotThere):
            refute(claim["query"], TABLES, Random(claim["query"]), rounds=1)
        return
    assert refute(claim["query"], TABLES, Random(claim["query"]), rounds=8)[1] is None


@pytest.mark.parametrize("name", sorted(AGGREGATES | ORDERED_AGGREGATES))
def test_every_aggregate_is_seen(name: str) -> None:
    """An aggregate that passed for a function of one row would make a query linear that is not."""
    table = {"t": {"k": "int", "x": "double", "f": "boolean"}}
    for arguments in ("t.x", "t.f", "t.x, t.k", "0.5) WITHIN GROUP (ORDER BY t.x"):
        facts = facts_of(f"SELECT {name}({arguments}) AS v FROM raw.t AS t", table)[1]
        assert facts.kind == "opaque", f"{name}({arguments}): {facts}"


def test_facts_survive_being_written_down() -> None:
    for claim in CLAIMS["queries"]:
        facts = facts_of(claim["query"], TABLES)[1]
        assert codec.decode(Facts, codec.encode(facts)) == facts


def test_outputs_are_known_by_their_places() -> None:
    facts = facts_of("SELECT o.id % 10, o.g, count(*) FROM raw.o AS o GROUP BY o.id % 10, o.g", TABLES)[1]
    named = facts.name_outputs(["(id % 10)", "G", "count(1)"])
    assert sorted(k.outputs for k in named.keys) == [("(id % 10)",), ("G",)]
    # A generator makes several columns of one item: then only a name that was written tells.
    named = facts.name_outputs(["a", "b", "G", "d"])
    assert sorted(k.outputs for k in named.keys) == [(), ("G",)]


def _keys(template: Template, facts: Facts) -> list[str]:
    items = []
    for key in facts.keys:
        holes = "+".join(f"{template.names[hole]}{hole}.{format_key_expression(term)}" for hole, term in key.slots)
        items.append(f"{holes} as {', '.join(key.outputs)}" if key.outputs else holes)
    return items
