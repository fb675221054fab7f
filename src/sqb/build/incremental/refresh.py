"""Bringing a result up to date from the changes of its inputs: what changed, whether it pays, and the net difference.

Whatever cannot be done exactly, or would not pay, raises `NotIncremental`: the caller rebuilds and reports why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqb.build.node.render import AtVersion, Name, format_pinned, format_spark_type, resolve_fixed_slot
from sqb.compile.model import Node, Project
from sqb.lake.port import SnapshotInfo, TableState
from sqb.names import Relation, quote
from sqb.plan.column_changes import EVERYTHING, has_storage_reads, is_same_as_read, resolve_column_reads
from sqb.plan.model import Reason
from sqb.plan.observed import Version, is_same_version
from sqb.plan.versions import RecordedVersion, parse_sources
from sqb.project.config.settings import CostGate
from sqb.sql.delta.facts import Facts, Key, render_key_expression
from sqb.sql.text.template import Part, Template, build_template

if TYPE_CHECKING:
    from sqb.build.node.context import NodeContext

Versus = Literal["target", "result"]
# Kinds whose rows are the query's result; their content is made from that of before.
_RESULT_KINDS = ("table", "merge", "tracked")


class NotIncremental(Exception):
    """Why a result is rebuilt instead of brought up to date."""


@dataclass(frozen=True, slots=True)
class TableSlot:
    """A table in a query: what it is now, and where it was when the result was made."""

    index: int
    relation: Relation
    table: str
    state: TableState
    # The snapshot that the result was made from; None when the table has not changed since.
    old: int | None = None
    read_mode: str = ""
    changed_rows: int | None = None
    # The snapshots since then, when they follow each other.
    since: tuple[int, ...] = ()
    # Of a lookup that is INNER JOINed: the columns that it is joined by. Then it has changed by the rows whose key it
    # did not hold before, and the values of keys that it held are today's.
    late_by: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return self.old is not None

    @property
    def now(self) -> str:
        return format_pinned(self.table, self.state)

    @property
    def then(self) -> str:
        if self.late_by:
            return self._format_key_join("SEMI")
        return f"{self.table} VERSION AS OF {self.old}" if self.old is not None else self.now

    @property
    def late(self) -> str:
        """The rows of a lookup whose key it did not hold before."""
        return self._format_key_join("ANTI")

    def _format_key_join(self, join: str) -> str:
        on = " AND ".join(f"n.{quote(c)} = b.{quote(c)}" for c in self.late_by)
        before = f"(SELECT {', '.join(quote(c) for c in self.late_by)} FROM {self.table} VERSION AS OF {self.old}) b"
        return f"(SELECT n.* FROM {self.now} n LEFT {join} JOIN {before} ON {on})"

    @property
    def nothing(self) -> str:
        return f"(SELECT * FROM {self.now} LIMIT 0)"


def build_node_template(node: Node, project: Project, live: Name, at_version: AtVersion) -> Template:
    """A node's query as a template, seen through views; raises `NotIncremental` when it has none."""
    if node.python:
        raise NotIncremental("its rows come from Python")
    views = {n.name: Part(n.sql, n.slots, n.reads) for n in project if n.kind == "view"}
    queries = ((s.name, s.expression) for s in project.sources.values() if s.name not in project.nodes)
    views |= {name: Part(q.sql, q.slots, q.reads) for name, q in queries if q is not None}
    return build_template(
        Part(node.sql, node.slots, node.reads),
        views,
        lambda sql, slot, name: resolve_fixed_slot(sql, slot, name, live, at_version),
    )


def resolve_slots(
    context: NodeContext, template: Template, new_inputs: bool = False, any_columns: bool = False
) -> list[TableSlot]:
    """The tables of a query, each with its change; raises `NotIncremental` when a change cannot be followed.

    With `new_inputs` a table that was not read before counts as one that has not changed; with `any_columns` a table
    may have had other columns.
    """
    current = context.current
    if current is None or not current.identity or current.identity.loader or current.drifted:
        raise NotIncremental("there is nothing to start from")
    recorded = parse_sources(current.identity.sources) or {}
    for name, at in context.node.table_calls:
        raise NotIncremental(f"{name}() is a table function ({at})")
    lookups = {lookup.name for lookup in context.node.lookups}
    for found, version in context.inputs:
        if found.name in lookups:
            continue
        inlined = version.definition is not None and version.files is None and version.fresh is None
        if inlined and not new_inputs and not _is_same_view(recorded.get(found.key), version):
            raise NotIncremental(f"the {'view' if found.view else 'expression of'} {found.name} changed")
        if found.travel is not None and not is_same_version(recorded.get(found.key), version):
            raise NotIncremental(f"{found.key} moved")
    return [
        _build_slot(context, index, name, recorded, new_inputs, any_columns)
        for index, name in enumerate(template.names)
    ]


