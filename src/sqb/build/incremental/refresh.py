"""Bringing a result up to date from the changes of its inputs: the net difference, computed on Spark.

`plan.refresh` has decided that it can be done exactly and pays. Whatever turns out otherwise raises `NotIncremental`:
the caller rebuilds and reports why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sqb.build.incremental.fallback import NotIncremental
from sqb.build.incremental.table_changes import read_slot_changes
from sqb.build.node.render import format_pinned
from sqb.build.observe.lake import build_relation_state
from sqb.build.observe.matching import count_matching_rows
from sqb.build.observe.queries import build_node_template, observe_query, observe_tables
from sqb.build.observe.refreshes import compare_snapshots
from sqb.build.observe.snapshots import SnapshotHistories
from sqb.lake.port import TableState
from sqb.names import Relation, quote
from sqb.plan.observed import RelationState
from sqb.plan.refresh.choose import (
    Obstacle,
    QueryObservation,
    Refresh,
    RefreshCase,
    TableChange,
    Versus,
    choose_keys,
    choose_refresh,
    list_compared,
    resolve_tables,
)
from sqb.sql.delta.facts import Facts, Key, list_key_columns, render_key_expression
from sqb.sql.delta.skeleton.model import SLOT
from sqb.sql.text.template import Template

if TYPE_CHECKING:
    from sqb.build.node.context import NodeContext

_LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class TableSlot:
    """A table in a query as SQL: at the version of this build, and at the one that the result was made from."""

    table_change: TableChange
    table: str
    state: TableState

    @property
    def index(self) -> int:
        return self.table_change.index

    @property
    def relation(self) -> Relation:
        return self.table_change.relation

    @property
    def changed(self) -> bool:
        return self.table_change.is_changed

    @property
    def old(self) -> int | None:
        """The snapshot that the result was made from; None when the table has not changed since."""
        return self.table_change.old

    @property
    def since(self) -> tuple[int, ...]:
        """The snapshots since then, when they follow each other and their files tell what changed."""
        change = self.table_change.change
        is_known = not self.table_change.late_by and not change.has_delete_files and change.has_same_columns
        return change.steps or () if is_known else ()

    @property
    def now(self) -> str:
        return format_pinned(self.table, self.state)

    @property
    def then(self) -> str:
        if self.table_change.late_by:
            return self._format_key_join("SEMI")
        return f"{self.table} VERSION AS OF {self.old}" if self.old is not None else self.now

    @property
    def late(self) -> str:
        """The rows of a lookup whose key it did not hold before."""
        return self._format_key_join("ANTI")

    def _format_key_join(self, join: str) -> str:
        by = self.table_change.late_by
        on = " AND ".join(f"n.{quote(c)} = b.{quote(c)}" for c in by)
        before = f"(SELECT {', '.join(quote(c) for c in by)} FROM {self.table} VERSION AS OF {self.old}) b"
        return f"(SELECT n.* FROM {self.now} n LEFT {join} JOIN {before} ON {on})"

    @property
    def nothing(self) -> str:
        return f"(SELECT * FROM {self.now} LIMIT 0)"


# --- the decision, with what is known when the node's turn has come ---------------------------------------------------


def decide_refresh(context: NodeContext) -> Refresh:
    """The way in which the node is brought up to date, decided as the plan does, from its inputs as they are now."""
    if context.node.python:
        return choose_refresh(_observe_changes(context, QueryObservation()))
    case = _observe_case(context, build_context_template(context))
    return choose_refresh(replace(case, matching=count_matching_rows(context.lake, case)))


def build_context_template(context: NodeContext) -> Template:
    """The node's query as a template; raises `NotIncremental` when it has none."""
    if context.node.python:
        raise NotIncremental("its rows come from Python")
    return build_node_template(context.node, context.project, context.live, context.at_version)


