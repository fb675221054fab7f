"""Groups: those that a changed row is part of are evaluated as they are now and as they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqb.sql.delta.rules.add_up import split_places
from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.join_rows import find_body_obstacle
from sqb.sql.delta.rules.places import Version, edit_places, edit_term, edit_where, list_terms, render_block, repeat

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    block = case.operator.block
    offset = case.operator.span.start
    if block is None or not block.is_grouping or block.windows:
        return Obstacle("no groups")
    if block.by_sets:
        return Obstacle("grouping sets without figures of the groups", offset)
    if not block.groups:
        return Obstacle("an aggregate over all rows", offset)
    beneath, beside = split_places(case.operator, case.changed_places)
    if beside:
        return Obstacle("a subquery beside aggregates", case.operator.places[beside[0]].span.start)
    return find_body_obstacle(case, beneath)


def _compute(evaluation: Evaluation, index: int) -> Any:
    block = evaluation.get_operator(index).block
    assert block is not None
    return compare_touched(evaluation, index, block.groups, block.group_items)


def compare_touched(evaluation: Evaluation, index: int, expressions: Sequence[str], items: Sequence[int | None]) -> Any:
    """The change of a block whose parts, by the value of some expressions, do not depend on each other.

    Where the table itself shows these values, its rows are what the block was; otherwise it is evaluated again.
    """
    engine, operator = evaluation.engine, evaluation.get_operator(index)
    keys = [f"__sqb_g{i}" for i in range(len(expressions))]
    listed = ", ".join(f"{e} AS {key}" for e, key in zip(expressions, keys, strict=True))
    parts = [
        render_block(evaluation.text, operator, edit_term(operator, term, evaluation.fill), listed, group=False)
        for term in list_terms(evaluation.text, operator, evaluation.list_changed_places(index), evaluation)
    ]
    touched = evaluation.name(engine.persist(engine.run(f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)})")))
    same = " AND ".join(f"__sqb_k.{key} <=> ({e})" for e, key in zip(expressions, keys, strict=True))
    condition = f"EXISTS (SELECT 1 FROM {touched} AS __sqb_k WHERE {same})"

    def evaluate(version: Version) -> Any:
        places = edit_places(operator, repeat(version, operator), {}, evaluation.fill)
        edits = [*places, *edit_where(operator, condition)]
        weight = ", 1L AS __sqb_weight" if version == "new" else ", -1L AS __sqb_weight"
        text = render_block(evaluation.text, operator, edits)
        return engine.run(f"SELECT *{weight} FROM ({text})")

    columns = evaluation.list_columns(index)
    new = engine.weigh(evaluate("new"), columns)
    if evaluation.shown is not None and index == evaluation.tree.root and None not in items:
        shown = {number: key for number, key in zip(items, keys, strict=True) if number is not None}
        old = evaluation.shown.read_rows(shown, touched)
    else:
        old = engine.weigh(evaluate("old"), columns)
    return engine.sum_changes([new, old], evaluation.get_frame(index, "new"))


RULE = Rule("groups", "the groups of changed rows are evaluated again", _find_obstacle, _compute)
