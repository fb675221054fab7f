"""Aggregates that add up: the figures of changes are added to those that are kept for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.aggregates.state_design import StateDesign, list_type_questions
from sqb.sql.delta.operators.model import Operator
from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.join_rows import find_body_obstacle
from sqb.sql.delta.rules.places import Fill, Term, Version, edit_places, edit_term, list_terms, render_block, repeat

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation

# Whether figures are those of rows that came (1) or that went (-1).
SIGN = "__sqb_sign"


def split_places(operator: Operator, changed: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The changed places beneath the groups, and those beside the aggregates."""
    beside = tuple(n for n in changed if operator.is_beside_groups(operator.places[n]))
    return tuple(n for n in changed if n not in beside), beside


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    block = case.operator.block
    if block is None or not block.is_grouping:
        return Obstacle("no groups")
    if block.aggregation is None:
        return Obstacle(block.not_additive, case.operator.span.start)
    beneath, _ = split_places(case.operator, case.changed_places)
    if obstacle := find_body_obstacle(case, beneath):
        return obstacle
    return None if case.has_state else Obstacle("there are no figures of its groups yet to add changes to")


def _compute(evaluation: Evaluation, index: int) -> Any:
    operator, states = evaluation.get_operator(index), evaluation.states
    assert states is not None
    update_figures(evaluation, index)
    _, beside = split_places(operator, evaluation.list_changed_places(index))
    values = {version: evaluation.fill_values(index, version) for version in ("new", "old")}
    change = states.compute_change(index, values, are_values_changed=bool(beside))  # type: ignore[arg-type]
    return evaluation.engine.sum_changes([change], evaluation.get_frame(index, "new"))


def update_figures(evaluation: Evaluation, index: int) -> None:
    """Add what changed beneath the groups of an operator to their figures, once."""
    operator, states = evaluation.get_operator(index), evaluation.states
    assert states is not None
    if states.is_updated(index):
        return
    beneath, _ = split_places(operator, evaluation.list_changed_places(index))
    design = states.get_design(index)
    terms = list_terms(evaluation.text, operator, beneath, evaluation)
    states.add_changes(
        index, [render_figures(evaluation.text, operator, design, term, evaluation.fill) for term in terms]
    )


def render_figures(text: str, operator: Operator, design: StateDesign, term: Term, fill: Fill) -> str:
    """The figures of a term's rows, by group and sign."""
    more = () if term.weight.endswith("L") else (term.weight,)
    edits = [*edit_term(operator, term, fill), *design.aggregation.edit_groups(text, operator.span.end, more)]
    return render_block(text, operator, edits, f"{design.render_list()}, {term.weight} AS {SIGN}")


def render_all_figures(evaluation: Evaluation, index: int, design: StateDesign, version: Version = "new") -> str:
    """The figures of all groups of an operator as it is now, or as it was."""
    operator = evaluation.get_operator(index)
    term = Term(repeat(version, operator), {}, weight="1L")
    return render_figures(evaluation.text, operator, design, term, evaluation.fill)


def render_group_figures(evaluation: Evaluation, index: int, design: StateDesign, keys: str) -> str:
    """The figures of some groups as they are now, from their rows; with grouping sets those of other groups too."""
    operator, aggregation = evaluation.get_operator(index), design.aggregation
    # A source may have columns of the names that the figures have.
    names = {name: f"__sqb_t{number}" for number, name in enumerate(design.keys)}
    parts = []
    for number, group in enumerate(aggregation.groups):
        same = f"__sqb_k.{names[f'g{number}']} <=> ({group})"
        parts.append(f"(__sqb_k.{names[f'i{number}']} = 1 OR {same})" if aggregation.by_sets else same)
    parts += [f"__sqb_k.{names[f'd{number}']} <=> ({value})" for number, value in enumerate(aggregation.distinct)]
    listed = ", ".join(f"{name} AS {other}" for name, other in names.items())
    wanted = f"(SELECT {listed} FROM {keys})"
    condition = f"EXISTS (SELECT 1 FROM {wanted} AS __sqb_k WHERE {' AND '.join(parts)})" if parts else ""
    term = Term(repeat("new", operator), {}, condition, "1L")
    return render_figures(evaluation.text, operator, design, term, evaluation.fill)


def render_types(evaluation: Evaluation, index: int) -> str:
    """A query whose columns have the types by which figures are designed, and nothing else of interest."""
    operator, aggregation = evaluation.get_operator(index), evaluation.get_aggregation(index)
    edits = edit_places(operator, repeat("old", operator), {}, evaluation.fill)
    edits += aggregation.edit_groups(evaluation.text, operator.span.end)
    questions = ", ".join(["1 AS x", *list_type_questions(aggregation)])
    return render_block(evaluation.text, operator, edits, questions)


RULE = Rule("state", "changes are added to the figures of its groups", _find_obstacle, _compute)
