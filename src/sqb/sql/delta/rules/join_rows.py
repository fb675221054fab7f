"""Projections, filters and joins: the telescoped sum of what each changed place gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.places import edit_term, find_way, list_terms, render_block

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def find_body_obstacle(case: RuleCase, places: tuple[int, ...] | None = None) -> Obstacle | None:
    """Why a block's rows, before they are grouped, do not follow from what changed."""
    for number in case.changed_places if places is None else places:
        way = find_way(case.operator, number)
        if isinstance(way, Obstacle):
            return way
    return None


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    block = case.operator.block
    if block is None or block.is_grouping or block.windows:
        return Obstacle("not only joined and filtered rows")
    return find_body_obstacle(case)


def _compute(evaluation: Evaluation, index: int) -> Any:
    engine, operator = evaluation.engine, evaluation.get_operator(index)
    columns, changes = evaluation.list_columns(index), []
    for term in list_terms(evaluation.text, operator, evaluation.list_changed_places(index), evaluation):
        edits = edit_term(operator, term, evaluation.fill)
        text = render_block(evaluation.text, operator, edits, f", {term.weight} AS __sqb_weight")
        changes.append(engine.weigh(engine.run(text), columns))
    return engine.sum_changes(changes, evaluation.get_frame(index, "new"))


RULE = Rule("rows", "only changed rows flow through", _find_obstacle, _compute)
