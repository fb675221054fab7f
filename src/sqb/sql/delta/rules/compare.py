"""Whatever no other rule covers: the operator as it is now is compared with what it was.

For the query as a whole that is no better than a rebuild, so there it is the obstacle. Within a query it pays where
what the operator reads is small, as the figures of groups are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    return None


def _compute(evaluation: Evaluation, index: int) -> Any:
    engine, columns = evaluation.engine, evaluation.list_columns(index)
    changes = [
        engine.weigh(engine.run(f"SELECT *, {weight}L FROM {evaluation.fill(index, version)}"), columns)  # type: ignore[arg-type]
        for version, weight in (("new", 1), ("old", -1))
    ]
    return engine.sum_changes(changes, evaluation.get_frame(index, "new"))


RULE = Rule("compare", "it is evaluated as it is now and as it was", _find_obstacle, _compute)