def resolve_slots(
    context: NodeContext, template: Template, new_inputs: bool = False, any_columns: bool = False
) -> list[TableSlot]:
    """The tables of a query, each with its change; raises `NotIncremental` when a change cannot be followed."""
    tables = observe_tables(template.names, context.project, context.externals, _read_state(context))
    case = _observe_changes(context, QueryObservation(tables))
    return _build_slots(context, resolve_tables(case, new_inputs, any_columns))


def resolve_upstream_slots(context: NodeContext) -> dict[str, TableSlot]:
    """What a Python model reads, each with its change; raises `NotIncremental` when a change cannot be followed."""
    names = context.node.upstream
    case = _observe_changes(
        context, QueryObservation(observe_tables(names, context.project, context.externals, _read_state(context)))
    )
    return dict(zip(names, _build_slots(context, resolve_tables(case)), strict=True))


def observe_current_query(context: NodeContext) -> tuple[RefreshCase, Template, list[TableSlot]] | None:
    """The node's query over its tables as they are now; None when one of them is not a table."""
    if context.node.python:
        return None
    template = build_context_template(context)
    case = _observe_case(context, template)
    if any(table.state is None for table in case.query.tables):
        return None
    tables = tuple(TableChange(index, table.relation) for index, table in enumerate(case.query.tables))
    return case, template, _build_slots(context, tables)


def _observe_case(context: NodeContext, template: Template) -> RefreshCase:
    query = observe_query(
        context.node, context.project, template, context.externals, _read_state(context), context.classifications
    )
    return _observe_changes(context, query)


def _observe_changes(context: NodeContext, query: QueryObservation) -> RefreshCase:
    """The case of a node, with what happened to the tables that its table was made from."""
    current = build_relation_state(context.current) if context.current is not None else None
    case = RefreshCase(
        context.node,
        context.project,
        context.planned.reason,
        current,
        query,
        context.inputs,
        gate=context.workspace.gate,
    )
    pairs = list_compared(case)
    histories = SnapshotHistories(context.lake)
    return replace(case, changes=compare_snapshots(histories, context.project, context.externals, pairs))


def _read_state(context: NodeContext) -> Callable[[Relation], RelationState | None]:
    def read(relation: Relation) -> RelationState | None:
        state = context.states(relation)
        return build_relation_state(state) if state is not None else None

    return read


def _build_slots(context: NodeContext, tables: tuple[TableChange, ...] | Obstacle) -> list[TableSlot]:
    if isinstance(tables, Obstacle):
        raise NotIncremental(str(tables))
    slots = []
    for table in tables:
        state = context.states(table.relation)
        assert state is not None
        slots.append(TableSlot(table, quote(context.catalog, table.relation.schema, table.relation.name), state))
    return slots


# --- carrying it out --------------------------------------------------------------------------------------------------


