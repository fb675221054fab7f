"""DISTINCT, UNION, INTERSECT and EXCEPT (ALL): whether a row is in the result depends on rows that are equal to it.

So the result is taken for the rows that changed alone, as it is now and as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.places import Version

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    return None if case.operator.kind in ("distinct", "set") else Obstacle("not a set operation")


def _compute(evaluation: Evaluation, index: int) -> Any:
    engine, operator = evaluation.engine, evaluation.get_operator(index)
    like = evaluation.get_frame(index, "new")
    changed = [operator.places[number].input for number in evaluation.list_changed_places(index)]
    rows = engine.list_rows([evaluation.compute_delta(child) for child in changed], like)
    columns = engine.list_columns(like)
    changes = []
    versions: tuple[tuple[Version, int], ...] = (("new", 1), ("old", -1))
    for version, weight in versions:
        frames = (evaluation.get_frame(place.input, version) for place in operator.places)
        sides = [evaluation.name(engine.restrict(frame, rows, like)) for frame in frames]
        changes.append(engine.weigh(engine.run(f"SELECT *, {weight}L FROM ({operator.combine(sides)})"), columns))
    return engine.sum_changes(changes, like)


RULE = Rule("distinct", "rows equal to a changed one are compared", _find_obstacle, _compute)
