"""Window functions: the partitions that a changed row is part of are evaluated as they are now and as they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.join_rows import find_body_obstacle
from sqb.sql.delta.rules.places import Version, edit_term, list_terms, render_block
from sqb.sql.delta.rules.touch_groups import compare_touched, edit_version, evaluate_part
from sqb.sql.delta.skeleton.model import Edit

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    block = case.operator.block
    offset = case.operator.span.start
    if block is None or not block.windows:
        return Obstacle("no window functions")
    if block.by_sets:
        return Obstacle("a window function over grouping sets", offset)
    if not block.partitions and not block.partitionings:
        return Obstacle("a window function without PARTITION BY", offset)
    return find_body_obstacle(case)


def _compute(evaluation: Evaluation, index: int) -> Any:
    block = evaluation.get_operator(index).block
    assert block is not None
    if not block.partitions:
        return _compare_overlapping(evaluation, index, block.partitionings)
    return compare_touched(evaluation, index, block.partitions, block.partition_items)


def _compare_overlapping(evaluation: Evaluation, index: int, partitionings: Sequence[Sequence[str]]) -> Any:
    """The change of a block whose window functions have different partitions.

    What changes is in a partition of a changed row, by one of them. Its values follow from the partitions that it is
    part of itself, by all of them: these are evaluated. What else they hold comes out the same before and after, if
    not as in the result, since it is in no partition of a changed row.
    """
    engine, operator, text = evaluation.engine, evaluation.get_operator(index), evaluation.text
    expressions = [e for partition in partitionings for e in partition]
    listed = ", ".join(f"{e} AS __sqb_g{i}" for i, e in enumerate(expressions))

    def read_keys(edits: Iterable[list[Edit]]) -> str:
        parts = (render_block(text, operator, each, listed, group=False) for each in edits)
        return evaluation.name(engine.persist(engine.run(f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)})")))

    terms = list_terms(text, operator, evaluation.list_changed_places(index), evaluation)
    changed = read_keys(edit_term(operator, term, evaluation.fill) for term in terms)
    versions: tuple[Version, ...] = ("new", "old")
    touched = _match_any(changed, partitionings)
    shared = read_keys(edit_version(evaluation, operator, version, touched) for version in versions)
    condition = _match_any(shared, partitionings)
    frames = [evaluate_part(evaluation, index, version, condition) for version in versions]
    return engine.sum_changes(frames, evaluation.get_frame(index, "new"))


def _match_any(keys: str, partitionings: Sequence[Sequence[str]]) -> str:
    """The rows that are in a partition of some keys, by one way of partitioning."""
    conditions, number = [], 0
    for partition in partitionings:
        same = (f"__sqb_k.__sqb_g{number + i} <=> ({e})" for i, e in enumerate(partition))
        conditions.append(f"EXISTS (SELECT 1 FROM {keys} AS __sqb_k WHERE {' AND '.join(same)})")
        number += len(partition)
    return f"({' OR '.join(conditions)})"


RULE = Rule("partitions", "the partitions of changed rows are evaluated again", _find_obstacle, _compute)
