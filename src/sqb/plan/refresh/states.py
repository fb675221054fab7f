"""Which operators of a query keep the figures of their groups beside a model's table, and where that would pay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqb.compile.model import Node
from sqb.plan.recorded.group_state import parse_states
from sqb.plan.recorded.timings import predict_rebuild

if TYPE_CHECKING:
    from sqb.plan.refresh.choose import RefreshCase
    from sqb.sql.delta.facts import Facts
    from sqb.sql.delta.operators.model import OperatorTree
    from sqb.sql.delta.proposal import Proposal

# Kinds whose content is made from that of before.
RESULT_KINDS = frozenset({"table", "merge", "tracked"})
_STATE_KINDS = frozenset({"table", "merge"})
# From so many rows in a group on, adding changes to its figures reads much less than evaluating it again.
_LARGE_GROUP = 100_000


def is_worth_states(case: RefreshCase, slots: frozenset[int]) -> bool:
    """Whether a rebuild is to make states of groups first, by which such changes are then followed."""
    current = case.current.identity.group_state if case.current is not None else ""
    missing = list_wanted_states(case) - parse_states(current).keys()
    proposal = propose_for(case, slots, list_additive_operators(case.query.facts)) if missing else None
    return proposal is not None and any(proposal.rules[i].rule == "state" for i in missing & proposal.changed)


def propose_for(case: RefreshCase, slots: frozenset[int], states: frozenset[int] | None = None) -> Proposal | None:
    """How the operators of a node's query would follow changes of some slots; None where they are not known.

    `states` are the operators whose groups have figures; without it those that the commit of the table names.
    """
    from sqb.sql.delta.proposal import propose  # only plans that have something to follow

    facts = case.query.facts
    if facts is None or facts.tree is None:
        return None
    named = list_state_operators(case) if states is None else states
    return propose(facts.tree, slots, named, compares_with_target(case.node))


def compares_with_target(node: Node) -> bool:
    """Whether the rows of a node's table are the query's result, so that it need not be evaluated as it was."""
    return node.kind in RESULT_KINDS and node.settings.get("on_source_delete") != "keep"


def list_state_operators(case: RefreshCase) -> frozenset[int]:
    """The operators whose groups have figures beside the table."""
    if case.current is None or not keeps_group_state(case.node):
        return frozenset()
    named = parse_states(case.current.identity.group_state).values()
    return frozenset(state.operator for state in named if state.is_kept)


def list_refused_states(case: RefreshCase) -> frozenset[int]:
    """The operators whose aggregates turned out not to add up exactly when their figures were to be made."""
    named = parse_states(case.current.identity.group_state if case.current is not None else "")
    return frozenset(operator for operator, state in named.items() if not state.is_kept)


def keeps_group_state(node: Node) -> bool:
    """Whether a model may have states of its groups beside its table."""
    keeps_rows = node.settings.get("on_source_delete") == "keep"
    return node.kind in _STATE_KINDS and node.settings.get("aggregate_state", True) is not False and not keeps_rows


def list_additive_operators(facts: Facts | None) -> frozenset[int]:
    """The operators whose aggregates add up."""
    operators = facts.tree.operators if facts is not None and facts.tree is not None else ()
    return frozenset(i for i, o in enumerate(operators) if o.block is not None and o.block.aggregation is not None)


def list_wanted_states(case: RefreshCase) -> frozenset[int]:
    """The operators of whose groups a rebuild makes states, so that the next changes can be added up.

    It pays where a table is large, and changes of it could not be followed by a key that the result shows.
    """
    facts, refresh = case.query.facts, case.node.settings.get("refresh", "auto")
    operators = list_additive_operators(facts)
    if facts is None or facts.tree is None or not operators or refresh == "full" or not keeps_group_state(case.node):
        return frozenset()
    beneath = {i for operator in operators for i in facts.tree.iter_beneath(operator)}
    slots = {facts.tree.operators[i].slot for i in beneath if facts.tree.operators[i].kind == "table"}
    restricted = {slot for key in facts.keys if key.outputs for slot, _ in key.slots}
    if slots <= restricted | set(facts.linear_slots) and not has_large_groups(case):
        return frozenset()
    is_large = count_input_rows(case) >= case.gate.min_additive_rows
    pays = refresh == "incremental" or (is_large and _could_pay(case, facts.tree, operators, slots))
    return operators if pays else frozenset()


def _could_pay(case: RefreshCase, tree: OperatorTree, operators: frozenset[int], slots: set[int]) -> bool:
    """Whether figures of groups would make a change of one row in one of these slots cheaper than a rebuild: by the
    estimate, or by what the last rebuilds took."""
    from sqb.plan.refresh.cost import SECONDS_OF_WORK, CostEstimate, Sizes  # only what has groups that add up
    from sqb.sql.delta.proposal import propose

    rows = {i: (t.state.rows or 0) if t.state is not None else 0 for i, t in enumerate(case.query.tables)}
    result = (case.current.rows or 0) if case.current is not None else 0
    past = case.current.identity.timings if case.current is not None else ""
    rebuild = predict_rebuild(past, count_input_rows(case)) if case.gate.min_rows else None
    for slot in slots:
        proposal = propose(tree, frozenset({slot}), operators, compares_with_target(case.node))
        sizes = Sizes(rows, {slot: 1}, {slot: 1}, result, case.gate.min_rows, case.gate.small_rows)
        estimate = CostEstimate(tree, proposal, sizes)
        if proposal.obstacle is not None:
            continue
        seconds = SECONDS_OF_WORK * estimate.refresh_work
        if estimate.is_less_work or (rebuild and rebuild.is_surely_beaten_by(seconds)):
            return True
    return False


def has_large_groups(case: RefreshCase) -> bool:
    """Whether the groups of a result are few and large: few changes touch all of them, and a key restricts nothing.

    Where distinct values are counted, figures are kept for each of them, and not only for few groups.
    """
    result = case.current.rows if case.current is not None else None
    tree = case.query.facts.tree if case.query.facts is not None else None
    blocks = [o.block for o in tree.operators if o.block is not None] if tree is not None else []
    counts_distinct = any(b.aggregation is not None and b.aggregation.distinct for b in blocks)
    return bool(result) and not counts_distinct and count_input_rows(case) >= _LARGE_GROUP * (result or 0)


def count_input_rows(case: RefreshCase) -> int:
    return sum((t.state.rows or 0) if t.state is not None else 0 for t in case.query.tables)
