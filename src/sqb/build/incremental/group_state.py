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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqb.build.incremental.fallback import NotIncremental
from sqb.build.node.publish import format_stage
from sqb.lake.port import Shape
from sqb.names import Relation, quote
from sqb.plan.commit_identity import MODEL, CommitIdentity
from sqb.plan.group_state import NamedState, build_state_relation, encode_states, parse_states

if TYPE_CHECKING:
    from contextlib import ExitStack

    from sqb.build.node.context import NodeContext
    from sqb.sql.delta.aggregate_design import StateDesign
    from sqb.sql.delta.evaluate import Evaluation
    from sqb.sql.delta.rules.places import Version

# A change of how state is computed or stored makes all states of before unusable.
_FORM = 2


class NoGroupState(Exception):
    """Why the groups of an operator are not kept: values do not add up exactly, or no table would hold them."""


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
        named = self.named[operator] if version == "old" else self._updated.get(operator) or self.named[operator]
        return self._read_result(operator, self._read_state(named), queries)

    def add_changes(
        self,
        operator: int,
        texts: Sequence[str],
        queries: Mapping[Version, Mapping[int, str]],
        are_values_changed: bool,
    ) -> Any:
        """Add the figures of changes to those that are kept, and write them; the change of the operator's rows."""
        from sqb.spark.data import aggregate_state, changes

        design, old = self.get_design(operator), self._read_state(self.named[operator])
        self._updated[operator] = self.named[operator]
        self._refuse_other_token(operator)
        delta = self._persist(aggregate_state.add_up([self.session.sql(text) for text in texts], design))
        change = aggregate_state.StateChange(old, delta, design)
        touched = self._persist(change.compute_touched())
        with _explained():
            changed, redo = aggregate_state.summarize_touched(delta, touched)
            if redo:
                touched = self._persist(self._redo_groups(operator, touched))
            # Where nothing is left of a change, the query leaves out whatever changed.
            if changed:
                self._updated[operator] = self._write_state(operator, change.compute_state(touched))
        new, before = self._read_state(self._updated[operator]), old
        if not (are_values_changed or design.aggregation.has_windows):
            new, before = change.restrict_groups(new), change.restrict_groups(before)
        columns = self.evaluation.list_plain_columns(operator)
        rows = self._read_result(operator, new, queries["new"])
        removed = self._read_result(operator, before, queries["old"])
        return changes.union_all(
            [changes.with_multiplicity(rows, 1, columns), changes.with_multiplicity(removed, -1, columns)]
        )

    def _redo_groups(self, operator: int, touched: Any) -> Any:
        """Touched groups; those of which only their rows can tell the extremes are computed from these."""
        from sqb.spark.data import aggregate_state
        from sqb.sql.delta.rules.add_up import render_group_figures

        design = self.get_design(operator)
        view = self.evaluation.name(touched.where(aggregate_state.REDO).select(*design.keys))
        text = render_group_figures(self.evaluation, operator, design, view)
        return aggregate_state.replace_groups(touched, self.session.sql(text), design)

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
            self.named[operator] = self._write_state(operator, aggregate_state.check_exact(state, design))
        except Exception as error:
            if why := aggregate_state.explain_refused(error):
                raise NoGroupState(why) from error
            raise

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

    def _read_state(self, named: NamedState) -> Any:
        relation = self._get_relation(named.operator)
        table = quote(self.context.catalog, relation.schema, relation.name)
        return self.session.sql(f"SELECT * FROM {table} VERSION AS OF {named.snapshot}")

    def _read_result(self, operator: int, state: Any, queries: Mapping[int, str]) -> Any:
        view = self.evaluation.name(state)
        rows = self.session.sql(self.get_design(operator).render_result(view, queries))
        return rows.toDF(*self.evaluation.list_plain_columns(operator))

    def _write_state(self, operator: int, state: Any) -> NamedState:
        """Write a whole state, and publish it."""
        from sqb.spark.data import frames

        context, relation = self.context, self._get_relation(operator)
        context.lake.ensure_schemas([relation.schema])
        pointer = context.lake.list_pointers().get(relation)
        current = context.lake.read_tables([pointer])[relation] if pointer is not None else None
        shape = Shape(frames.list_columns(state), properties={MODEL: context.node.name})
        stage = context.lake.stage(relation, shape, current.base if current is not None else None, context.run_id)
        try:
            frames.write_to_stage(self.session, state, format_stage(context, stage), shape)
            identity = CommitIdentity(group_state_of=str(context.node.relation), run_id=context.run_id)
            published = context.lake.publish(stage, identity.to_properties())
        except BaseException:
            context.lake.discard(stage)
            raise
        context.announce("state published", context.node.name)
        return NamedState(operator, published.snapshot_id, self.compute_token(operator))

    def _persist(self, frame: Any) -> Any:
        from sqb.spark.data import changes

        return self.stack.enter_context(changes.persisted(frame))


class _explained:
    """Turns a refusal of Spark's, as it computes figures, into why changes are not followed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        from sqb.spark.data import aggregate_state

        if error is not None and (why := aggregate_state.explain_refused(error)):
            raise NotIncremental(why) from error


def _design(session: Any, evaluation: Evaluation, operator: int) -> StateDesign:
    from sqb.sql.delta.aggregate_design import design_state
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
