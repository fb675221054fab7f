"""The state of a model's groups: a table beside the model's own, from which changes are added up.

It is written first, and named by the commit of the model's table: a state that no commit names counts for nothing,
whatever the catalog says of it. Every write starts from the snapshot that is named, never from the newest one, so that
a build that is killed between the two commits leaves nothing that the next one could mistake for the truth. Whatever
does not fit, because it is lost, expired or made for another query, means a rebuild.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqb.build.incremental.fallback import NotIncremental, explain_fallback
from sqb.build.incremental.refresh import (
    IncrementalRefresh,
    TableSlot,
    iter_terms,
    observe_current_query,
    render_with_slots,
)
from sqb.build.node.publish import format_stage
from sqb.lake.port import Shape
from sqb.names import Relation, quote
from sqb.plan.commit_identity import MODEL, CommitIdentity
from sqb.plan.group_state import NamedState, build_state_relation
from sqb.plan.refresh import wants_group_state

if TYPE_CHECKING:
    from sqb.build.node.context import NodeContext
    from sqb.sql.delta.aggregates import StateDesign
    from sqb.sql.delta.skeleton import Edit, Query
    from sqb.sql.text.template import Template

# A change of how state is computed or stored makes all states of before unusable.
_FORM = 1


class NoGroupState(Exception):
    """Why a query's groups are not kept: its values do not add up exactly, or no table would hold them."""


@dataclass(frozen=True, slots=True)
class GroupedQuery:
    """A query whose aggregates add up, ready to compute state in the place of its rows."""

    text: str
    query: Query
    design: StateDesign

    @property
    def token(self) -> str:
        """What the state is made of; a state with another token is another query's."""
        parts = [_FORM, self.text, [[f.name, f.expression, f.type] for f in self.design.figures]]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def render_state(self, fills: Mapping[int, str]) -> str:
        """The state over the rows of all tables."""
        from sqb.sql.delta.linear import fill_slots
        from sqb.sql.delta.skeleton import apply_edits

        return apply_edits(self.text, (*fill_slots(self.text, self.query, fills), *self._edits))

    def render_term(self, slot: int, fills: Mapping[int, str]) -> str:
        """The state over some rows of the table at a slot."""
        from sqb.sql.delta.linear import render_term

        return render_term(self.text, self.query, slot, fills, self._edits)

    @property
    def _edits(self) -> tuple[Edit, ...]:
        from sqb.sql.delta.skeleton import Edit

        order = (Edit(self.query.order, ""),) if self.query.order is not None else ()
        return (*self.design.render_partials(), *order)


def prepare_grouped_query(session: Any, template: Template, slots: Sequence[TableSlot]) -> GroupedQuery:
    """A query with its state designed, by the types that Spark gives its aggregates; raises `NoGroupState`."""
    from sqb.sql.delta.aggregates import StateDesign, design_call_state, render_types_query
    from sqb.sql.delta.blocks import NotProven
    from sqb.sql.delta.followed import read_root_aggregation
    from sqb.sql.delta.linear import fill_slots
    from sqb.sql.delta.read_skeleton import read_skeleton

    text = render_with_slots(template)
    query = read_skeleton(text)
    # Only the names matter here: Spark itself is asked for types.
    schemas = [{c.name: c.type for c in slot.state.columns} for slot in slots]
    aggregation = read_root_aggregation(text, query, schemas)
    now = fill_slots(text, query, {slot.index: slot.now for slot in slots})
    schema = session.sql(render_types_query(text, query, aggregation, now)).schema
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    try:
        calls = tuple(
            design_call_state(i, call, types[f"t{i}"], types[f"u{i}"]) for i, call in enumerate(aggregation.calls)
        )
    except NotProven as problem:
        raise NoGroupState(problem.why) from problem
    return GroupedQuery(text, query, StateDesign(aggregation, calls))


def compute_with_state(context: NodeContext, session: Any, frame: Any) -> tuple[NodeContext, Any]:
    """The rows of a query that is computed in full, by way of the state of its groups where it is to have one.

    Returns the context whose commit names the state, too; without a state both are what they were.
    """
    observed = observe_current_query(context)
    if observed is None or not wants_group_state(observed[0]):
        return context, frame
    _, template, slots = observed
    try:
        grouped = prepare_grouped_query(session, template, slots)
        named = _write_full_state(context, session, grouped, slots)
    except NoGroupState:
        return context, frame
    except Exception as error:
        # What goes wrong here is not the author's mistake either: the query itself is still to be run.
        explain_fallback(error)
        return context, frame
    rows = _read_result(context, session, grouped, named)
    return _name_state(context, named), rows.toDF(*frame.columns)


