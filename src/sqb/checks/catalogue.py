"""All checks, one line each: its name, its module and function, where it may be used, and how it is written.

To add a check, write its function in the module of its family and give it a line here, one in docs/checks.md, and
rows in tests/spark/test_checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqb.checks.arguments import Arguments
from sqb.checks.library import deltas, presence, ranges, reconcile, sequences, statistics, tables, text, uniqueness
from sqb.checks.model import Role, Test
from sqb.light_dataclass import dataclass

ANYWHERE: tuple[Role, ...] = ("constraint", "audit", "warning")
AFTER: tuple[Role, ...] = ("audit", "warning")
WARNING: tuple[Role, ...] = ("warning",)


@dataclass(frozen=True, slots=True)
class Entry:
    """A check that exists."""

    name: str
    read: Callable[[Arguments], Test]
    roles: tuple[Role, ...]
    usage: str
    synonyms: tuple[str, ...] = ()


_ALL = (
    Entry("not_null", presence.not_null, ANYWHERE, "not_null(column, …)"),
    Entry("not_empty", presence.not_empty, ANYWHERE, "not_empty(column)"),
    Entry("at_least_one", presence.at_least_one, ANYWHERE, "at_least_one(column)"),
    Entry("null_percent", presence.null_percent, ANYWHERE, "null_percent(column, percent)"),
    Entry("required_if", presence.required_if, ANYWHERE, "required_if(column, condition)"),
    Entry("unique", uniqueness.unique, ANYWHERE, "unique(column, …)"),
    Entry("composite_unique", uniqueness.composite_unique, ANYWHERE, "composite_unique(column, column, …)"),
    Entry("primary_key", uniqueness.primary_key, ANYWHERE, "primary_key(column, …)"),
    Entry("duplicate_percent", uniqueness.duplicate_percent, ANYWHERE, "duplicate_percent(column, …, percent)"),
    Entry("not_constant", uniqueness.not_constant, ANYWHERE, "not_constant(column)"),
    Entry("distinct_count", uniqueness.distinct_count, ANYWHERE, "distinct_count(column, operator, number)"),
    Entry("approx_distinct", uniqueness.approx_distinct, AFTER, "approx_distinct(column, operator, number)"),
    Entry("cardinality", uniqueness.distinct_count, WARNING, "cardinality(column, operator, number)"),
    Entry("compare", ranges.compare, ANYWHERE, "compare(column, operator, value or column)"),
    Entry("between", ranges.between, ANYWHERE, "between(column, low, high)"),
    Entry("in_list", ranges.in_list, ANYWHERE, "in_list(column, value, …)", ("accepted_values",)),
    Entry("not_in", ranges.not_in, ANYWHERE, "not_in(column, value, …)"),
    Entry("check", ranges.check, ANYWHERE, "check(condition)"),
    Entry("no_nan", ranges.no_nan, ANYWHERE, "no_nan(column)"),
    Entry("finite", ranges.finite, ANYWHERE, "finite(column)"),
    Entry("like", text.like, ANYWHERE, "like(column, 'pattern')"),
    Entry("not_like", text.not_like, ANYWHERE, "not_like(column, 'pattern')"),
    Entry("matches", text.matches, ANYWHERE, "matches(column, 'regular expression')"),
    Entry("email", text.email, ANYWHERE, "email(column)"),
    Entry("uuid", text.uuid, ANYWHERE, "uuid(column)"),
    Entry("length_between", text.length_between, ANYWHERE, "length_between(column, least, greatest)"),
    Entry("length_eq", text.length_eq, ANYWHERE, "length_eq(column, length)"),
    Entry("valid_type", text.valid_type, ANYWHERE, "valid_type(column, type)"),
    Entry("sequential", sequences.sequential, ANYWHERE, "sequential(column)"),
    Entry("sequential_step", sequences.sequential_step, ANYWHERE, "sequential_step(column, step)"),
    Entry("no_overlap", sequences.no_overlap, ANYWHERE, "no_overlap(start, end, column, …)"),
    Entry("references", reconcile.references, ANYWHERE, "references(column, relation.column)", ("relationships",)),
    Entry("reconcile_count", reconcile.reconcile_count, AFTER, "reconcile_count(relation, percent)"),
    Entry("reconcile_sum", reconcile.reconcile_sum, AFTER, "reconcile_sum(column, relation.column, percent)"),
    Entry("golden", reconcile.golden, AFTER, "golden(golden/file.csv)"),
    Entry("row_count", tables.row_count, ANYWHERE, "row_count(operator, number)"),
    Entry("freshness", tables.freshness, AFTER, "freshness(column, duration)"),
    Entry("column_exists", tables.column_exists, AFTER, "column_exists(column)"),
    Entry("column_type", tables.column_type, AFTER, "column_type(column, type)"),
    Entry("mean", statistics.mean, AFTER, "mean(column, operator, number)"),
    Entry("mean_between", statistics.mean_between, AFTER, "mean_between(column, low, high)"),
    Entry("min", statistics.least, AFTER, "min(column, operator, value)"),
    Entry("max", statistics.greatest, AFTER, "max(column, operator, value)"),
    Entry("sum", statistics.total, AFTER, "sum(column, operator, number)"),
    Entry("median", statistics.median, AFTER, "median(column, operator, number)"),
    Entry("stddev", statistics.stddev, AFTER, "stddev(column, operator, number)"),
    Entry("zscore", statistics.zscore, AFTER, "zscore(column, greatest distance)"),
    Entry("percentile", statistics.percentile, AFTER, "percentile(column, share, operator, number)"),
    Entry("entropy", statistics.entropy, AFTER, "entropy(column, operator, number)"),
    Entry("low_entropy", statistics.low_entropy, WARNING, "low_entropy(column, least)"),
    Entry("row_count_delta", deltas.row_count_delta, WARNING, "row_count_delta(percent)"),
    Entry("sum_delta", deltas.sum_delta, WARNING, "sum_delta(column, percent)"),
    Entry("mean_delta", deltas.mean_delta, WARNING, "mean_delta(column, percent)"),
    Entry("approaching_limit", deltas.approaching_limit, WARNING, "approaching_limit(column, limit, percent)"),
)

CATALOGUE: Mapping[str, Entry] = {entry.name: entry for entry in _ALL}
_BY_WORD: Mapping[str, Entry] = {word: entry for entry in _ALL for word in (entry.name, *entry.synonyms)}
WORDS: tuple[str, ...] = tuple(_BY_WORD)


def find_check(word: str) -> Entry | None:
    """The check that a word names, by its own name or a synonym, in any case."""
    return _BY_WORD.get(word.lower())
