"""The figures of groups in memory, on Spark: the rules with Spark's own arithmetic, and without a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sqb.spark.data import aggregate_state, changes
from sqb.spark.data.delta_engine import SparkEngine
from sqb.sql.delta.aggregates.state_design import StateDesign, design_state
from sqb.sql.delta.evaluate import Evaluation
from sqb.sql.delta.operators.model import OperatorTree
from sqb.sql.delta.proposal import Proposal
from sqb.sql.delta.rules.add_up import render_all_figures, render_group_figures, render_types
from sqb.sql.delta.rules.places import Version
from sqb.sql.text.template import Template


class MemoryStates:
    """Keeps what `ModelStates` keeps in tables."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.evaluation: Evaluation
        self.redone = 0
        self._designs: dict[int, StateDesign] = {}
        self._states: dict[tuple[int, Version], DataFrame] = {}
        self._changes: dict[int, aggregate_state.StateChange] = {}
        # Small states are merged as a whole, of large ones only what changes touch.
        self.are_small = True

    def is_updated(self, operator: int) -> bool:
        return (operator, "new") in self._states

    def get_design(self, operator: int) -> StateDesign:
        if operator not in self._designs:
            schema = self.spark.sql(render_types(self.evaluation, operator)).schema
            types = {field.name: field.dataType.simpleString() for field in schema.fields}
            self._designs[operator] = design_state(self.evaluation.get_aggregation(operator), types)
        return self._designs[operator]

    def _get_state(self, operator: int, version: Version) -> DataFrame:
        if (operator, version) not in self._states:
            text = render_all_figures(self.evaluation, operator, self.get_design(operator), version)
            self._states[operator, version] = self._keep(
                self.spark.sql(text).select(*self.get_design(operator).columns)
            )
        return self._states[operator, version]

    def _keep(self, frame: DataFrame) -> DataFrame:
        return frame.localCheckpoint()

    def get_result(self, operator: int, version: Version, queries: Mapping[int, str]) -> DataFrame:
        return self._read(operator, self._get_state(operator, version), queries)

    def _keep_state(self, operator: int, version: Version) -> aggregate_state.KeptState:
        return aggregate_state.KeptState(self._get_state(operator, version), self.get_design(operator))

    def _read(self, operator: int, state: DataFrame, queries: Mapping[int, str]) -> DataFrame:
        rows = self.spark.sql(self.get_design(operator).render_result(self.evaluation.name(state), queries))
        return rows.toDF(*self.evaluation.list_plain_columns(operator))

    def add_changes(self, operator: int, texts: Sequence[str]) -> None:
        design, old = self.get_design(operator), self._keep_state(operator, "old")
        delta = self._keep(aggregate_state.add_up([self.spark.sql(text) for text in texts], design))
        change = aggregate_state.StateChange(old, delta)
        touched = change.compute_all() if self.are_small else change.compute_touched(change.read_touched())
        groups = self._keep(touched)
        if redo := aggregate_state.count_redo(groups):
            self.redone += redo
            view = self.evaluation.name(groups.where(aggregate_state.REDO).select(*design.keys))
            text = render_group_figures(self.evaluation, operator, design, view)
            groups = self._keep(aggregate_state.replace_groups(groups, self.spark.sql(text), design))
        state = groups if self.are_small else change.add_untouched(groups)
        self._states[operator, "new"] = self._keep(aggregate_state.list_groups(state, design))
        self._changes[operator] = change

    def get_change(self, operator: int) -> aggregate_state.StateChange:
        """What was added to the figures of an operator."""
        return self._changes[operator]

    def compute_change(
        self, operator: int, queries: Mapping[Version, Mapping[int, str]], are_values_changed: bool
    ) -> DataFrame:
        design, change = self.get_design(operator), self._changes[operator]
        states = self._keep_state(operator, "new"), change.state
        is_whole = are_values_changed or design.aggregation.has_windows
        new, old = (state.read_all() if is_whole else change.restrict_groups(state) for state in states)
        columns = self.evaluation.list_plain_columns(operator)
        added, removed = self._read(operator, new, queries["new"]), self._read(operator, old, queries["old"])
        parts = [changes.with_multiplicity(added, 1, columns), changes.with_multiplicity(removed, -1, columns)]
        return changes.union_all(parts)


class _Views:
    """Tables as views: `facts_old`, `facts_new` and `dims`."""

    def __init__(self, spark: SparkSession, names: Sequence[str]) -> None:
        self.spark, self.names = spark, names

    def get_new(self, slot: int) -> str:
        return "facts_new" if self.names[slot] == "f" else "dims"

    def get_old(self, slot: int) -> str:
        return "facts_old" if self.names[slot] == "f" else "dims"

    def find_ranges(self, slot: int, column: str) -> list[tuple[str, str]] | None:
        return None

    def compute_delta(self, slot: int) -> Any:
        new, old = self.spark.table(self.get_new(slot)), self.spark.table(self.get_old(slot))
        both = changes.with_multiplicity(new, 1, new.columns).unionAll(changes.with_multiplicity(old, -1, new.columns))
        return changes.sum_changes(both, new.columns)

    def read_changes(self, slot: int) -> Any:
        """All rows of both versions: most of them came and went unchanged."""
        new, old = self.spark.table(self.get_new(slot)), self.spark.table(self.get_old(slot))
        return changes.with_multiplicity(new, 1, new.columns).unionAll(changes.with_multiplicity(old, -1, new.columns))


def make_evaluation(
    spark: SparkSession, template: Template, tree: OperatorTree, proposal: Proposal, stack: ExitStack
) -> tuple[Evaluation, MemoryStates]:
    """An evaluation over views; what it keeps goes with the stack."""
    states = MemoryStates(spark)
    text = template.render(lambda index: f"__sqb_slot_{index}")
    engine = SparkEngine(spark, stack)
    states.evaluation = Evaluation(text, tree, proposal, engine, _Views(spark, template.names), states)
    return states.evaluation, states
