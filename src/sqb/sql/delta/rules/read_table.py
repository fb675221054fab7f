"""A table: the net change between two of its snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    return None if case.operator.kind == "table" else Obstacle("not a table")


def _compute(evaluation: Evaluation, index: int) -> Any:
    return evaluation.inputs.compute_delta(evaluation.get_operator(index).slot)


RULE = Rule("changes", "its changed rows are read", _find_obstacle, _compute)
