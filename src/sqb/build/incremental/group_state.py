"""The states of a model's groups: tables beside the model's own, from which changes are added up.

There is one for each operator of the query whose aggregates add up. They are written first, and named by the commit of
the model's table: a state that no commit names counts for nothing, whatever the catalog says of it. Every write starts
from the snapshot that is named, never from the newest one, so that a build that is killed between the commits leaves
nothing that the next one could mistake for the truth. Whatever does not fit, because it is lost, expired or made for
another query, means a rebuild.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqb.build.incremental.fallback import NotIncremental
from sqb.build.node.few_rows import fill_stage
from sqb.build.node.publish import format_stage
from sqb.lake.port import Shape
from sqb.names import Relation, quote
from sqb.plan.recorded.commit_identity import MODEL, CommitIdentity
from sqb.plan.recorded.group_state import NamedState, build_state_relation, encode_states, parse_states

if TYPE_CHECKING:
    from contextlib import ExitStack

    from sqb.build.node.context import NodeContext
    from sqb.lake.port import TableState
    from sqb.spark.data.aggregate_state import KeptState, StateChange
    from sqb.spark.data.local_rows import LocalRows
    from sqb.sql.delta.aggregates.state_design import StateDesign
    from sqb.sql.delta.evaluate import Evaluation
    from sqb.sql.delta.rules.places import Version

# A change of how state is computed or stored makes all states of before unusable.
_FORM = 3
# So often changed groups are written over a state before all of it is written again, and up to so many rows.
_MOST_LAYERS = 12
_MOST_OVER_WHOLE = 1.3


class NoGroupState(Exception):
    """Why the groups of an operator are not kept: values do not add up exactly, or no table would hold them."""


@dataclass(frozen=True, slots=True)
class _Added:
    """A change that was added to a state: what it is now as a whole, or in the groups that the change touches."""

    change: StateChange
    all_groups: KeptState | None
    before: Any = None
    after: Any = None


class ModelStates:
    """The states of one model's groups, while its table is built or brought up to date."""

    def __init__(self, context: NodeContext, session: Any, stack: ExitStack, named: Mapping[int, NamedState]) -> None:
        self.context, self.session, self.stack = context, session, stack
        self.named = dict(named)
        # Set by whoever makes the evaluation, which needs the states to be made.
        self.evaluation: Evaluation
        # Those whose groups do not add up exactly: they are not tried again until the query is another one.
        self.refused: set[int] = set()
        self._designs: dict[int, StateDesign] = {}
        self._updated: dict[int, NamedState] = {}
        self._changes: dict[int, _Added] = {}
        # Those whose groups were collected.
        self._local: set[int] = set()

    # --- what the evaluation asks -------------------------------------------------------------------------------------

    def is_updated(self, operator: int) -> bool:
        return operator in self._updated

    def get_design(self, operator: int) -> StateDesign:
        """What is kept for the groups of an operator, by the types that Spark gives its aggregates."""
        if operator not in self._designs:
            self._designs[operator] = _design(self.session, self.evaluation, operator)
        return self._designs[operator]

    def get_result(self, operator: int, version: Version, queries: Mapping[int, str]) -> Any:
        """The rows that an operator's figures give, before or after the change."""
        return self._read_result(operator, self._get_state(operator, version).read_all(), queries)

    def _get_state(self, operator: int, version: Version) -> KeptState:
        if version == "old" or operator not in self._updated:
            return self._read_state(self.named[operator])
        added = self._changes.get(operator)
        # What was just computed need not be read again.
        return added.all_groups if added is not None and added.all_groups else self._read_state(self._updated[operator])

    def add_changes(self, operator: int, texts: Sequence[str]) -> None:
        """Add the figures of changes to those that are kept, and write them."""
        from sqb.spark.data import aggregate_state

        design, old = self.get_design(operator), self._read_state(self.named[operator])
        self._refuse_other_token(operator)
        engine = self.evaluation.engine
        figures = [engine.run(text) for text in texts]
        delta = engine.derive(aggregate_state.add_up(figures, design), *figures)
        with _explained():
            if self.is_small(operator):
                self._add_to_all(operator, aggregate_state.StateChange(old, delta))
            else:
                self._add_to_touched(operator, aggregate_state.StateChange(old, engine.persist(delta)))

    def _add_to_all(self, operator: int, change: StateChange) -> None:
        """Merge a change into a small state in one pass, and write all of it."""
        from sqb.spark.data import aggregate_state

        design, engine = self.get_design(operator), self.evaluation.engine
        merged = engine.derive(change.compute_all(), change.delta, change.state.rows)
        local = self._collect_groups(operator, merged)
        if local is not None:
            groups = local.frame
            self._updated[operator] = self._write_local_state(operator, local)
            self._local.add(operator)
        else:
            groups = self._redo_groups(operator, engine.persist(merged))
            self._updated[operator] = self._write_changed_state(operator, groups)
        touched = engine.derive(groups.where(aggregate_state.TOUCHED), groups)
        listed = engine.derive(aggregate_state.list_groups(groups, design), groups)
        all_groups = aggregate_state.KeptState(listed, design)
        self._changes[operator] = _Added(aggregate_state.StateChange(change.state, touched), all_groups)

    def _collect_groups(self, operator: int, merged: Any) -> LocalRows | None:
        """The groups of a small state after a change, in this process's memory; None where they are not few any more.

        Whatever reads them from then on needs neither the plan that they come from nor a job.
        """
        from sqb.spark.data import aggregate_state, local_rows

        design, most = self.get_design(operator), self.context.workspace.gate.small_rows
        groups = local_rows.collect_rows(self.session, merged, most)
        if groups is None or not design.has_extremes or not groups.count_true(aggregate_state.REDO):
            return groups
        return local_rows.collect_rows(self.session, self._compute_again(operator, groups.frame), most)

    def _add_to_touched(self, operator: int, change: StateChange) -> None:
        """Compute what a change makes of the groups that it touches, and write these over those of a large state."""
        from sqb.spark.data import aggregate_state

        named, design, engine = self.named[operator], self.get_design(operator), self.evaluation.engine
        before = engine.persist(engine.derive(change.read_touched(), change.delta, change.state.rows))
        merged = engine.persist(engine.derive(change.compute_touched(before), change.delta, before))
        groups = self._redo_groups(operator, merged)
        whole = self._count_whole(named)
        if whole is None:
            self._updated[operator] = self._write_changed_state(operator, change.add_untouched(groups), 0)
        else:
            written = self._write_changed_state(operator, groups, named.layers + 1)
            is_new = written.snapshot != named.snapshot
            added = replace(written, layers=named.layers + 1, whole_rows=whole)
            self._updated[operator] = added if is_new else named
        after = engine.derive(aggregate_state.list_groups(groups, design), groups)
        self._changes[operator] = _Added(change, None, before, after)

    def compute_change(
        self, operator: int, queries: Mapping[Version, Mapping[int, str]], are_values_changed: bool
    ) -> Any:
        """The change of an operator's rows, in the groups that changes touch."""
        from sqb.spark.data import changes

        added, design, engine = self._changes[operator], self.get_design(operator), self.evaluation.engine
        new, old = self._get_state(operator, "new"), added.change.state
        if are_values_changed or design.aggregation.has_windows:
            after, before = new.read_all(), old.read_all()
        elif added.before is not None and not design.aggregation.distinct:
            after, before = added.after, added.before
        else:
            after, before = (
                engine.derive(added.change.restrict_groups(state), state.rows, added.change.delta)
                for state in (new, old)
            )
        columns = self.evaluation.list_plain_columns(operator)
        rows = self._read_result(operator, after, queries["new"])
        removed = self._read_result(operator, before, queries["old"])
        both = (changes.with_multiplicity(rows, 1, columns), changes.with_multiplicity(removed, -1, columns))
        return engine.derive(changes.union_all(both), rows, removed)

    def _redo_groups(self, operator: int, touched: Any) -> Any:
        """Touched groups; those of which only their rows can tell the extremes are computed from these."""
        from sqb.spark.data import aggregate_state

        if not self.get_design(operator).has_extremes or not aggregate_state.count_redo(touched):
            return touched
        return self.evaluation.engine.persist(self._compute_again(operator, touched))

    def _compute_again(self, operator: int, touched: Any) -> Any:
        """Touched groups, of which those are computed from their rows of which only these tell what they are."""
        from sqb.spark.data import aggregate_state
        from sqb.sql.delta.rules.add_up import render_group_figures

        design, engine = self.get_design(operator), self.evaluation.engine
        keys = engine.derive(touched.where(aggregate_state.REDO).select(*design.keys), touched)
        redone = engine.run(render_group_figures(self.evaluation, operator, design, self.evaluation.name(keys)))
        replaced = aggregate_state.replace_groups(touched, redone, design)
        return engine.derive(replaced, touched, touched, redone)

    def is_local(self, operator: int) -> bool:
        """Whether the groups of an operator are few, and in this process's memory."""
        return operator in self._local

    def is_small(self, operator: int) -> bool:
        """Whether a state is merged and written as a whole in less time than it takes to look up groups in it."""
        current = self._find_table(self._get_relation(operator))
        rows = current.rows if current is not None else None
        return rows is not None and rows <= self.context.workspace.gate.small_rows

    def _count_whole(self, named: NamedState) -> int | None:
        """The rows of a state over which changed groups may be written; None where all is to be written again.

        They are not written over what a killed build left, nor for ever: what is over the whole is read with it.
        """
        current = self._find_table(self._get_relation(named.operator))
        if current is None or current.snapshot_id != named.snapshot or not self.get_design(named.operator).keys:
            return None
        rows = current.rows or 0
        whole = named.whole_rows if named.layers else rows
        return whole if named.layers < _MOST_LAYERS and rows <= _MOST_OVER_WHOLE * whole else None

    # --- full builds --------------------------------------------------------------------------------------------------

    def write_full_state(self, operator: int) -> None:
        """Write the state of all rows of an operator; raises `NoGroupState` where it is not to have one."""
        from sqb.spark.data import aggregate_state
        from sqb.sql.delta.rules.add_up import render_all_figures

        design = self.get_design(operator)
        state = self.session.sql(render_all_figures(self.evaluation, operator, design)).select(*design.columns)
        if why := aggregate_state.find_unfit_column(state, design):
            raise NoGroupState(why)
        try:
            written = self._write_state(operator, aggregate_state.check_exact(state, design))
        except Exception as error:
            if why := aggregate_state.explain_refused(error):
                raise NoGroupState(why) from error
            raise
        assert written is not None
        self.named[operator] = written

    # --- tables -------------------------------------------------------------------------------------------------------

    def name_in(self, context: NodeContext) -> NodeContext:
        """The context whose commit names the states that belong to the rows."""
        states = {**self.named, **self._updated, **{i: NamedState(i, 0, "") for i in self.refused}}
        addition = CommitIdentity(group_state=encode_states(states.values()))
        return replace(context, additions=[*context.additions, addition])

    def compute_token(self, operator: int) -> str:
        """What a state is made of; a state with another token is another query's."""
        figures = [[f.name, f.expression, f.type] for f in self.get_design(operator).figures]
        parts = [_FORM, self.evaluation.text, operator, figures]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def _refuse_other_token(self, operator: int) -> None:
        if self.named[operator].token != self.compute_token(operator):
            raise NotIncremental("the state of its groups is that of another query")

    def _get_relation(self, operator: int) -> Relation:
        return build_state_relation(self.context.node.relation, operator)

    def _read_state(self, named: NamedState) -> KeptState:
        from sqb.spark.data.aggregate_state import KeptState

        relation = self._get_relation(named.operator)
        table = quote(self.context.catalog, relation.schema, relation.name)
        rows = self.session.sql(f"SELECT * FROM {table} VERSION AS OF {named.snapshot}")
        return KeptState(rows, self.get_design(named.operator), named.layers)

    def _read_result(self, operator: int, state: Any, queries: Mapping[int, str]) -> Any:
        engine, view = self.evaluation.engine, self.evaluation.name(state)
        rows = engine.run(self.get_design(operator).render_result(view, queries))
        return engine.rename(rows, self.evaluation.list_plain_columns(operator))

    def _find_table(self, relation: Relation) -> TableState | None:
        pointer = self.context.lake.list_pointers().get(relation)
        return self.context.lake.read_tables([pointer])[relation] if pointer is not None else None

    def _write_changed_state(self, operator: int, groups: Any, layer: int | None = None) -> NamedState:
        """Write groups of which a change touches some; where it touches none, the state of before is kept.

        They are all groups, or with a `layer` above 0 those to be written over the others.
        """
        from sqb.spark.data import aggregate_state

        design = self.get_design(operator)
        observed, count_touched = aggregate_state.observe_touched(groups)
        # Of a layer, a group without rows says that it is gone.
        rows = observed.select(*design.columns) if layer else aggregate_state.list_groups(observed, design)
        if layer is not None:
            rows = aggregate_state.add_layer(rows, layer)
        written = self._write_state(operator, rows, lambda: count_touched() != 0, is_added=bool(layer))
        return written or self.named[operator]

    def _write_local_state(self, operator: int, groups: LocalRows) -> NamedState:
        """Write all groups of a small state, unless a change touches none of them."""
        from sqb.spark.data import aggregate_state

        if not groups.count_true(aggregate_state.TOUCHED):
            return self.named[operator]
        design = self.get_design(operator)
        state = aggregate_state.list_groups(groups.frame, design)
        written = self._write_state(operator, state, rows=aggregate_state.list_local_groups(groups, design))
        assert written is not None
        return written

    def _write_state(
        self,
        operator: int,
        state: Any,
        is_changed: Callable[[], bool] = lambda: True,
        is_added: bool = False,
        rows: Any = None,
    ) -> NamedState | None:
        """Write a state, whole or to be added to the present one, and publish it, unless nothing changed.

        `rows` are the same as an Arrow table, where they are few.
        """
        from sqb.spark.data import frames

        context, relation = self.context, self._get_relation(operator)
        context.lake.ensure_schemas([relation.schema])
        current = self._find_table(relation)
        shape = Shape(frames.list_columns(state), properties={MODEL: context.node.name})
        stage = context.lake.stage(relation, shape, current.base if current is not None else None, context.run_id)
        try:
            if rows is None or not fill_stage(context, stage, rows):
                frames.append_to_stage(state, format_stage(context, stage))
            if not is_changed():
                context.lake.discard(stage)
                return None
            identity = CommitIdentity(group_state_of=str(context.node.relation), run_id=context.run_id)
            published = context.lake.publish(stage, identity.to_properties(), () if is_added else None)
        except BaseException:
            context.lake.discard(stage)
            raise
        context.announce("state published", context.node.name)
        return NamedState(operator, published.snapshot_id, self.compute_token(operator))


