"""Following changes through the operators of a query on Spark, with the states of its groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqb.build.incremental.fallback import NotIncremental, explain_fallback
from sqb.build.incremental.group_state import ModelStates, NoGroupState, list_named_states
from sqb.names import quote
from sqb.plan.recorded.group_state import parse_states
from sqb.plan.refresh.states import list_wanted_states
from sqb.sql.delta.proposal import list_above_figures
from sqb.sql.delta.rules.base import MULTIPLICITY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from sqb.build.incremental.refresh import IncrementalRefresh, TableSlot
    from sqb.build.node.context import NodeContext
    from sqb.sql.delta.evaluate import Evaluation
    from sqb.sql.delta.operators.model import OperatorTree


class _SlotInputs:
    """The tables of a query at both versions, and their changes."""

    def __init__(self, slots: Sequence[TableSlot], refresh: IncrementalRefresh | None = None) -> None:
        self.slots, self.refresh = slots, refresh

    def get_new(self, slot: int) -> str:
        return self.slots[slot].now

    def get_old(self, slot: int) -> str:
        return self.slots[slot].then

    def find_ranges(self, slot: int, column: str) -> list[tuple[str, str]] | None:
        assert self.refresh is not None
        return self.refresh.find_ranges(slot, column)

    def compute_delta(self, slot: int) -> Any:
        assert self.refresh is not None
        return self.refresh.compute_delta(slot)

    def read_changes(self, slot: int) -> Any:
        assert self.refresh is not None
        return self.refresh.read_changes(slot)


class _TargetRows:
    """The rows of the result of before, as the node's table holds them."""

    def __init__(self, context: NodeContext, session: Any, columns: list[str]) -> None:
        self.context, self.session, self.columns = context, session, columns

    def read_rows(self, columns: Mapping[int, str], keys: str) -> Any:
        from sqb.spark.data import changes

        current = self.context.current
        assert current is not None
        same = " AND ".join(f"t.{quote(self.columns[number])} <=> k.{key}" for number, key in columns.items())
        table = f"{self.context.format_relation()} VERSION AS OF {current.snapshot_id}"
        listed = ", ".join(f"t.{quote(c)}" for c in self.columns)
        # A time travel has no alias of its own.
        rows = self.session.sql(
            f"SELECT {listed} FROM (SELECT * FROM {table}) AS t LEFT SEMI JOIN {keys} AS k ON {same}"
        )
        return changes.with_multiplicity(rows, -1, self.columns)


@dataclass(frozen=True, slots=True)
class FollowedResult:
    """A result that follows from changes: how it changes, or all of its rows where these are read from figures."""

    # Its commit names the states.
    context: NodeContext
    change: Any = None
    rows: Any = None
    # The rows are those of groups that were just read as a whole.
    are_few: bool = False


def follow_operators(refresh: IncrementalRefresh, is_target_small: bool = False) -> FollowedResult:
    """The net change of a result, operator by operator; or all of its rows, where figures of groups give them."""
    from sqb.spark.data.delta_engine import SparkEngine
    from sqb.sql.delta.evaluate import Evaluation

    context, session, stack, proposal = refresh.context, refresh.session, refresh.stack, refresh.proposal
    tree = refresh.facts.tree
    assert proposal is not None and tree is not None
    named = list_named_states(context)
    if proposal.states - named.keys():
        raise NotIncremental("the state of its groups is not there")
    states = ModelStates(context, session, stack, {i: named[i] for i in proposal.states})
    states.refused |= {
        i
        for i, state in parse_states(
            context.current.identity.group_state if context.current is not None else ""
        ).items()
        if not state.is_kept
    }
    engine = SparkEngine(session, stack)
    shown = _TargetRows(context, session, refresh.columns) if refresh.versus == "target" else None
    inputs = _SlotInputs(refresh.slots, refresh)
    evaluation = states.evaluation = Evaluation(refresh.text, tree, proposal, engine, inputs, states, shown)
    try:
        if _is_read_whole(evaluation, states, refresh.slots, is_target_small):
            rows = evaluation.get_frame(tree.root, "new").toDF(*refresh.columns)
            return FollowedResult(states.name_in(context), rows=rows, are_few=states.is_local(tree.root))
        _refuse_fractions(evaluation, shown is not None)
        change = evaluation.compute_change().toDF(*refresh.columns, MULTIPLICITY)
        return FollowedResult(states.name_in(context), change)
    except NoGroupState as problem:
        raise NotIncremental(str(problem)) from problem