class IncrementalRefresh:
    """One result being brought up to date: what is proven of its query and what changed beneath it."""

    def __init__(
        self, context: NodeContext, session: Any, columns: list[str], versus: Versus, stack: ExitStack
    ) -> None:
        self.session, self.columns, self.versus, self.stack = session, columns, versus, stack
        refresh = decide_refresh(context)
        # How long it takes tells what to expect of the next one.
        self.context = replace(context, work=replace(context.work, rows=refresh.rows_read))
        if refresh.obstacle is not None or refresh.facts is None:
            raise NotIncremental(str(refresh.obstacle))
        self.template, self.slots = build_context_template(context), _build_slots(context, refresh.tables)
        self.way, self.facts, self.proposal = refresh.way, refresh.facts.name_outputs(columns), refresh.proposal
        self._deltas: dict[int, Any] = {}

    @property
    def text(self) -> str:
        """The query with the number of its slot in the place of each table."""
        return render_with_slots(self.template)

    def find_affected_keys(self) -> AffectedKeys | None:
        """The keys that changes touch; None when the changes themselves go through the operators of the query."""
        if self.way == "operators":
            return None
        partitions = _find_affected_partitions(self)
        if partitions is None and self.way != "linear":
            keys = choose_keys(self.facts, tuple(slot.table_change for slot in self.slots), self.versus)
            deltas = {slot.index: self.compute_delta(slot.index) for slot in self.slots if slot.changed}
            partitions = _collect_affected_keys(self.session, keys, deltas)
        return partitions

    def compute_delta(self, index: int) -> Any:
        """The net change of the table at a slot, computed once."""
        if index not in self._deltas:
            self._deltas[index] = _compute_delta(self.context, self.session, self.slots[index], self.facts, self.stack)
        return self._deltas[index]

    def find_ranges(self, index: int, column: str) -> list[tuple[str, str]] | None:
        """Between which values, as SQL, a column of changed rows lies; None where statistics of files do not tell."""
        slot = self.slots[index]
        new = slot.state.snapshot_id
        if slot.old is None or new is None or slot.table_change.late_by:
            return None
        ranges = self.context.lake.find_changed_ranges(slot.relation, slot.old, new, [column]).get(column)
        if ranges is None:
            return None
        return [(_render_bound(ranges.kind, low), _render_bound(ranges.kind, high)) for low, high in ranges.ranges]

    def read_changes(self, index: int) -> Any:
        """The changed rows of the table at a slot one by one, those too that came and went unchanged."""
        return _read_changes(self.context, self.session, self.slots[index], self.facts, self.stack, net=False)

    def map_target_columns(self, affected: AffectedKeys) -> Mapping[str, str] | None:
        """The columns of the target that hold the touched keys; None when the target is not to be compared with."""
        if self.versus != "target" or not all(k.outputs for k in affected.chosen.values()):
            return None
        return {n: k.outputs[0] for n, k in affected.chosen.items()}

    def evaluate_keys(self, affected: AffectedKeys, version: Callable[[TableSlot], str]) -> Any:
        """The query over the touched keys only."""

        def fill(index: int) -> str:
            by = {n: c for n, k in affected.chosen.items() if (c := k.get_expression(index)) is not None}
            text = version(self.slots[index])
            return affected.keys.restrict(text, by) if by else text

        frame = self.session.sql(self.template.render(fill))
        return frame.select(*[quote(c) for c in self.columns])

    def read_target_rows(self, affected: AffectedKeys, by: Mapping[str, str]) -> Any:
        """What the target holds for the touched keys."""
        current = self.context.current
        assert current is not None
        text = affected.keys.restrict(f"{self.context.format_relation()} VERSION AS OF {current.snapshot_id}", by)
        return self.session.sql(f"SELECT {', '.join(quote(c) for c in self.columns)} FROM {text}")

    def compute_key_change(self, affected: AffectedKeys) -> Any:
        """The net change of the result in the touched keys, as a frame that is computed once."""
        from sqb.spark.data import changes

        by = self.map_target_columns(affected)
        now = self.evaluate_keys(affected, lambda slot: slot.now)
        then = (
            self.evaluate_keys(affected, lambda slot: slot.then) if by is None else self.read_target_rows(affected, by)
        )
        terms = [changes.with_multiplicity(now, 1, self.columns), changes.with_multiplicity(then, -1, self.columns)]
        # Each term is computed by itself: Spark fails to plan some queries as part of a grouped union.
        frame = changes.union_all([self.stack.enter_context(changes.persisted(term)) for term in terms])
        return self.stack.enter_context(changes.persisted(changes.sum_changes(frame, self.columns)))


def _render_bound(kind: Literal["bigint", "date", "timestamp"], value: int) -> str:
    """A bound as SQL: a whole number, a day or a moment."""
    # The least number has no literal: it would be one too large, with a minus before it.
    number = f"{value}L" if value > _LEAST else f"({value + 1}L - 1L)"
    match kind:
        case "bigint":
            return number
        case "date":
            return f"date_from_unix_date({value})"
        case "timestamp":
            return f"timestamp_micros({number})"


