"""Window functions: the partitions that a changed row is part of are evaluated as they are now and as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.sql.delta.operators.model import Select
from sqb.sql.delta.rules.add_up import split_places
from sqb.sql.delta.rules.base import Obstacle, Rule, RuleCase
from sqb.sql.delta.rules.join_rows import find_body_obstacle
from sqb.sql.delta.rules.places import Version, edit_places, edit_term, edit_where, list_terms, render_block, repeat
from sqb.sql.delta.rules.touch_groups import compare_touched

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation

_Sets = tuple[tuple[str, ...], ...]


def _find_obstacle(case: RuleCase) -> Obstacle | None:
    block = case.operator.block
    offset = case.operator.span.start
    if block is None or not block.windows:
        return Obstacle("no window functions")
    if block.by_sets:
        return Obstacle("a window function over grouping sets", offset)
    if not block.partitions and (block.is_grouping or not all(window.partition for window in block.windows)):
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
    if block.partitions:
        return compare_touched(evaluation, index, block.partitions, block.partition_items)
    return _compare_several(evaluation, index, block)


def _compare_several(evaluation: Evaluation, index: int, block: Select) -> Any:
    """The change of a block whose window functions have nothing in common to partition by.

    A row is concerned if a changed row is in any of its partitions. For the rows that are concerned, all of their
    partitions are evaluated; the other rows of these are left out again, as they may be only a part of theirs.
    """
    engine, operator = evaluation.engine, evaluation.get_operator(index)
    sets: _Sets = tuple(dict.fromkeys(window.partition for window in block.windows))
    listed = ", ".join(f"{e} AS {key}" for key, e in _name_all(sets))

    def read_keys(texts: list[str]) -> list[str]:
        """The values of each set in some rows, by the names of views."""
        rows = evaluation.name(engine.persist(engine.run(f"SELECT DISTINCT * FROM ({' UNION ALL '.join(texts)})")))
        columns = (", ".join(key for key, _ in _name_set(sets, number)) for number in range(len(sets)))
        return [f"(SELECT DISTINCT {c} FROM {rows})" for c in columns]

    def render(version: Version, condition: str, select_list: str) -> str:
        places = edit_places(operator, repeat(version, operator), {}, evaluation.fill)
        return render_block(evaluation.text, operator, [*places, *edit_where(operator, condition)], select_list)

    terms = list_terms(evaluation.text, operator, evaluation.list_changed_places(index), evaluation.fill)
    touched = read_keys(
        [render_block(evaluation.text, operator, edit_term(operator, term, evaluation.fill), listed) for term in terms]
    )
    concerned = _match_any(sets, touched, by_name=False)
    versions: tuple[tuple[Version, str], ...] = (("new", "1L"), ("old", "-1L"))
    whole = _match_any(sets, read_keys([render(v, concerned, listed) for v, _ in versions]), by_name=False)
    columns, keys = evaluation.list_columns(index), ", ".join(key for key, _ in _name_all(sets))
    changes = []
    for version, weight in versions:
        rows = render(version, whole, f", {listed}")
        shown = f"SELECT * EXCEPT ({keys}), {weight} AS __sqb_weight FROM ({rows}) AS __sqb_r"
        changes.append(engine.weigh(engine.run(f"{shown} WHERE {_match_any(sets, touched, by_name=True)}"), columns))
    return engine.sum_changes(changes, evaluation.get_frame(index, "new"))


def _name_set(sets: _Sets, number: int) -> list[tuple[str, str]]:
    return [(f"__sqb_p{number}_{i}", expression) for i, expression in enumerate(sets[number])]


def _name_all(sets: _Sets) -> list[tuple[str, str]]:
    return [named for number in range(len(sets)) for named in _name_set(sets, number)]


def _match_any(sets: _Sets, keys: list[str], by_name: bool) -> str:
    """The rows that are in one of some partitions, by the expressions of these or by the names that they have."""
    parts = []
    for number, wanted in enumerate(keys):
        named = _name_set(sets, number)
        same = " AND ".join(f"__sqb_k.{key} <=> ({f'__sqb_r.{key}' if by_name else e})" for key, e in named)
        parts.append(f"EXISTS (SELECT 1 FROM {wanted} AS __sqb_k WHERE {same})")
    return f"({' OR '.join(parts)})"


RULE = Rule("partitions", "the partitions of changed rows are evaluated again", _find_obstacle, _compute)
