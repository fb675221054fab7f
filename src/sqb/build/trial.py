"""One unit test tried on Spark: the model's query over the given rows, and its result against the expected ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from sqb.build.failures import spark_error
from sqb.build.kinds.scd2 import OWN
from sqb.build.passed_tests import Seen, is_current
from sqb.build.render import Name, Rendered, live_names, query_text, render, spark_type
from sqb.build.row_diff import Result, difference, unfit
from sqb.compiled import Node, UnitTest
from sqb.compiled_sources import DeclaredSource
from sqb.errors import InputNotGiven, SqbError, TooManyTestRows, UnitTestFailed, UnknownTestColumn
from sqb.lake.port import TableState
from sqb.names import At, did_you_mean, quote
from sqb.project.column_types import (
    Type,
    collected,
    common_type,
    parse_type,
    sql_value,
    type_text,
    value_of,
    value_problem,
)
from sqb.project.unit_tests import Rows
from sqb.sql.calls import FUNCTION
from sqb.sql.clock import at_time, clock_calls
from sqb.sql.ctes import top_level_ctes
from sqb.sql.lexer import closing, code
from sqb.sql.spans import Reference
from sqb.workspace import Workspace

# More rows than a test is written for; they are compared in Python.
MOST_ROWS = 10_000
_CLOCK = "clock "

Columns = list[tuple[str, Type]]


class Trial:
    """Tries unit tests of one project; what is known of its relations' columns is kept between them."""

    def __init__(self, workspace: Workspace, seen: Seen) -> None:
        self.workspace, self.project, self.seen = workspace, workspace.project, seen
        self._columns: dict[str, Columns | None] = {}

    def run(self, test: UnitTest, session: Any) -> None:
        """Raise an error that says what does not hold; return when everything does."""
        from sqb.spark import results  # Spark is only there when something runs

        says = json.loads(test.body)
        node = without_arguments(test.variant or self.project.nodes[test.model])
        with results.for_few_rows(session):
            zone = ZoneInfo(results.time_zone(session))
            inputs = {
                name: self._input(name, _rows(says["given"].get(name)), test, session, zone) for name in test.reads
            }
            if says["now"] is not None:
                node = _with_clock(node)
            parts = [(f"the CTE {name}", _rows(data), _of_cte(node, name)) for name, data in says["ctes"].items()]
            if says["expect"] is not None:
                parts.append((test.model, _rows(says["expect"]), node))
            for what, expected, query in parts:
                assert expected is not None
                result = self._result(test, query, inputs, says["now"], session)
                self._compare(test, what, expected, result, says["ordered"], zone)

    def _compare(
        self, test: UnitTest, what: str, expected: Rows, result: Result, ordered: bool, zone: ZoneInfo
    ) -> None:
        try:
            lines = difference(expected, result, ordered, test.at.file, zone)
        except UnitTestFailed as error:
            raise _in_test(error, test, f"the result of {what}") from None
        if lines:
            message = "\n".join([f"{test.name}: {what} gave other rows than expected", *lines])
            raise UnitTestFailed(message, at=test.at, hint=_hint(test, result))

    def _result(self, test: UnitTest, node: Node, inputs: Mapping[str, str], now: str | None, session: Any) -> Result:
        from sqb.spark import results

        def relation(name: str) -> str:
            return at_time(name.removeprefix(_CLOCK), now or "") if name.startswith(_CLOCK) else f"({inputs[name]})"

        rendered = render(node, relation)
        try:
            columns, rows = results.small_result(session, rendered.sql, MOST_ROWS + 1)
        except Exception as error:
            raise self._failed(error, test, node, rendered) from error
        if len(rows) > MOST_ROWS:
            message = f"{test.name}: the result has more than {MOST_ROWS} rows"
            raise TooManyTestRows(message, at=test.at, hint="give fewer rows: a test compares all of them")
        types = tuple(kind for _, kind in columns)
        values = [tuple(collected(k, v) for k, v in zip(types, row, strict=True)) for row in rows]
        return Result(tuple(name for name, _ in columns), types, values)

    def _failed(self, error: Exception, test: UnitTest, node: Node, rendered: Rendered) -> SqbError:
        found = spark_error(error, node, rendered, self.workspace.root)
        found.message += f"\nin the unit test {test.name} ({test.at})"
        return found

    # --- inputs -------------------------------------------------------------------------------------------------

    def _input(self, name: str, rows: Rows | None, test: UnitTest, session: Any, zone: ZoneInfo) -> str:
        """The query that stands for an input: the rows given, or none."""
        known = self._known(name, session)
        if rows is None:
            if known is None:
                message = f"{test.name}: {test.model} reads {name}, of which no rows are given and no columns are known"
                hint = f"give its rows under `given`, or `{name}: {{columns: {{id: bigint}}}}` for an empty table"
                raise InputNotGiven(message, at=test.at, hint=hint)
            return _relation(known, [])
        file = test.at.file
        try:
            columns = _typed(rows, known, file)
            values = [
                tuple(_value(*part, rows, cells, At(file, *place), zone) for part in columns)
                for cells, place in zip(rows.cells, rows.places, strict=True)
            ]
        except UnitTestFailed as error:
            raise _in_test(error, test, name) from None
        if not columns:
            message = f"{test.name}: no columns of {name} are known or given"
            hint = f"write `{name}: {{columns: {{id: bigint}}}}` for an empty table"
            raise InputNotGiven(message, at=test.at, hint=hint)
        return _relation(columns, values)

    def _known(self, name: str, session: Any) -> Columns | None:
        if name not in self._columns:
            self._columns[name] = self._look_up(name, session)
        return self._columns[name]

    def _look_up(self, name: str, session: Any) -> Columns | None:
        """The columns of a node or external: as declared, as they stand in the lake, or as its query makes them."""
        node = self.project.nodes.get(name)
        state = self.seen.of(name, self.project)
        if node is not None and node.type == "seed":
            return [(column, parse_type(kind) or kind) for column, kind in node.settings["columns"]]
        if state is not None and is_current(name, self.project, state):
            return _standing(state)
        source = self.project.sources.get(name) if node is None else None
        if source is not None and not source.is_table:
            return self._of_source(source, session)
        told = node is not None and node.kind != "custom"
        made = self._made_by(node, session) if node is not None and told else None
        return made or (_standing(state) if state is not None else None)

    def _of_source(self, source: DeclaredSource, session: Any) -> Columns | None:
        """The columns of an expression, or those that the declaration of files says."""
        from sqb.spark import results

        if source.function is not None:
            return [(name, parse_type(kind) or kind) for name, kind in source.function.columns]
        schema = next((v for k, v in source.options.items() if k.lower() == "schema"), None)
        if source.expression is not None:
            sql = query_text(source.expression, self._empty(session))
        elif schema is not None:
            sql = f"SELECT s.* FROM (SELECT CAST(NULL AS STRUCT<{schema}>) AS s)"
        else:
            return None
        try:
            return results.result_columns(session, sql)
        except Exception:  # whoever builds what reads it reports what is wrong with it
            return None

    def _empty(self, session: Any) -> Name:
        live = live_names(self.project, self.workspace.connection.catalog.name, self.seen.externals)

        def empty(name: str) -> str:
            known = self._known(name, session)
            return f"({_relation(known, [])})" if known is not None else live(name)

        return empty

    def _made_by(self, node: Node, session: Any) -> Columns | None:
        """The columns that a model's query has, found out without running it."""
        from sqb.spark import results

        live = live_names(self.project, self.workspace.connection.catalog.name, self.seen.externals)
        try:
            found = results.result_columns(session, render(without_arguments(node), self._empty(session), live).sql)
        except Exception:  # whoever builds the model reports what is wrong with it
            return None
        own = zip(OWN, ("timestamp", "timestamp", "boolean"), strict=True)
        return [*found, *own] if node.kind == "scd2" else found