class _explained:
    """Turns a refusal of Spark's, as it computes figures, into why changes are not followed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        from sqb.spark.data import aggregate_state

        if error is not None and (why := aggregate_state.explain_refused(error)):
            raise NotIncremental(why) from error


def _design(session: Any, evaluation: Evaluation, operator: int) -> StateDesign:
    from sqb.sql.delta.aggregates.state_design import design_state
    from sqb.sql.delta.errors import NotProven
    from sqb.sql.delta.rules.add_up import render_types

    aggregation = evaluation.get_aggregation(operator)
    schema = session.sql(render_types(evaluation, operator)).schema
    try:
        return design_state(aggregation, {field.name: field.dataType.simpleString() for field in schema.fields})
    except NotProven as problem:
        raise NoGroupState(problem.why) from problem


def list_named_states(context: NodeContext) -> dict[int, NamedState]:
    """The states that the commit of a node's table names, as far as they are still there."""
    current = context.current
    named = parse_states(current.identity.group_state if current is not None else "")
    if not named:
        return {}
    pointers = context.lake.list_pointers()

    def is_there(state: NamedState) -> bool:
        relation = build_state_relation(context.node.relation, state.operator)
        return relation in pointers and context.lake.has_snapshot(relation, state.snapshot)

    return {operator: state for operator, state in named.items() if state.is_kept and is_there(state)}
