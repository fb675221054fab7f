"""Window functions: the partitions that a changed row is part of are evaluated as they are now and as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.add_up import split_places
from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.join_rows import find_body_obstacle
from sqb.sql.delta.rules.touch_groups import compare_touched

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    block = case.operator.block
    offset = case.operator.span.start
    if block is None or not block.windows:
        return Obstacle("no window functions")
    if block.by_sets:
        return Obstacle("a window function over grouping sets", offset)
    if not block.partitions:
        named = any(window.partition for window in block.windows)
        what = (
            "window functions without a PARTITION BY in common" if named else "a window function without PARTITION BY"
        )
        return Obstacle(what, offset)
    beneath, beside = split_places(case.operator, case.changed_places)
    if beside:
        return Obstacle("a subquery beside window functions", case.operator.places[beside[0]].span.start)
    return find_body_obstacle(case, beneath)


def _compute(evaluation: Evaluation, index: int) -> Any:
    block = evaluation.get_operator(index).block
    assert block is not None
    return compare_touched(evaluation, index, block.partitions, block.partition_items)


RULE = Rule("partitions", "the partitions of changed rows are evaluated again", _find_obstacle, _compute)
