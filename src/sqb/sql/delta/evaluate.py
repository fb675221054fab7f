"""Evaluating the change of a query, operator by operator, on any engine that runs Spark's SQL.

The rules say what is computed; here is what they compute with: each operator as it is now, as it was, and its change.
Nothing here knows Spark: an engine runs texts and gives back frames, and tests bring one that needs no Java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqb.names import quote
from sqb.sql.delta.aggregates.model import Aggregation
from sqb.sql.delta.aggregates.state_design import StateDesign
from sqb.sql.delta.operators.model import Operator, OperatorTree, Origin
from sqb.sql.delta.proposal import Proposal
from sqb.sql.delta.rules import RULES_BY_NAME
from sqb.sql.delta.rules.add_up import RULE as ADD_UP
from sqb.sql.delta.rules.add_up import update_figures
from sqb.sql.delta.rules.places import Version, edit_places, find_way, render_block, repeat


class Engine(Protocol):
    """What runs the texts that rules write. A frame is whatever the engine calls so."""

    def run(self, text: str) -> Any:
        """The result of a query."""
        ...

    def list_columns(self, frame: Any) -> list[str]: ...

    def persist(self, frame: Any) -> Any:
        """A frame that is computed once."""
        ...

    def derive(self, frame: Any, *sources: Any) -> Any:
        """A frame that was made of others without the engine, which is to know what it is made of."""
        ...

    def rename(self, frame: Any, columns: Sequence[str]) -> Any:
        """A frame with other names, by position."""
        ...

    def create_view(self, frame: Any) -> str:
        """A name by which texts can read a frame, and which no other frame has."""
        ...

    def weigh(self, frame: Any, columns: Sequence[str]) -> Any:
        """A frame whose last column is a weight, as a change: columns by position, and the multiplicity."""
        ...

    def sum_changes(self, frames: Sequence[Any], like: Any) -> Any:
        """The net change of several together, in the types of another frame; computed once."""
        ...

    def expand(self, change: Any) -> Any:
        """A change with each row as often as it counts, each time as 1 or -1."""
        ...

    def list_rows(self, frames: Sequence[Any], like: Any) -> Any:
        """The distinct rows of changes, in the types of another frame."""
        ...

    def restrict(self, frame: Any, rows: Any, like: Any) -> Any:
        """The rows of a frame that are among others, compared by position, in the types of a third one."""
        ...


class Inputs(Protocol):
    """The tables of a query."""

    def get_new(self, slot: int) -> str:
        """A table as it is now, as SQL."""
        ...

    def get_old(self, slot: int) -> str: ...

    def find_ranges(self, slot: int, column: str) -> Sequence[tuple[str, str]] | None:
        """Between which values, as SQL, a column of a table's changed rows lies; None where that is not known."""
        ...

    def compute_delta(self, slot: int) -> Any:
        """The net change of a table: its columns and their multiplicity."""
        ...

    def read_changes(self, slot: int) -> Any:
        """The same row by row, each as 1 or -1, with rows that came and went unchanged: they add up to nothing."""
        ...


class GroupStates(Protocol):
    """The figures of groups that are kept beside a model's table, by operator."""

    def get_result(self, operator: int, version: Version, queries: Mapping[int, str]) -> Any:
        """The rows that an operator's figures give, before or after the change."""
        ...

    def is_updated(self, operator: int) -> bool:
        """Whether changes were added to the figures of an operator already."""
        ...

    def get_design(self, operator: int) -> StateDesign:
        """What is kept for the groups of an operator."""
        ...

    def add_changes(self, operator: int, texts: Sequence[str]) -> None:
        """Add the figures of changes, which these queries give, to those that are kept."""
        ...

    def compute_change(
        self, operator: int, queries: Mapping[Version, Mapping[int, str]], are_values_changed: bool
    ) -> Any:
        """The change of an operator's rows, once changes were added to its figures.

        `queries` has the values of subqueries beside the aggregates; where they changed, every group is concerned.
        """
        ...


class RowsShown(Protocol):
    """The rows of the result of before, where a table holds them."""

    def read_rows(self, columns: Mapping[int, str], keys: str) -> Any:
        """The rows whose columns (by their number) equal the keys of that name, in a view."""
        ...