def _rows(data: Any) -> Rows | None:
    return None if data is None else Rows.from_data(data)


def _in_test(error: UnitTestFailed, test: UnitTest, where: str) -> UnitTestFailed:
    error.message = f"{test.name}: {where}: {error.message}"
    error.at = error.at or test.at
    return error


def _hint(test: UnitTest, result: Result) -> str | None:
    return f"`sqb test -s {test.model}` runs it again" if result.rows else "the result has no rows at all"


def _standing(state: TableState) -> Columns:
    texts = ((c.name, spark_type(json.loads(c.type))) for c in state.columns)
    return [(name, parse_type(text) or text) for name, text in texts]


def _typed(rows: Rows, known: Columns | None, file: str) -> Columns:
    """The columns that an input has: those known, with the types that the test declares; else those given."""
    declared = {name: parse_type(text) for name, text in rows.types.items()}
    if known is None:
        guessed = {name: parse_type(text) for name, text in rows.guessed.items()}
        return [
            (name, declared.get(key) or guessed.get(key) or common_type([cells[i] for cells in rows.cells]))
            for i, name in enumerate(rows.columns)
            for key in [name.lower()]
        ]
    names = [name for name, _ in known]
    folded = {name.lower() for name in names}
    for index, name in enumerate(rows.columns):
        if name.lower() not in folded:
            using = (p for cells, p in zip(rows.cells, rows.places, strict=True) if cells[index] is not None)
            place = next(using, next(iter(rows.places), None))
            hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
            message = f'there is no column "{name}"'
            raise UnknownTestColumn(message, at=At(file, *place) if place else None, hint=hint)
    return [(name, declared.get(name.lower()) or kind) for name, kind in known]