def _is_read_whole(
    evaluation: Evaluation, states: ModelStates, slots: Sequence[TableSlot], is_target_small: bool
) -> bool:
    """Whether the whole result is read from figures of groups: there is no other way, or it reads and writes little.

    Then nothing has to be compared with what the result was.
    """
    tree, proposal = evaluation.tree, evaluation.proposal
    if not proposal.reads_figures or proposal.change_obstacle is not None:
        return proposal.reads_figures
    if not is_target_small:
        return False
    above = list_above_figures(tree, proposal)
    read = {place.input for index in above for place in tree.operators[index].places} | {tree.root}
    figures = read & proposal.states
    tables = {i for index in read - figures - set(above) for i in tree.iter_beneath(index)}
    rows = sum(slots[tree.operators[i].slot].state.rows or 0 for i in tables if tree.operators[i].kind == "table")
    small = states.context.workspace.gate.small_rows
    return rows <= small and all(states.is_small(index) for index in figures)


def _refuse_fractions(evaluation: Evaluation, by_target: bool) -> None:
    """Refuse sums of fractions in what is evaluated again: they depend on the order of rows."""
    from sqb.sql.delta.operators.column_types import adds_up_exactly
    from sqb.sql.delta.proposal import list_evaluated, shows_parts
    from sqb.sql.delta.rules.places import edit_places, render_block, repeat
    from sqb.sql.delta.skeleton.model import Span, apply_edits

    tree, proposal = evaluation.tree, evaluation.proposal
    for index in list_evaluated(tree, proposal):
        operator = tree.operators[index]
        is_shown = index == tree.root and by_target and shows_parts(operator)
        if operator.block is None or index in proposal.states or is_shown:
            continue
        edits = edit_places(operator, repeat("old", operator), {}, evaluation.fill)
        for summed in operator.block.summed:
            argument = apply_edits(evaluation.text, edits, Span(summed.start, summed.start + len(summed.argument)))
            text = render_block(evaluation.text, operator, edits, f"{argument} AS a", group=False)
            kind = evaluation.engine.run(text).schema.fields[0].dataType.simpleString()
            if not adds_up_exactly(summed.call, kind):
                what = f"{summed.call} adds up values of type {kind}"
                raise NotIncremental(f"{what}, and would have to be evaluated again as it was")


def compute_with_states(context: NodeContext, session: Any, frame: Any, stack: ExitStack) -> tuple[NodeContext, Any]:
    """The rows of a query that is computed in full, by way of the states of its groups where it is to have some.

    Returns the context whose commit names the states, too; without states both are what they were. The rows can be
    read until the stack is closed: a Spark Connect server looks up the views beneath them each time.
    """
    from sqb.build.incremental.refresh import observe_current_query, render_with_slots

    observed = observe_current_query(context)
    if observed is None:
        return context, frame
    case, template, slots = observed
    wanted = list_wanted_states(case)
    if not wanted or case.query.facts is None or case.query.facts.tree is None:
        return context, frame
    try:
        states = ModelStates(context, session, stack, {})
        text = render_with_slots(template)
        evaluation = _write_states(states, text, case.query.facts.tree, wanted, _SlotInputs(slots))
        if not states.named:
            return states.name_in(context), frame
        rows = evaluation.get_frame(evaluation.tree.root, "new").toDF(*frame.columns)
        return states.name_in(context), rows
    except Exception as error:
        # What goes wrong here is not the author's mistake either: the query itself is still to be run.
        explain_fallback(error)
        return context, frame


def _write_states(
    states: ModelStates, text: str, tree: OperatorTree, wanted: frozenset[int], inputs: _SlotInputs
) -> Evaluation:
    """Write the states of all rows, each from those beneath it; the evaluation that reads the result from them."""
    from sqb.spark.data.delta_engine import SparkEngine
    from sqb.sql.delta.evaluate import Evaluation
    from sqb.sql.delta.proposal import Proposal

    engine = SparkEngine(states.session, states.stack)

    def evaluate() -> Evaluation:
        proposal = Proposal(frozenset(), {}, frozenset(states.named))
        return Evaluation(text, tree, proposal, engine, inputs, states)

    for operator in sorted(wanted):
        states.evaluation = evaluate()
        try:
            states.write_full_state(operator)
        except NoGroupState:
            states.refused.add(operator)
    states.evaluation = evaluate()
    return states.evaluation