def render_with_slots(template: Template) -> str:
    """The text of a query in which each table is called by the number of its slot."""
    return template.render(lambda index: f"{SLOT}{index}")


def _compute_delta(context: NodeContext, session: Any, slot: TableSlot, facts: Facts, stack: ExitStack) -> Any:
    from sqb.spark.data import changes

    return stack.enter_context(changes.persisted(_read_changes(context, session, slot, facts, stack)))


def _read_changes(
    context: NodeContext, session: Any, slot: TableSlot, facts: Facts, stack: ExitStack, net: bool = True
) -> Any:
    from sqb.spark.data import changes

    columns = facts.columns[slot.index] or tuple(c.name for c in slot.state.columns)
    assert slot.old is not None and slot.state.snapshot_id is not None
    if slot.table_change.late_by:
        late = session.sql(f"SELECT {', '.join(quote(c) for c in columns)} FROM {slot.late}")
        return changes.with_multiplicity(late, 1, columns)
    return read_slot_changes(context, session, slot, columns, stack, net)


@dataclass(frozen=True, slots=True)
class AffectedKeys:
    """The keys by which a query is restricted, each under a name, and the values of them that changes touch."""

    chosen: Mapping[str, Key]
    keys: Any


def _find_affected_partitions(refresh: IncrementalRefresh) -> AffectedKeys | None:
    """The touched partitions, when a key of the query is what every changed table is partitioned by.

    Manifests tell them, so that no row has to be read to find out what changed.
    """
    from sqb.spark.data import changes

    is_linear, versus = refresh.way == "linear", refresh.versus
    changed = [slot for slot in refresh.slots if slot.changed]
    fitting = [k for k in refresh.facts.keys if {slot.index for slot in changed} <= {index for index, _ in k.slots}]
    if versus == "target":
        fitting = [k for k in fitting if k.outputs]
    # Rows that were only added need no look at what is there: a linear query just adds what they give.
    only_added = is_linear and all(slot.table_change.read_mode == "appended" for slot in changed)
    if not fitting or only_added or not all(slot.since for slot in changed):
        return None
    if is_linear and versus == "result":
        return None
    partitions = {
        slot.index: refresh.context.lake.find_changed_partitions(slot.relation, slot.since) for slot in changed
    }
    for key in fitting:
        listed = {slot.index: _list_partition_values(key, slot.index, partitions[slot.index]) for slot in changed}
        known = {index: values for index, values in listed.items() if values is not None}
        if len(known) < len(changed) or sum(map(len, known.values())) > changes.ChangedKeys.FEW:
            continue
        expressions = {index: str(key.get_expression(index)) for index in known}
        keys = changes.read_partition_keys(refresh.session, "k0", expressions, known)
        if keys.all_literal:
            return AffectedKeys({"k0": key}, keys)
    return None


def _list_partition_values(key: Key, index: int, partitions: Mapping[str, Sequence[Any]]) -> list[Any] | None:
    """The touched values of the column that a key is made of, where that partitions the table at a slot."""
    values = {name.lower(): v for name, v in partitions.items()}
    columns = list_key_columns(str(key.get_expression(index)))
    value = values.get(columns[0].lower()) if len(columns) == 1 else None
    return list(dict.fromkeys(value)) if value is not None else None


def _collect_affected_keys(session: Any, chosen: list[Key], deltas: Mapping[int, Any]) -> AffectedKeys:
    """The keys of the rows that changed."""
    from sqb.spark.data import changes

    named = {f"k{i}": key for i, key in enumerate(chosen)}
    parts = []
    for index, delta in deltas.items():
        parts.append(
            delta.selectExpr(
                *[f"{render_key_expression(str(k.get_expression(index)))} AS {quote(n)}" for n, k in named.items()]
            )
        )
    return AffectedKeys(named, changes.ChangedKeys(session, changes.union_all(parts).distinct(), "__sqb_keys"))
