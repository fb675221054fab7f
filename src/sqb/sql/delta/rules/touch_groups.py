"""Groups: those that a changed row is part of are evaluated as they are now and as they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqb.sql.delta.operators.model import Operator
from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.join_rows import find_body_obstacle
from sqb.sql.delta.rules.places import Version, edit_places, edit_term, edit_where, list_terms, render_block, repeat
from sqb.sql.delta.skeleton.model import Edit

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
    return find_body_obstacle(case)


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

    new = evaluate_part(evaluation, index, "new", condition)
    if evaluation.shown is not None and index == evaluation.tree.root and None not in items:
        shown = {number: key for number, key in zip(items, keys, strict=True) if number is not None}
        old = evaluation.shown.read_rows(shown, touched)
    else:
        old = evaluate_part(evaluation, index, "old", condition)
    return engine.sum_changes([new, old], evaluation.get_frame(index, "new"))


def evaluate_part(evaluation: Evaluation, index: int, version: Version, condition: str) -> Any:
    """What a block makes of the rows that fulfil a condition, as rows that came or that went."""
    engine, operator = evaluation.engine, evaluation.get_operator(index)
    weight = ", 1L AS __sqb_weight" if version == "new" else ", -1L AS __sqb_weight"
    text = render_block(evaluation.text, operator, edit_version(evaluation, operator, version, condition))
    return engine.weigh(engine.run(f"SELECT *{weight} FROM ({text})"), evaluation.list_columns(index))


def edit_version(evaluation: Evaluation, operator: Operator, version: Version, condition: str) -> list[Edit]:
    """The edits by which a block reads a version of everything, and the rows that fulfil a condition."""
    places = edit_places(operator, repeat(version, operator), {}, evaluation.fill)
    return [*places, *edit_where(operator, condition)]


RULE = Rule("groups", "the groups of changed rows are evaluated again", _find_obstacle, _compute)
