"""What following changes costs beside a rebuild: an estimate of the rows that each of them reads, from metadata alone.

A rule reads what its operator does not know from the change itself: for new facts the dimensions that they are joined
with, for a changed dimension the facts. Rows are counted as often as they are read. Nothing here looks at a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sqb.sql.delta.proposal import list_above_figures
from sqb.sql.delta.rules.add_up import split_places
from sqb.sql.delta.rules.places import find_way

if TYPE_CHECKING:
    from sqb.sql.delta.operators.model import Operator, OperatorTree, Origin
    from sqb.sql.delta.proposal import Proposal

# What a row costs, beside being read, which is 1 (bench/star.py, bench/tpch.py: 0.05 to 0.1 microseconds).
_JOINED, _GROUPED, _ADDED_UP, _IN_WINDOW, _COMPARED, _WRITTEN = 2.0, 1.5, 0.1, 4.0, 3.0, 5.0
# What WHERE is thought to let through.
_LET_THROUGH = 0.3
# What takes its time whatever the rows: more statements, and the commits of the figures beside that of the table; and
# each relation that a statement reads, which Spark has to plan.
REFRESH_STEPS, REBUILD_STEPS, STEPS_OF_A_RELATION = 14.0, 4.0, 1.6
# Figures of few groups are written without Spark, which takes so many steps less.
_STEPS_SAVED = 4.0
# The nominal seconds of one row that is read.
SECONDS_OF_WORK = 5e-8
# What is only estimated must be so much less to be tried.
WORTH = 0.9
# Of the rows beneath groups, so many are thought to be groups where that is not known.
_GROUPS_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Sizes:
    """What metadata tells: the rows of each table, and of those that changed how many changed and are read for that."""

    rows: Mapping[int, int]
    changed: Mapping[int, int]
    # Of a table whose changes are found by comparing two versions, that is twice the table.
    read: Mapping[int, int]
    # The rows of the result, as far as it is there.
    result: int = 0
    # The rows that cost as much as one of the steps that are taken whatever the rows.
    step: int = 0
    # Up to so many groups are few.
    few: int = 0
    # Of large tables the rows that may match changed rows of others, by the columns that are compared.
    matching: Mapping[tuple[Origin, Origin], int] = field(default_factory=dict)


class CostEstimate:
    """The rows that following changes through the operators of a query reads, and those of a rebuild."""

    def __init__(self, tree: OperatorTree, proposal: Proposal, sizes: Sizes) -> None:
        self.tree, self.proposal, self.sizes = tree, proposal, sizes
        self._evaluated: dict[int, int] = {}
        self._changes: dict[int, int] = {}
        self._scanned: dict[int, int] = {}
        self._relations: dict[int, int] = {}

    @cached_property
    def refresh(self) -> int:
        """The rows that a refresh reads: operator by operator, or all of the result from figures of groups."""
        by_rules = sum(map(self.estimate_rule, self.proposal.rules))
        if not self.proposal.reads_figures:
            return by_rules
        above = list_above_figures(self.tree, self.proposal)
        beneath = sum(self.estimate_rule(index) for index in self.proposal.rules if index not in above)
        whole = beneath + self.count_evaluated(self.tree.root)
        return whole if self.proposal.change_obstacle is not None else min(by_rules, whole)

    @cached_property
    def rebuild(self) -> int:
        """The rows that a rebuild reads and writes."""
        return self._count_scanned(self.tree.root) + self.sizes.result

    @cached_property
    def refresh_work(self) -> float:
        """What a refresh costs, in rows that are read: changes are small, and what they are joined with is read.

        Beneath the top, touched keys are seldom few, and what is evaluated again is joined and grouped again.
        """
        steps = REFRESH_STEPS + STEPS_OF_A_RELATION * sum(map(self._count_planned, self.proposal.rules))
        steps -= _STEPS_SAVED if self._has_few_groups() else 0.0
        return steps * self.sizes.step + self.refresh + sum(map(self._weigh_again, self.proposal.rules))

    @cached_property
    def rebuild_work(self) -> float:
        """What a rebuild costs, in rows that are read."""
        work, _ = self._weigh(self.tree.root, frozenset())
        steps = REBUILD_STEPS + STEPS_OF_A_RELATION * self._count_relations(self.tree.root)
        return steps * self.sizes.step + work + _WRITTEN * self.sizes.result

    @cached_property
    def is_less_work(self) -> bool:
        """Whether a refresh is clearly less work than a rebuild."""
        return self.refresh_work <= WORTH * self.rebuild_work

    def _has_few_groups(self) -> bool:
        """Whether changes are added to figures, all of few groups."""
        states = [index for index, way in self.proposal.rules.items() if way.rule == "state"]
        return bool(states) and all(self._count_groups(index) <= self.sizes.few for index in states)

    def _count_planned(self, index: int) -> int:
        """How many relations Spark plans for the rule of an operator: those of its terms, or of all of it twice."""
        operator, rule = self.tree.operators[index], self.proposal.rules[index].rule
        if rule in ("changes", "union"):
            return 0
        if rule == "compare":
            return 2 * self._count_relations(index)
        if rule == "distinct":
            return 2 * len(operator.places)
        return sum(2 if self._is_touched(index, n) else 1 for n in self._list_terms(index)) * len(operator.places)

    def _count_relations(self, index: int) -> int:
        """How many tables an operator reads, each as often as it is read."""
        operator = self.tree.operators[index]
        if operator.kind == "table":
            return 1
        if index not in self._relations:
            self._relations[index] = sum(self._count_relations(place.input) for place in operator.places)
        return self._relations[index]

    def _weigh(self, index: int, states: frozenset[int]) -> tuple[float, float]:
        """What it costs to evaluate an operator from tables and states, and about how many rows it has."""
        operator = self.tree.operators[index]
        if operator.kind == "table":
            rows = float(self.sizes.rows.get(operator.slot, 0))
            return rows, rows
        beneath = [self._weigh_input(place.input, states) for place in operator.places]
        work, rows = sum(w for w, _ in beneath), max((r for _, r in beneath), default=0.0)
        block = operator.block
        if block is None:
            return (work, rows) if operator.kind in ("union", "limit") else (work + _COMPARED * rows, rows)
        let_through = _LET_THROUGH if block.where is not None else 1.0
        rows *= let_through
        if len(beneath) > 1:
            work += _JOINED * let_through * sum(r for _, r in beneath)
        work += _IN_WINDOW * rows if block.windows else 0.0
        if not block.is_grouping:
            return work, rows
        return work + (_GROUPED if block.groups else _ADDED_UP) * rows, (_GROUPS_SHARE * rows if block.groups else 1.0)

    def _weigh_input(self, index: int, states: frozenset[int]) -> tuple[float, float]:
        if index not in states:
            return self._weigh(index, states)
        groups = float(self._count_groups(index))
        return groups, groups

    def _weigh_again(self, index: int) -> float:
        """What the rule of an operator joins and groups, beside reading it, when it evaluates that before and after."""
        match self.proposal.rules[index].rule:
            case "changes" | "union" | "distinct":
                times = 0.0
            case "rows" | "state":
                touched = [number for number in self._list_terms(index) if self._is_touched(index, number)]
                times = sum(self._count_touched(index, number) for number in touched) / max(1, self._count_plain(index))
            case "partitions" if self._overlaps(index):
                times = 2.0
            case "groups" | "partitions" if index == self.tree.root:
                times = 0.0
            case _:
                times = 1.0
        return 2 * times * max(0.0, self._weigh(index, self.proposal.states)[0] - self._count_plain(index))

    def estimate_rule(self, index: int) -> int:
        """The rows that the rule of an operator reads, beyond the changes of its inputs."""
        operator, rule = self.tree.operators[index], self.proposal.rules[index].rule
        match rule:
            case "changes":
                return self.sizes.read.get(operator.slot, 0)
            case "union":
                return 0
            case "rows":
                return self._estimate_terms(index)
            case "state":
                return self._estimate_terms(index) + 2 * self._count_groups(index)
            case "partitions" if self._overlaps(index):
                # Which rows share a partition with those that are touched is read before they are evaluated.
                return self._estimate_terms(index) + 4 * self._count_plain(index)
            case "groups" | "partitions":
                times = 1 if index == self.tree.root else 2
                return self._estimate_terms(index) + times * self._count_plain(index)
            case "distinct":
                return 2 * sum(self.count_evaluated(place.input) for place in operator.places)
            case _:
                return 2 * self._count_plain(index)

    def _estimate_terms(self, index: int) -> int:
        """What the terms of a block read: all other places for a linear one, everything twice for a touched one."""
        operator = self.tree.operators[index]
        total = 0
        for number in self._list_terms(index):
            others = [p.input for i, p in enumerate(operator.places) if i != number]
            if self._is_touched(index, number):
                total += 2 * self._count_touched(index, number)
            else:
                whole = sum(map(self.count_evaluated, others))
                total += whole - self._count_left_out(operator, number, only_matched=False)
        return total

    def _count_touched(self, index: int, number: int) -> int:
        """The rows that are read to evaluate a block once where a change at a place touches it."""
        operator = self.tree.operators[index]
        return self._count_plain(index) - self._count_left_out(operator, number, only_matched=True)

    def _count_left_out(self, operator: Operator, number: int, only_matched: bool) -> int:
        """The rows of sources that are not read, as no changed row can belong to them; of what changed itself, those
        that are like none of its changed rows."""
        left_out: dict[int, int] = {}
        for link in operator.block.links if operator.block is not None else ():
            if link.by == number and link.only_matched == only_matched:
                by = link.by_origin
            elif link.source == number and only_matched:
                by = link.origin
            else:
                continue
            rows = self.sizes.matching.get((link.origin, by))
            if rows is not None and self.tree.is_only_change(
                operator.places[number].input, by[0], self.proposal.changed
            ):
                left_out[link.source] = max(left_out.get(link.source, 0), self.sizes.rows[link.origin[0]] - rows)
        return sum(left_out.values())

    def _list_terms(self, index: int) -> tuple[int, ...]:
        """The places of a block whose changes make a term each."""
        operator = self.tree.operators[index]
        changed = tuple(i for i, p in enumerate(operator.places) if p.input in self.proposal.changed)
        is_added = self.proposal.rules[index].rule == "state"
        return split_places(operator, changed)[0] if is_added else changed

    def _overlaps(self, index: int) -> bool:
        block = self.tree.operators[index].block
        return block is not None and bool(block.partitionings)

    def _is_touched(self, index: int, place: int) -> bool:
        return find_way(self.tree.operators[index], place) != "linear"

    def count_evaluated(self, index: int) -> int:
        """The rows that are read to evaluate an operator; figures of groups stand for all that is beneath them."""
        if index in self.proposal.states:
            return self._count_groups(index)
        return self._count_plain(index)

    def _count_plain(self, index: int) -> int:
        operator = self.tree.operators[index]
        if operator.kind == "table":
            return self.sizes.rows.get(operator.slot, 0)
        if index not in self._evaluated:
            self._evaluated[index] = sum(self.count_evaluated(place.input) for place in operator.places)
        return self._evaluated[index]

    def _count_scanned(self, index: int) -> int:
        """The rows of all tables beneath an operator, as often as they are read; a rebuild knows no figures."""
        operator = self.tree.operators[index]
        if operator.kind == "table":
            return self.sizes.rows.get(operator.slot, 0)
        if index not in self._scanned:
            self._scanned[index] = sum(self._count_scanned(place.input) for place in operator.places)
        return self._scanned[index]

    def _count_groups(self, index: int) -> int:
        block = self.tree.operators[index].block
        if block is not None and block.is_grouping and not block.groups:
            return 1
        if index == self.tree.root and self.sizes.result:
            return self.sizes.result
        tables = (self.tree.operators[i] for i in self.tree.iter_beneath(index))
        return int(_GROUPS_SHARE * sum(self.sizes.rows.get(t.slot, 0) for t in tables if t.kind == "table"))

    def estimate_change(self, index: int) -> int:
        """How many rows of an operator may change: as many as change beneath it, or all of them."""
        if index not in self.proposal.changed:
            return 0
        if index not in self._changes:
            operator = self.tree.operators[index]
            beneath = sum(self.estimate_change(place.input) for place in operator.places)
            own = self.sizes.changed.get(operator.slot, 0) if operator.kind == "table" else beneath
            self._changes[index] = own
        return self._changes[index]