class Evaluation:
    """The change of one query, being computed."""

    def __init__(
        self,
        text: str,
        tree: OperatorTree,
        proposal: Proposal,
        engine: Engine,
        inputs: Inputs,
        states: GroupStates | None = None,
        shown: RowsShown | None = None,
    ) -> None:
        self.text, self.tree, self.proposal, self.engine = text, tree, proposal, engine
        self.inputs, self.states, self.shown = inputs, states, shown
        self._frames: dict[tuple[int, Version], Any] = {}
        self._relations: dict[tuple[int, Version], str] = {}
        self._plain_columns: dict[int, list[str]] = {}

    def compute_change(self) -> Any:
        """The net change of the query's result; none where only a CTE changed that nothing reads."""
        root = self.tree.root
        if self.is_changed(root):
            return self.compute_delta(root)
        nothing = self.engine.run(f"SELECT *, 0L AS __sqb_weight FROM {self.fill(root, 'new')} WHERE false")
        return self.engine.weigh(nothing, self.list_columns(root))

    def get_operator(self, index: int) -> Operator:
        return self.tree.operators[index]

    def is_changed(self, index: int) -> bool:
        return index in self.proposal.changed

    def list_changed_places(self, index: int) -> tuple[int, ...]:
        """The numbers of the places where an operator reads what changed."""
        places = self.get_operator(index).places
        return tuple(number for number, place in enumerate(places) if self.is_changed(place.input))

    def compute_delta(self, index: int) -> Any:
        """The net change of an operator."""
        if (index, "delta") not in self._frames:
            rule = RULES_BY_NAME[self.proposal.rules[index].rule]
            self._frames[index, "delta"] = rule.compute(self, index)
        return self._frames[index, "delta"]

    def get_frame(self, index: int, version: Version) -> Any:
        """An operator as it is now or as it was."""
        if not self.is_changed(index):
            version = "new"
        if (index, version) not in self._frames:
            operator = self.get_operator(index)
            frame = self._evaluate(index, operator, version)
            self._frames[index, version] = self.engine.rename(frame, operator.columns) if operator.columns else frame
        return self._frames[index, version]

    def fill(self, index: int, version: Version) -> str:
        """The text by which an operator at a version is read; a change has each row as often as it counts."""
        if not self.is_changed(index):
            version = "new"
        key = (index, version)
        if key not in self._relations:
            operator = self.get_operator(index)
            if version == "delta":
                self._relations[key] = self.name(self._read_changes(index))
            elif operator.kind == "table":
                get = self.inputs.get_new if version == "new" else self.inputs.get_old
                self._relations[key] = get(operator.slot)
            else:
                self._relations[key] = self.name(self.get_frame(index, version))
        return self._relations[key]

    def _read_changes(self, index: int) -> Any:
        """The change of an operator with each row as often as it counts.

        What is only added up need not be known net: rows that came and went unchanged add nothing to a figure.
        """
        operator = self.get_operator(index)
        if operator.kind == "table" and all(self._adds_up(i, index) for i in self.proposal.changed):
            return self.inputs.read_changes(operator.slot)
        return self.engine.expand(self.compute_delta(index))

    def _adds_up(self, reader: int, index: int) -> bool:
        """Whether one operator only adds up the rows of another; also where it does not read them.

        Extremes do not add up: of every row that comes and goes, the largest value would seem to leave its group.
        """
        operator, is_added = self.get_operator(reader), self.proposal.rules[reader].rule == ADD_UP.name
        is_added = is_added and not self.get_aggregation(reader).has_extremes
        places = [number for number, place in enumerate(operator.places) if place.input == index]
        return not places or (is_added and all(find_way(operator, number) == "linear" for number in places))

    def find_bounds(self, column: str, origin: Origin, by: int) -> str:
        """A condition on a column that holds where it equals what an operator's changed rows hand on of a table's; ""
        where that is not known.

        Where something else changed too, or the table is read twice, changed rows hold values of rows that did not.
        """
        slot, origin_column = origin
        if not self.tree.is_only_change(by, slot, self.proposal.changed):
            return ""
        ranges = self.inputs.find_ranges(slot, origin_column)
        if ranges is None:
            return ""
        between = (f"{quote(column)} BETWEEN {low} AND {high}" for low, high in ranges)
        # Behind a table's name, Spark takes WHERE (false) for an alias with the name of a column.
        return f"({' OR '.join(between) or '1 = 0'})"

    def name(self, frame: Any) -> str:
        """A view of a frame, under a name that no other has."""
        return self.engine.create_view(frame)

    def list_columns(self, index: int) -> list[str]:
        """The columns of an operator."""
        return self.engine.list_columns(self.get_frame(index, "new"))

    def _evaluate(self, index: int, operator: Operator, version: Version) -> Any:
        match operator.kind:
            case "block":
                if self.states is None or index not in self.proposal.states:
                    return self._run_block(operator, version)
                if version == "new" and self.is_changed(index):
                    update_figures(self, index)
                return self.states.get_result(index, version, self.fill_values(index, version))
            case "table":
                return self.engine.run(f"SELECT * FROM {self.fill(index, version)}")
            case _:
                return self.engine.run(operator.combine([self.fill(p.input, version) for p in operator.places]))

    def _run_block(self, operator: Operator, version: Version) -> Any:
        edits = edit_places(operator, repeat(version, operator), {}, self.fill)
        return self.engine.run(render_block(self.text, operator, edits))

    def list_plain_columns(self, index: int) -> list[str]:
        """The columns of a block as its own select list names them."""
        if index not in self._plain_columns:
            self._plain_columns[index] = self.engine.list_columns(self._run_block(self.get_operator(index), "old"))
        return self._plain_columns[index]

    def get_aggregation(self, index: int) -> Aggregation:
        """The groups of a block whose aggregates add up."""
        block = self.get_operator(index).block
        assert block is not None and block.aggregation is not None
        return block.aggregation

    def fill_values(self, index: int, version: Version) -> dict[int, str]:
        """The texts of the subqueries beside the aggregates of a block, by their numbers."""
        operator = self.get_operator(index)
        return {
            place.number: f"SELECT * FROM {self.fill(place.input, version)}"
            for place in operator.places
            if operator.is_beside_groups(place)
        }
