"""UNION ALL: the changes of both sides together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    return None if case.operator.kind == "union" else Obstacle("not a UNION ALL")


def _compute(evaluation: Evaluation, index: int) -> Any:
    places = evaluation.get_operator(index).places
    deltas = [evaluation.compute_delta(places[number].input) for number in evaluation.list_changed_places(index)]
    return evaluation.engine.sum_changes(deltas, evaluation.get_frame(index, "new"))


RULE = Rule("union", "the changed rows of its branches pass", _find_obstacle, _compute)