def _read_result(context: NodeContext, session: Any, grouped: GroupedQuery, named: NamedState) -> Any:
    """The rows of the result that a named state gives."""
    from sqb.spark.data import aggregate_state

    return aggregate_state.read_result(session, _read_state(context, session, named), grouped.design, _VIEW)


def _write_full_state(
    context: NodeContext, session: Any, grouped: GroupedQuery, slots: Sequence[TableSlot]
) -> NamedState:
    """Write the state of all rows."""
    from sqb.spark.data import aggregate_state

    state = session.sql(grouped.render_state({slot.index: slot.now for slot in slots}))
    if why := aggregate_state.find_unfit_column(state, grouped.design):
        raise NoGroupState(why)
    try:
        snapshot = _write_state(context, session, aggregate_state.check_exact(state, grouped.design))
    except Exception as error:
        if why := aggregate_state.explain_refused(error):
            raise NoGroupState(why) from error
        raise
    return NamedState(snapshot, grouped.token)


def follow_groups(refresh: IncrementalRefresh) -> tuple[NodeContext, Any]:
    """Add the changes of tables to the state; the context that names it, and the change of the result."""
    from sqb.spark.data import aggregate_state, changes

    context, session, stack = refresh.context, refresh.session, refresh.stack
    try:
        grouped = prepare_grouped_query(session, refresh.template, refresh.slots)
    except NoGroupState as problem:
        raise NotIncremental(str(problem)) from problem
    named = NamedState.from_json(context.current.identity.group_state if context.current is not None else "")
    if named is None or named.token != grouped.token or not _has_state(context, named):
        raise NotIncremental("the state of its groups is not there")
    terms = [
        (session.sql(grouped.render_term(index, fills)), sign)
        for index, sign, fills in iter_terms(refresh.slots, refresh.compute_deltas())
    ]
    delta = stack.enter_context(changes.persisted(aggregate_state.add_up(terms, grouped.design)))
    change = aggregate_state.StateChange(_read_state(context, session, named), delta, grouped.design)
    touched = stack.enter_context(changes.persisted(change.compute_touched()))
    rows = changes.sum_changes(change.compute_result_change(session, touched, refresh.columns), refresh.columns)
    if not grouped.design.aggregation.is_global and delta.isEmpty():
        # Whatever changed, the query leaves out.
        return _name_state(context, named), rows
    try:
        snapshot = _write_state(context, session, change.compute_state(touched))
    except Exception as error:
        if why := aggregate_state.explain_refused(error):
            raise NotIncremental(why) from error
        raise
    return _name_state(context, NamedState(snapshot, grouped.token)), stack.enter_context(changes.persisted(rows))


_VIEW = "__sqb_group_state"


def _get_relation(context: NodeContext) -> Relation:
    return build_state_relation(context.node.relation)


def _read_state(context: NodeContext, session: Any, named: NamedState) -> Any:
    relation = _get_relation(context)
    table = quote(context.catalog, relation.schema, relation.name)
    return session.sql(f"SELECT * FROM {table} VERSION AS OF {named.snapshot}")


def _has_state(context: NodeContext, named: NamedState) -> bool:
    relation = _get_relation(context)
    return relation in context.lake.list_pointers() and context.lake.has_snapshot(relation, named.snapshot)


def _write_state(context: NodeContext, session: Any, state: Any) -> int:
    """Write a whole state, and publish it; the snapshot that holds it."""
    from sqb.spark.data import frames

    relation = _get_relation(context)
    context.lake.ensure_schemas([relation.schema])
    pointer = context.lake.list_pointers().get(relation)
    current = context.lake.read_tables([pointer])[relation] if pointer is not None else None
    shape = Shape(frames.list_columns(state), properties={MODEL: context.node.name})
    stage = context.lake.stage(relation, shape, current.base if current is not None else None, context.run_id)
    try:
        frames.write_to_stage(session, state, format_stage(context, stage), shape)
        identity = CommitIdentity(group_state_of=str(context.node.relation), run_id=context.run_id)
        published = context.lake.publish(stage, identity.to_properties())
    except BaseException:
        context.lake.discard(stage)
        raise
    context.announce("state published", context.node.name)
    return published.snapshot_id


def _name_state(context: NodeContext, named: NamedState) -> NodeContext:
    return replace(context, additions=[*context.additions, CommitIdentity(group_state=named.to_json())])
