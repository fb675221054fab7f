"""A query, two versions of its tables, and what changed: its change by the rules against its change by comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Literal

from sqb.sql.delta.facts import Facts
from sqb.sql.delta.operators.model import OperatorTree
from sqb.sql.delta.proposal import Proposal, propose, shows_parts
from sqb.sql.delta.rules.places import find_way
from sqb.sql.text.template import Template
from support.delta_engine import (
    NotRun,
    compare_results,
    fill_tables,
    follow_by_target,
    follow_change,
    list_state_operators,
    open_engine,
    read_from_figures,
)
from support.pieces import facts_of
from support.random_queries import TABLES, Data, QueryMaker, Row, change_rows, make_rows

# "not read": it has no operators; "not run": DuckDB cannot run the query itself.
Outcome = Literal["same", "different", "not read", "not run"]


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """One comparison."""

    seed: int
    sql: str
    old: Data
    new: Data
    # The slots that changed, and whether the groups of all operators that add up have figures.
    slots: frozenset[int]
    with_states: bool

    def describe(self, found: str) -> str:
        """What a person needs to see a difference again."""
        template, _ = read_facts(self.sql)
        lines = [f"seed {self.seed}, {'with' if self.with_states else 'without'} figures of groups", self.sql]
        for slot, name in enumerate(template.names):
            is_now = f" -> {list(self.new[name])}" if slot in self.slots else ""
            lines.append(f"{slot} {name}: {list(self.old[name])}{is_now}")
        return "\n".join([*lines, *describe_rules(self), found])


@lru_cache(maxsize=1024)
def read_facts(sql: str) -> tuple[Template, Facts]:
    """What is known of a query."""
    return facts_of(sql, TABLES)


def make_trial_data(random: Random, most: int = 9) -> tuple[Data, Data]:
    """Two versions of all tables."""
    old = {name: make_rows(random, name, most) for name in TABLES}
    return old, {name: change_rows(random, name, rows) for name, rows in old.items()}


def list_trials(seed: int) -> list[RuleTrial]:
    """What is tried of one seed."""
    random = Random(seed)
    # Every fourth query has columns without their sources.
    return list_trials_of(QueryMaker(random, is_bare=seed % 4 == 3, is_varied=True).make().sql, random, seed)


def list_trials_of(sql: str, random: Random, seed: int, most: int = 9, each_slot: bool = False) -> list[RuleTrial]:
    """What is tried of a query: sets of changed slots, each without and with figures of groups.

    Of few rows in a table, the last one of a key, a group or a partition goes often.
    """
    template, facts = read_facts(sql)
    count = len(template.names)
    some = frozenset(slot for slot in range(count) if random.random() < 0.6)
    old, new = make_trial_data(random, most)
    for _ in range(3):
        # Where the result stays what it was, a wrong rule is seldom noticed.
        if _is_result_changed(sql, old, new):
            break
        old, new = make_trial_data(random, most)
    everything = frozenset(range(count))
    one = frozenset({random.randrange(count)})
    choices = list(dict.fromkeys((one, some or everything)))
    if each_slot:
        choices = list(dict.fromkeys((*(frozenset({slot}) for slot in range(count)), everything)))
    has_states = facts.tree is not None and bool(list_state_operators(facts.tree))
    states = (False, True) if has_states else (False,)
    return [RuleTrial(seed, sql, old, new, slots, with_states) for slots in choices for with_states in states]


def list_plain_trials(sql: str) -> list[RuleTrial]:
    """What is tried of a plain query: large tables and small ones, each of them changed alone and all together."""
    sizes = (9, 3, 4, 3)
    randoms = [Random(f"{seed} {sql}") for seed in range(len(sizes))]
    return [t for i, random in enumerate(randoms) for t in list_trials_of(sql, random, i, sizes[i], True)]


def find_plain_failure(sql: str) -> str:
    """What is wrong with the rules of a plain query, an error too; "" where nothing is."""
    try:
        return next((item for t in list_plain_trials(sql) for o, item in [run_trial(t)] if o == "different"), "")
    except Exception as error:
        return repr(error)


def _is_result_changed(sql: str, old: Data, new: Data) -> bool:
    template = read_facts(sql)[0]
    with open_engine() as engine:
        fill_tables(engine, {name: TABLES[name] for name in template.names}, old, new)
        try:
            return bool(compare_results(engine, template, frozenset(range(len(template.names)))))
        except NotRun:
            return True


def read_trial(trial: RuleTrial) -> tuple[Template, OperatorTree, Proposal] | None:
    """A trial's query and the rules that are chosen for it; None where it has no operators."""
    template, facts = read_facts(trial.sql)
    if facts.tree is None:
        return None
    states = list_state_operators(facts.tree) if trial.with_states else frozenset()
    return template, facts.tree, propose(facts.tree, trial.slots, states)


