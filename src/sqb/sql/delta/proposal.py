"""How changes of some tables would be followed through a query: a rule for each operator, or the obstacle.

Pure, and without a parser: a plan asks it of what the cache of classes holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqb.sql.delta.operators.model import Operator, OperatorTree
from sqb.sql.delta.rules import RULES
from sqb.sql.delta.rules.add_up import RULE as ADD_UP
from sqb.sql.delta.rules.base import Obstacle, RuleCase
from sqb.sql.delta.rules.compare import RULE as COMPARE
from sqb.sql.delta.rules.places import find_way

# Spark plans each relation that a query reads, as often as it is read, by way of all views and CTEs. What takes more
# than these is rebuilt: the largest queries of TPC-DS take 690 reads in all (q14), and 54 in one text (q04).
_MOST_READS = 700
_MOST_IN_ONE_TEXT = 60


@dataclass(frozen=True, slots=True)
class ChosenRule:
    """The rule of an operator, and why those before it do not apply."""

    rule: str
    says: str = ""
    # Of an operator that is compared: why no better rule applies.
    obstacle: Obstacle | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule for every operator that changed."""

    changed: frozenset[int]
    rules: Mapping[int, ChosenRule] = field(default_factory=dict)
    # The operators whose groups have figures, and will have them after the change.
    states: frozenset[int] = frozenset()
    # Whether all that changed is read from figures of groups, so that the new result can be read from these at once.
    reads_figures: bool = False
    # Why the change of the result does not follow from the changes beneath it.
    change_obstacle: Obstacle | None = None

    @property
    def obstacle(self) -> Obstacle | None:
        """Why the new result does not follow from what changed."""
        return None if self.reads_figures else self.change_obstacle

    @property
    def uses_states(self) -> bool:
        return any(chosen.rule == ADD_UP.name for chosen in self.rules.values())


def propose(
    tree: OperatorTree, slots: frozenset[int], states: frozenset[int] = frozenset(), by_target: bool = False
) -> Proposal:
    """How changes of these slots are followed; `states` are the operators whose groups have figures.

    With `by_target` the rows that the query gave are those of a table, and need not be evaluated again.
    """
    changed = tree.find_changed(slots)
    rules = {i: _choose_rule(RuleCase(tree.operators[i], changed, i in states)) for i in sorted(changed)}
    # Figures that changes cannot be added to are those of before, and nothing is read from them any more.
    outdated = {i for i, chosen in rules.items() if i in states and chosen.rule != ADD_UP.name}
    proposal = Proposal(changed, rules, states - outdated)
    in_all, in_one_text = count_reads(tree, proposal)
    if in_all > _MOST_READS or in_one_text > _MOST_IN_ONE_TEXT:
        why = f"to follow changes, tables would be read {in_all:,} times, by way of the views and CTEs that it reads"
        return replace(proposal, change_obstacle=Obstacle(why))
    obstacle = _find_root_obstacle(tree, proposal) or _find_unrepeatable(tree, proposal, by_target)
    return replace(proposal, change_obstacle=obstacle, reads_figures=_reads_figures(tree, proposal))


def count_reads(tree: OperatorTree, proposal: Proposal) -> tuple[int, int]:
    """About how often tables are read by all texts together by which changes are followed, and by the largest of them.

    An operator is evaluated as it is now and as it was for each place that changed; a change itself is one relation.
    Of UNION ALL nothing but changes is read.
    """
    read: list[int] = []
    in_all = in_one_text = 0
    for index, operator in enumerate(tree.operators):
        own = sum(read[place.input] for place in operator.places)
        read.append(1 if operator.kind == "table" or index in proposal.states else own)
        if index not in proposal.changed:
            continue
        changed = len([place for place in operator.places if place.input in proposal.changed])
        is_union = operator.kind == "union"
        in_all += changed if is_union else 2 * own * changed
        in_one_text = max(in_one_text, 0 if is_union else own)
    return in_all, in_one_text


