"""The list of tests/tpc/coverage.yml: benchmark → query → changed table → `followed`, or why it is rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.tpc import BENCHMARKS, FOLLOWED, classify_pairs, read_queries

Coverage = Mapping[str, Mapping[str, Mapping[str, str]]]

COVERAGE = Path(__file__).resolve().parent.parent / "tpc" / "coverage.yml"
_HEADER = """\
# What becomes of a change of one table, and of all tables of a query at once: followed, or why the model is rebuilt.
# Written by `python scripts/tpc_coverage.py --write`. What is followed may only grow.
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A pair of which the list says something else than the code."""

    pair: str
    listed: str | None
    now: str | None

    @property
    def is_lost(self) -> bool:
        return self.listed == FOLLOWED

    def __str__(self) -> str:
        return f"{'LOST ' if self.is_lost else ''}{self.pair}: {self.listed} → {self.now}"


def classify_benchmarks() -> Coverage:
    """What today's code makes of every pair."""
    return {b: {query.name: dict(classify_pairs(query)) for query in read_queries(b)} for b in BENCHMARKS}


def read_coverage() -> Coverage:
    """What the list says."""
    coverage: dict[str, Any] = yaml.safe_load(COVERAGE.read_text())
    return coverage


def render(coverage: Coverage) -> str:
    """The list as text: a line for each pair, so that a change of one is a change of one line."""
    return _HEADER + yaml.safe_dump(coverage, sort_keys=False, width=200, allow_unicode=True)


def compare(listed: Coverage, now: Coverage) -> list[Difference]:
    """The pairs that differ, those that are no longer followed first."""
    before, after = _flatten(listed), _flatten(now)
    pairs = [p for p in {**before, **after} if before.get(p) != after.get(p)]
    differences = [Difference(pair, before.get(pair), after.get(pair)) for pair in pairs]
    return sorted(differences, key=lambda d: (not d.is_lost, d.pair))


def _flatten(coverage: Coverage) -> dict[str, str]:
    return {
        f"{benchmark} {query}:{table}": kind
        for benchmark, queries in coverage.items()
        for query, tables in queries.items()
        for table, kind in tables.items()
    }