def resolve_current_slots(context: NodeContext, template: Template) -> list[TableSlot] | None:
    """The tables of a query as they are now; None when one of them is not there, or is a view that sqb did not make."""
    slots = []
    for index, name in enumerate(template.names):
        state = context.get_state(name) if name in context.project.nodes or name in context.externals else None
        if state is None or state.is_view:
            return None
        slots.append(TableSlot(index, context.get_relation(name), "", state))
    return slots


def resolve_slot(context: NodeContext, index: int, name: str) -> TableSlot:
    """One table that a node reads, with its change; raises `NotIncremental` when it cannot be followed."""
    current = context.current
    if current is None or not current.identity or current.drifted:
        raise NotIncremental("there is nothing to start from")
    return _build_slot(
        context, index, name, parse_sources(current.identity.sources) or {}, new_inputs=False, any_columns=False
    )


def _is_same_view(recorded: RecordedVersion | None, version: Version) -> bool:
    """Whether a view is what it was, in the columns that are read of it."""
    if recorded is None or recorded.definition is None:
        return False
    return recorded.definition == version.definition or (bool(recorded.as_read) and recorded.as_read == version.as_read)


def _build_slot(
    context: NodeContext,
    index: int,
    name: str,
    recorded: Mapping[str, RecordedVersion],
    new_inputs: bool,
    any_columns: bool,
) -> TableSlot:
    source = context.project.sources.get(name) if name not in context.project.nodes else None
    if source is not None and source.path is not None:
        raise NotIncremental(f"{name} is read from files, whose earlier rows are not available")
    state = context.get_state(name)
    relation = context.get_relation(name)
    if state is None or state.is_view:
        raise NotIncremental(f"{name} is a view that sqb did not make")
    table = quote(context.catalog, relation.schema, relation.name)
    lookup = next((candidate for candidate in context.node.lookups if candidate.name == name), None)
    late_by = dict(lookup.slots).get(index, ()) if lookup is not None else ()
    if lookup is not None and not late_by:
        # A lookup is read at its newest version, and drives nothing.
        return TableSlot(index, relation, table, state)
    key = str(context.get_version_key(name))
    then = recorded.get(key)
    if then is None or not then.is_table:
        if new_inputs:
            return TableSlot(index, relation, table, state)
        raise NotIncremental(f"{name} was not read before")
    version = next((v for i, v in context.inputs if i.key == key), None)
    # For a query that shows where rows are stored, the same rows in other files are other rows.
    moves = has_storage_reads(context.node, context.project) and then.snapshot_id != state.snapshot_id
    read = resolve_column_reads(context.node, context.project).get(key, EVERYTHING)
    if version is not None and not moves and is_same_as_read(then, version, read):
        return TableSlot(index, relation, table, state)
    altered = then.columns != state.columns_token or tuple(state.columns) != tuple(state.snapshot_columns)
    if altered and not any_columns:
        raise NotIncremental(f"the columns of {name} changed")
    snapshot, content = then.snapshot_id, then.content
    if not moves and (snapshot == state.snapshot_id or snapshot in state.same_rows):
        return TableSlot(index, relation, table, state)
    if content is not None and not moves and not state.drifted and content == state.identity.content:
        return TableSlot(index, relation, table, state)
    if snapshot is None or state.snapshot_id is None:
        raise NotIncremental(f"{name} had no rows to compare with")
    between = _list_snapshots_between(context.lake.read_lineage(relation), snapshot, state.snapshot_id)
    how, rows = _choose_read_mode(between, snapshot, context, relation)
    if late_by:
        return TableSlot(index, relation, table, state, snapshot, "late", rows, late_by=late_by)
    since = tuple(s.id for s in between) if between is not None and how != "compared" else ()
    return TableSlot(index, relation, table, state, snapshot, how, rows, since)


def _list_snapshots_between(lineage: tuple[SnapshotInfo, ...], old: int, new: int) -> tuple[SnapshotInfo, ...] | None:
    """The snapshots after `old` up to `new`, newest first; None when one does not lead to the other."""
    ids = [s.id for s in lineage]
    if new not in ids or old not in ids or ids.index(old) < ids.index(new):
        return None
    return lineage[ids.index(new) : ids.index(old)]