def _value(name: str, kind: Type, rows: Rows, cells: tuple[Any, ...], at: At, zone: ZoneInfo) -> str:
    keys = [c.lower() for c in rows.columns]
    cell = cells[keys.index(name.lower())] if name.lower() in keys else None
    try:
        value = value_of(kind, cell, zone)
        fits = not value_problem(kind, value)
    except (ValueError, OverflowError) as error:
        raise unfit(name, kind, cell, at, str(error)) from None
    if not fits:
        raise unfit(name, kind, cell, at)
    return sql_value(kind, value)


def _relation(columns: Columns, values: list[tuple[str, ...]]) -> str:
    """Rows as a query: literals, cast to the columns' types."""
    if not values:
        nothing = ", ".join(f"CAST(NULL AS {type_text(kind)}) AS {quote(name)}" for name, kind in columns)
        return f"SELECT {nothing} WHERE false"
    listed = ", ".join(f"CAST(c{i} AS {type_text(kind)}) AS {quote(name)}" for i, (name, kind) in enumerate(columns))
    rows = ", ".join(f"({', '.join(row)})" for row in values)
    return f"SELECT {listed} FROM VALUES {rows} AS given({', '.join(f'c{i}' for i in range(len(columns)))})"


# --- the model's query ----------------------------------------------------------------------------------------------


def _with_clock(node: Node) -> Node:
    """The model with what it asks the clock as references, which are replaced like those to tables."""
    calls = list(clock_calls(node.sql))
    slots = tuple(Reference((call.name,), call.start, call.end) for call in calls)
    return replace(node, slots=(*node.slots, *slots), reads=(*node.reads, *(_CLOCK + c.name for c in calls)))


def without_arguments(node: Node) -> Node:
    """The model with its table functions as tables, for which rows can stand; everything keeps its place."""
    found = code(node.sql)
    at = {token.start: index for index, token in enumerate(found)}
    sql, kept = node.sql, list(zip(node.slots, node.reads, strict=True))
    for slot in (s for s in node.slots if s.kind == FUNCTION):
        opened = at[slot.start] + 1
        closed = closing(found, opened)
        if closed is not None:
            start, end = found[opened].start, found[closed].end
            sql = f"{sql[:start]}{' ' * (end - start)}{sql[end:]}"
            kept = [(s, read) for s, read in kept if not start <= s.start < end]
    return replace(node, sql=sql, slots=tuple(s for s, _ in kept), reads=tuple(read for _, read in kept))


def _of_cte(node: Node, name: str) -> Node:
    """The model with one of its CTEs as its result."""
    end = top_level_ctes(node.sql).end
    kept = [(slot, read) for slot, read in zip(node.slots, node.reads, strict=True) if slot.start < end]
    return replace(
        node,
        sql=f"{node.sql[:end]}\nSELECT * FROM {quote(name)}",
        slots=tuple(slot for slot, _ in kept),
        reads=tuple(read for _, read in kept),
    )