def run_trial(trial: RuleTrial) -> tuple[Outcome, str]:
    """How a trial ends, and what differs."""
    read = read_trial(trial)
    if read is None:
        return "not read", ""
    template, tree, proposal = read
    with open_engine() as engine:
        fill_tables(engine, {name: TABLES[name] for name in template.names}, trial.old, trial.new)
        try:
            compared = compare_results(engine, template, trial.slots)
        except NotRun as problem:
            return "not run", str(problem)
        try:
            # A limit may choose otherwise among equal rows each time, and is never compared with what it was.
            ways = [] if any(o.kind == "limit" for o in tree.operators) else [follow_change]
            ways += [read_from_figures] if proposal.reads_figures else []
            ways += [follow_by_target] if ways and is_shown(tree, proposal) else []
            results = [way(engine, template, tree, trial.slots, proposal) for way in ways]
        except NotRun as problem:
            # A defect of DuckDB's own says nothing about the text.
            is_defect = "INTERNAL Error" in str(problem)
            return ("not run" if is_defect else "different"), f"the rules give a text that does not run: {problem}"
    wrong = next((item for item in results if item != compared), None)
    if wrong is None:
        return ("same" if results else "not read"), ""
    return "different", f"by rules: {dict(wrong)}\ncompared: {dict(compared)}"


def is_shown(tree: OperatorTree, proposal: Proposal) -> bool:
    """Whether what the result was can be read from a table that holds it, by the parts that are evaluated again."""
    chosen = proposal.rules.get(tree.root)
    return chosen is not None and chosen.rule in ("groups", "partitions") and shows_parts(tree.operators[tree.root])


def describe_rules(trial: RuleTrial) -> list[str]:
    """The rule of each operator that changed, and the text that it is the rule of."""
    read = read_trial(trial)
    if read is None:
        return []
    template, tree, proposal = read
    text = template.render(lambda index: f"__sqb_slot_{index}")
    lines = []
    for index, chosen in proposal.rules.items():
        operator = tree.operators[index]
        ways = list_ways(tree, proposal, index)
        lines.append(f"  {index} {chosen.rule} {' '.join(ways)}: {operator.span.cut(text)[:100]}")
    return lines


def list_ways(tree: OperatorTree, proposal: Proposal, index: int) -> list[str]:
    """How the changes at the places of an operator become changes of its rows, where its rule asks for that."""
    if proposal.rules[index].rule not in ("rows", "groups", "partitions", "state"):
        return []
    operator = tree.operators[index]
    changed = (i for i, place in enumerate(operator.places) if place.input in proposal.changed)
    return [way for way in (find_way(operator, i) for i in changed) if isinstance(way, str)]


# --- shrinking --------------------------------------------------------------------------------------------------------


def shrink(trial: RuleTrial, tries: int = 400) -> RuleTrial:
    """A smaller trial that still ends differently: fewer slots that changed, and fewer rows."""
    kind = _find_failure(trial)
    is_found = True
    while is_found and tries > 0:
        is_found = False
        for smaller in _list_smaller(trial):
            tries -= 1
            if _find_failure(smaller) == kind:
                trial, is_found = smaller, True
                break
            if tries <= 0:
                break
    return trial


def _find_failure(trial: RuleTrial) -> str:
    outcome, result = run_trial(trial)
    return result[:20] if outcome == "different" else ""


def _list_smaller(trial: RuleTrial) -> Iterator[RuleTrial]:
    for slot in sorted(trial.slots):
        if len(trial.slots) > 1:
            yield replace(trial, slots=trial.slots - {slot})
    for name in TABLES:
        if Counter(trial.old[name]) != Counter(trial.new[name]):
            yield replace(trial, new={**trial.new, name: trial.old[name]})
        # A row of both versions goes from both, so that what changed stays what it was.
        for row in dict.fromkeys((*trial.old[name], *trial.new[name])):
            without = [{**data, name: _drop(data[name], row)} for data in (trial.old, trial.new)]
            yield replace(trial, old=without[0], new=without[1])
            yield replace(trial, old=without[0])
            yield replace(trial, new=without[1])


def _drop(rows: Sequence[Row], row: Row) -> list[Row]:
    kept = list(rows)
    if row in kept:
        kept.remove(row)
    return kept