def list_above_figures(tree: OperatorTree, proposal: Proposal) -> list[int]:
    """The operators that changed between the result and the figures of groups, or what is read without any."""
    stack, above = [tree.root] if tree.root in proposal.changed else [], []
    while stack:
        index = stack.pop()
        operator, is_added = tree.operators[index], proposal.rules[index].rule == ADD_UP.name
        above += [] if is_added else [index]
        # Beside the aggregates, values are read as they are.
        places = (p for p in operator.places if not is_added or operator.is_beside_groups(p))
        stack += [p.input for p in places if p.input in proposal.changed and p.input not in above]
    return above


def _reads_figures(tree: OperatorTree, proposal: Proposal) -> bool:
    """Whether every change beneath the result goes through the figures of groups."""
    above = list_above_figures(tree, proposal)
    return tree.root in proposal.changed and all(tree.operators[i].kind != "table" for i in above)


def _choose_rule(case: RuleCase) -> ChosenRule:
    """The first rule that applies; where only a comparison does, the obstacle that the last specific rule met."""
    obstacle = None
    for rule in RULES:
        result = rule.find_obstacle(case)
        if result is None:
            return ChosenRule(rule.name, rule.says, obstacle if rule is COMPARE else None)
        if result.offset is not None:
            obstacle = result
    raise AssertionError("comparing always applies")


def _find_root_obstacle(tree: OperatorTree, proposal: Proposal) -> Obstacle | None:
    """Why the whole query would have to be compared; what reads nothing but figures of groups costs little."""
    chosen = proposal.rules.get(tree.root)
    inputs = tree.operators[tree.root].inputs & proposal.changed
    if chosen is None or chosen.rule != COMPARE.name or inputs <= proposal.states:
        return None
    if tree.operators[tree.root].kind == "limit":
        return None
    return chosen.obstacle or Obstacle("it is not understood", tree.operators[tree.root].span.start)


def _find_unrepeatable(tree: OperatorTree, proposal: Proposal, by_target: bool) -> Obstacle | None:
    """What may come out differently when it is evaluated again, and is not read from where it was kept."""
    for index in list_evaluated(tree, proposal):
        operator = tree.operators[index]
        if operator.kind == "limit":
            # Which of equal rows come first is not told.
            return Obstacle("LIMIT", operator.span.start)
        if operator.block is None or not operator.block.unrepeatable or index in proposal.states:
            continue
        if index == tree.root and by_target and shows_parts(operator):
            continue
        return Obstacle(operator.block.unrepeatable, operator.block.unrepeatable_at)
    return None


def shows_parts(operator: Operator) -> bool:
    """Whether the columns of a block show the groups or partitions by which it is evaluated again."""
    block = operator.block
    if block is None:
        return False
    items = block.partition_items if block.windows else block.group_items
    return bool(items) and None not in items


def list_evaluated(tree: OperatorTree, proposal: Proposal) -> list[int]:
    """The operators that are evaluated anew, whole or in part: the root, and what its rules read."""
    changed, rules = proposal.changed, proposal.rules
    if tree.root not in changed:
        return []
    seen: list[int] = []
    stack = [tree.root]
    while stack:
        index = stack.pop()
        if index in seen:
            continue
        seen.append(index)
        operator = tree.operators[index]
        rule = rules[index].rule if index in rules else ""
        if index in proposal.states and not rule:
            # Its rows come from its figures; only the values beside them are read anew.
            continue
        for place in operator.places:
            # A branch of UNION ALL that did not change is not read.
            if rule != "union" or place.input in changed:
                stack.append(place.input)
    return seen


def list_linear_slots(tree: OperatorTree) -> frozenset[int]:
    """The slots whose changes pass through a query row by row: what changed, put in their places, gives the change."""
    slots = frozenset(operator.slot for operator in tree.operators if operator.kind == "table")
    return frozenset(slot for slot in slots if _is_linear(tree, propose(tree, frozenset({slot}))))


def _is_linear(tree: OperatorTree, proposal: Proposal) -> bool:
    if proposal.obstacle is not None or tree.root not in proposal.changed:
        return False
    for index, chosen in proposal.rules.items():
        operator = tree.operators[index]
        places = [i for i, place in enumerate(operator.places) if place.input in proposal.changed]
        match chosen.rule:
            case "changes" | "union":
                continue
            case "rows" if len(places) == 1 and find_way(operator, places[0]) == "linear":
                continue
        return False
    return True