def _choose_read_mode(
    between: tuple[SnapshotInfo, ...] | None, old: int, context: NodeContext, relation: Relation
) -> tuple[str, int | None]:
    """The cheapest exact way to see what changed, and a bound on how many rows did."""
    if between is None:
        if not context.lake.has_snapshot(relation, old):
            raise NotIncremental(f"the version of {relation} that it was made from has expired")
        return "compared", None
    counted = [s for s in between if s.added_rows is not None and s.removed_rows is not None]
    rows = sum((s.added_rows or 0) + (s.removed_rows or 0) for s in counted if s.operation != "replace")
    if any(s.has_delete_files for s in between) or len(counted) < len(between):
        return "compared", None
    if not all(s.has_same_columns for s in between) or not _get_base_snapshot(context, relation, old).has_same_columns:
        # Files of another schema are only read right as part of their own snapshot.
        return "compared", rows
    if all(s.operation == "append" and not s.removed_rows for s in between):
        return "appended", rows
    return "changelog", rows


def _get_base_snapshot(context: NodeContext, relation: Relation, old: int) -> SnapshotInfo:
    return next(s for s in context.lake.read_lineage(relation) if s.id == old)


def exceeds_cost_gate(slots: list[TableSlot], gate: CostGate) -> str | None:
    """Why following the changes would not pay; a change of unknown size counts as the whole table."""
    changed = (h.changed_rows if h.changed_rows is not None else h.state.rows or 0 for h in slots if h.changed)
    return gate.explain_rebuild(sum(h.state.rows or 0 for h in slots), sum(changed))


def choose_keys(facts: Facts, slots: list[TableSlot], versus: Versus) -> list[Key]:
    """The keys by which to restrict every table that changed: all that restrict the same tables."""
    changed = {h.index for h in slots if h.changed}
    fitting = [k for k in facts.keys if changed <= {hole for hole, _ in k.slots}]
    if not fitting:
        names = ", ".join(sorted({str(h.relation) for h in slots if h.changed}))
        raise NotIncremental(f"no key of the query restricts {names}")

    def usefulness(key: Key) -> tuple[bool, int]:
        return (versus == "target" and bool(key.outputs), -len(key.slots))

    best = max(fitting, key=usefulness)
    tables = {slot for slot, _ in best.slots}
    return [k for k in fitting if {h for h, _ in k.slots} == tables and bool(k.outputs) == bool(best.outputs)][:4]


class IncrementalRefresh:
    """One result being brought up to date: what is proven of its query and what changed beneath it."""

    def __init__(
        self, context: NodeContext, session: Any, columns: list[str], versus: Versus, stack: ExitStack
    ) -> None:
        self.context, self.session, self.columns, self.versus, self.stack = context, session, columns, versus, stack
        self.template, facts, self.slots = plan_refresh(context)
        self.facts = facts.name_outputs(columns)
        self._deltas: dict[int, Any] | None = None

    def find_affected_keys(self) -> AffectedKeys | None:
        """The keys that changes touch; None when the changes themselves go through a linear query."""
        partitions = _find_affected_partitions(self.context, self.session, self.facts, self.slots, self.versus)
        if partitions is None and self.facts.kind != "linear":
            partitions = _collect_affected_keys(
                self.session, choose_keys(self.facts, self.slots, self.versus), self.compute_deltas()
            )
        return partitions

    def compute_deltas(self) -> dict[int, Any]:
        """The net change of each table that changed."""
        if self._deltas is None:
            changed = [h for h in self.slots if h.changed]
            self._deltas = {h.index: _compute_delta(self.session, h, self.facts, self.stack) for h in changed}
        return self._deltas

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

    def compute_change(self, affected: AffectedKeys | None) -> Any:
        """The net change of the result, as a frame that is computed once."""
        from sqb.spark.data import changes

        if affected is None:
            terms = _propagate_linearly(
                self.session, self.template, self.facts, self.slots, self.compute_deltas(), self.columns
            )
        else:
            by = self.map_target_columns(affected)
            now = self.evaluate_keys(affected, lambda h: h.now)
            then = self.evaluate_keys(affected, lambda h: h.then) if by is None else self.read_target_rows(affected, by)
            terms = [changes.with_multiplicity(now, 1, self.columns), changes.with_multiplicity(then, -1, self.columns)]
        # Each term is computed by itself: Spark fails to plan some queries as part of a grouped union.
        frame = changes.union_all([self.stack.enter_context(changes.persisted(term)) for term in terms])
        return self.stack.enter_context(changes.persisted(changes.sum_changes(frame, self.columns)))


def _compute_delta(session: Any, slot: TableSlot, facts: Facts, stack: ExitStack) -> Any:
    from sqb.spark.data import changes

    columns = facts.columns[slot.index] or tuple(c.name for c in slot.state.columns)
    assert slot.old is not None and slot.state.snapshot_id is not None
    if slot.late_by:
        late = session.sql(f"SELECT {', '.join(quote(c) for c in columns)} FROM {slot.late}")
        return stack.enter_context(changes.persisted(changes.with_multiplicity(late, 1, columns)))
    how: Any = slot.read_mode
    frame = changes.read_table_changes(session, slot.table, slot.old, slot.state.snapshot_id, columns, how)
    return stack.enter_context(changes.persisted(frame))


def _propagate_linearly(
    session: Any,
    template: Template,
    facts: Facts,
    slots: list[TableSlot],
    deltas: Mapping[int, Any],
    columns: list[str],
) -> list[Any]:
    """Each table's changes in turn, with the tables before it as they are now and those after it as they were."""
    from sqb.spark.data import changes

    terms = []
    for index, delta in deltas.items():
        needed = facts.columns[index] or tuple(c.name for c in slots[index].state.columns)
        for sign in (1,) if slots[index].read_mode in ("appended", "late") else (1, -1):
            view = f"__sqb_{'came' if sign > 0 else 'went'}_{index}"
            changes.expand_rows(delta, sign, needed).createOrReplaceTempView(view)

            def fill(other: int, index: int = index, view: str = view) -> str:
                slot = slots[other]
                if other == index:
                    return f"(SELECT * FROM {view})"
                if other in facts.apart[index]:
                    return slot.nothing
                return slot.now if other < index else slot.then

            terms.append(changes.with_multiplicity(session.sql(template.render(fill)), sign, columns))
    return terms


@dataclass(frozen=True, slots=True)
class AffectedKeys:
    """The keys by which a query is restricted, each under a name, and the values of them that changes touch."""

    chosen: Mapping[str, Key]
    keys: Any


def _find_affected_partitions(
    context: NodeContext, session: Any, facts: Facts, slots: list[TableSlot], versus: Versus
) -> AffectedKeys | None:
    """The touched partitions, when a key of the query is what every changed table is partitioned by.

    Manifests tell them, so that no row has to be read to find out what changed.
    """
    from sqb.spark.data import changes

    changed = [h for h in slots if h.changed]
    fitting = [k for k in facts.keys if {h.index for h in changed} <= {hole for hole, _ in k.slots}]
    if versus == "target":
        fitting = [k for k in fitting if k.outputs]
    # Rows that were only added need no look at what is there: a linear query just adds what they give.
    only_added = facts.kind == "linear" and all(h.read_mode == "appended" for h in changed)
    if not fitting or only_added or not all(h.since for h in changed):
        return None
    if facts.kind == "linear" and versus == "result":
        return None
    partitions = {h.index: context.lake.find_changed_partitions(h.relation, h.since) for h in changed}
    for key in fitting:
        values: list[Any] = []
        for slot in changed:
            partition_values = {name.lower(): v for name, v in partitions[slot.index].items()}
            if str(key.get_expression(slot.index)).lower() not in partition_values:
                break
            values += partition_values[str(key.get_expression(slot.index)).lower()]
        else:
            unique = list(dict.fromkeys(values))
            if len(unique) <= changes.ChangedKeys.FEW:
                return AffectedKeys({"k0": key}, changes.ChangedKeys.from_literals(session, {"k0": unique}))
    return None


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


def analyse_query(context: NodeContext, template: Template, slots: list[TableSlot]) -> Facts:
    """What is proven of a node's query over the columns that its tables have."""
    from sqb.sql.delta.classify import classify_query

    if context.node.unread:
        return Facts("opaque", f"the query could not be analysed ({context.node.unread})")
    schemas = [{c.name: format_spark_type(json.loads(c.type)) for c in h.state.columns} for h in slots]
    python = (f for f in context.project.functions if f.language == "python" and not f.is_table)
    return classify_query(template, schemas, frozenset(f.name for f in python if f.deterministic))


def plan_refresh(context: NodeContext) -> tuple[Template, Facts, list[TableSlot]]:
    """The query, what is proven of it and what changed; raises `NotIncremental` when a rebuild is needed or cheaper."""
    refresh = context.node.settings.get("refresh", "auto")
    if context.planned.reason not in (Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED):
        raise NotIncremental(str(context.planned.reason).lower())
    if refresh == "full":
        raise NotIncremental("refresh full")
    template = build_node_template(context.node, context.project, context.live, context.at_version)
    slots = resolve_slots(context, template)
    facts = analyse_query(context, template, slots)
    if facts.kind == "opaque":
        raise NotIncremental(f"the query is opaque: {facts.why}")
    if refresh != "incremental" and (reason := exceeds_cost_gate(slots, context.workspace.gate)):
        raise NotIncremental(reason)
    if facts.kind == "keyed":
        choose_keys(facts, slots, "result")
    content = context.current.identity.content if context.current is not None else ""
    if context.node.kind in _RESULT_KINDS and not content.startswith("n:"):
        raise NotIncremental("its content was never recorded")
    return template, facts, slots
