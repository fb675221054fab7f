"""One unit test tried on Spark: the model's query over the given rows, and its result against the expected ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from sqb.build.errors import convert_spark_error
from sqb.build.node.render import Name, Rendered, build_live_names, format_source_query, render_query
from sqb.build.unit_tests.passed_cache import InputStates, has_current_definition
from sqb.build.unit_tests.row_diff import Result, build_unfit_error, format_difference
from sqb.compile.model import Node, UnitTest
from sqb.compile.source_model import DeclaredSource
from sqb.errors.base import SqbError
from sqb.errors.build import InputNotGiven, TooManyTestRows, UnitTestFailed, UnknownTestColumn
from sqb.lake.port import TableState
from sqb.names import At, quote, suggest_nearest
from sqb.project.models.kinds import list_added_columns
from sqb.project.unit_tests import Rows
from sqb.sql.text.calls import FUNCTION
from sqb.sql.text.frozen_time import iter_clock_calls, render_clock_call
from sqb.sql.text.lexer import find_closing, tokenize_code
from sqb.sql.text.spans import Reference
from sqb.sql.text.table_names import find_top_level_ctes
from sqb.types.format import format_sql_type
from sqb.types.iceberg import read_stored_type
from sqb.types.model import UNKNOWN, Type
from sqb.types.parse import parse_type
from sqb.types.values import canonicalize_collected, convert_cell, format_sql_value, infer_common_type, is_out_of_range
from sqb.workspace import Workspace

# More rows than a test is written for; they are compared in Python.
MOST_ROWS = 10_000
_CLOCK = "clock "

Columns = list[tuple[str, Type]]


class UnitTestRunner:
    """Tries unit tests of one project; what is known of its relations' columns is kept between them."""

    def __init__(self, workspace: Workspace, input_states: InputStates) -> None:
        self.workspace, self.project, self.input_states = workspace, workspace.project, input_states
        self._columns: dict[str, Columns | None] = {}

    def run_test(self, test: UnitTest, session: Any) -> None:
        """Raise an error that says what does not hold; return when everything does."""
        from sqb.spark.data import frames  # Spark is only there when something runs

        says = json.loads(test.body)
        node = strip_arguments(test.variant or self.project.nodes[test.model])
        with frames.use_small_query_conf(session):
            zone = ZoneInfo(frames.get_time_zone(session))
            inputs = {
                name: self._build_input(name, _parse_rows(says["given"].get(name)), test, session, zone)
                for name in test.reads
            }
            if says["now"] is not None:
                node = _replace_clock(node)
            parts = [
                (f"the CTE {name}", _parse_rows(data), _select_cte(node, name)) for name, data in says["ctes"].items()
            ]
            if says["expect"] is not None:
                parts.append((test.model, _parse_rows(says["expect"]), node))
            for what, expected, query in parts:
                assert expected is not None
                result = self._run_query(test, query, inputs, says["now"], session)
                self._compare_rows(test, what, expected, result, says["ordered"], zone)

    def _compare_rows(
        self, test: UnitTest, what: str, expected: Rows, result: Result, ordered: bool, zone: ZoneInfo
    ) -> None:
        try:
            lines = format_difference(expected, result, ordered, test.at.file, zone)
        except UnitTestFailed as error:
            raise _locate_in_test(error, test, f"the result of {what}") from None
        if lines:
            message = "\n".join([f"{test.name}: {what} gave other rows than expected", *lines])
            raise UnitTestFailed(message, at=test.at, hint=_build_hint(test, result))

    def _run_query(
        self, test: UnitTest, node: Node, inputs: Mapping[str, str], now: str | None, session: Any
    ) -> Result:
        from sqb.spark.data import frames

        def relation(name: str) -> str:
            return (
                render_clock_call(name.removeprefix(_CLOCK), now or "")
                if name.startswith(_CLOCK)
                else f"({inputs[name]})"
            )

        rendered = render_query(node, relation)
        try:
            columns, rows = frames.query_small_result(session, rendered.sql, MOST_ROWS + 1)
        except Exception as error:
            raise self._convert_error(error, test, node, rendered) from error
        if len(rows) > MOST_ROWS:
            message = f"{test.name}: the result has more than {MOST_ROWS} rows"
            raise TooManyTestRows(message, at=test.at, hint="give fewer rows: a test compares all of them")
        types = tuple(kind for _, kind in columns)
        values = [tuple(canonicalize_collected(k, v) for k, v in zip(types, row, strict=True)) for row in rows]
        return Result(tuple(name for name, _ in columns), types, values)

    def _convert_error(self, error: Exception, test: UnitTest, node: Node, rendered: Rendered) -> SqbError:
        converted = convert_spark_error(error, node, rendered, self.workspace.root)
        converted.message += f"\nin the unit test {test.name} ({test.at})"
        return converted

    # --- inputs -------------------------------------------------------------------------------------------------

    def _build_input(self, name: str, rows: Rows | None, test: UnitTest, session: Any, zone: ZoneInfo) -> str:
        """The query that stands for an input: the rows given, or none."""
        known_columns = self._get_columns(name, session)
        if rows is None:
            if known_columns is None:
                message = f"{test.name}: {test.model} reads {name}, of which no rows are given and no columns are known"
                hint = f"give its rows under `given`, or `{name}: {{columns: {{id: bigint}}}}` for an empty table"
                raise InputNotGiven(message, at=test.at, hint=hint)
            return format_rows(known_columns, [])
        file = test.at.file
        try:
            columns = _resolve_columns(rows, known_columns, file)
            values = [
                tuple(_format_value(*part, rows, cells, At(file, *place), zone) for part in columns)
                for cells, place in zip(rows.cells, rows.places, strict=True)
            ]
        except UnitTestFailed as error:
            raise _locate_in_test(error, test, name) from None
        if not columns:
            message = f"{test.name}: no columns of {name} are known or given"
            hint = f"write `{name}: {{columns: {{id: bigint}}}}` for an empty table"
            raise InputNotGiven(message, at=test.at, hint=hint)
        return format_rows(columns, values)

    def _get_columns(self, name: str, session: Any) -> Columns | None:
        if name not in self._columns:
            self._columns[name] = self._find_columns(name, session)
        return self._columns[name]

    def _find_columns(self, name: str, session: Any) -> Columns | None:
        """The columns of a node or external: as declared, as they stand in the lake, or as its query makes them."""
        node = self.project.nodes.get(name)
        state = self.input_states.get(name, self.project)
        if node is not None and node.type == "seed":
            return _parse_types(node.settings["columns"])
        if state is not None and has_current_definition(name, self.project, state):
            return _list_state_columns(state)
        source = self.project.sources.get(name) if node is None else None
        if source is not None and not source.is_table:
            return self._list_source_columns(source, session)
        is_derivable = node is not None and node.kind != "custom"
        derived = self._analyse_columns(node, session) if node is not None and is_derivable else None
        return derived or (_list_state_columns(state) if state is not None else None)

    def _list_source_columns(self, source: DeclaredSource, session: Any) -> Columns | None:
        """The columns of an expression, or those that the declaration of files says."""
        from sqb.spark.data import frames

        if source.function is not None:
            return _parse_types(source.function.columns)
        schema = next((v for k, v in source.options.items() if k.lower() == "schema"), None)
        if source.expression is not None:
            sql = format_source_query(source.expression, self._build_empty_names(session))
        elif schema is not None:
            sql = f"SELECT s.* FROM (SELECT CAST(NULL AS STRUCT<{schema}>) AS s)"
        else:
            return None
        try:
            return frames.list_result_columns(session, sql)
        except Exception:  # the build of its readers reports the mistake
            return None

    def _build_empty_names(self, session: Any) -> Name:
        live = build_live_names(self.project, self.workspace.connection.catalog.name, self.input_states.externals)

        def empty(name: str) -> str:
            known = self._get_columns(name, session)
            return f"({format_rows(known, [])})" if known is not None else live(name)

        return empty

    def _analyse_columns(self, node: Node, session: Any) -> Columns | None:
        """The columns that a model's query has, found out without running it."""
        from sqb.spark.data import frames

        live = build_live_names(self.project, self.workspace.connection.catalog.name, self.input_states.externals)
        try:
            columns = frames.list_result_columns(
                session, render_query(strip_arguments(node), self._build_empty_names(session), live).sql
            )
        except Exception:  # whoever builds the model reports what is wrong with it
            return None
        return [*columns, *((name, parse_type(kind) or UNKNOWN) for name, kind in list_added_columns(node.kind))]


def _parse_rows(data: Any) -> Rows | None:
    return None if data is None else Rows.from_data(data)


def _locate_in_test(error: UnitTestFailed, test: UnitTest, where: str) -> UnitTestFailed:
    error.message = f"{test.name}: {where}: {error.message}"
    error.at = error.at or test.at
    return error


def _build_hint(test: UnitTest, result: Result) -> str | None:
    return f"`sqb test -s {test.model}` runs it again" if result.rows else "the result has no rows at all"


def _parse_types(columns: Iterable[tuple[str, str]]) -> Columns:
    return [(name, parse_type(text) or UNKNOWN) for name, text in columns]


def _list_state_columns(state: TableState) -> Columns:
    return [(c.name, read_stored_type(c.type)) for c in state.columns]


def _resolve_columns(rows: Rows, known_columns: Columns | None, file: str) -> Columns:
    """The columns that an input has: those known, with the types that the test declares; else those given."""
    declared = {name: parse_type(text) for name, text in rows.types.items()}
    if known_columns is None:
        guessed = {name: parse_type(text) for name, text in rows.guessed.items()}
        return [
            (name, declared.get(key) or guessed.get(key) or infer_common_type([cells[i] for cells in rows.cells]))
            for i, name in enumerate(rows.columns)
            for key in [name.lower()]
        ]
    names = [name for name, _ in known_columns]
    folded = {name.lower() for name in names}
    for index, name in enumerate(rows.columns):
        if name.lower() not in folded:
            using = (p for cells, p in zip(rows.cells, rows.places, strict=True) if cells[index] is not None)
            place = next(using, next(iter(rows.places), None))
            hint = suggest_nearest(name, names) or f"the columns are {', '.join(names)}"
            message = f'there is no column "{name}"'
            raise UnknownTestColumn(message, at=At(file, *place) if place else None, hint=hint)
    return [(name, declared.get(name.lower()) or kind) for name, kind in known_columns]


def _format_value(name: str, kind: Type, rows: Rows, cells: tuple[Any, ...], at: At, zone: ZoneInfo) -> str:
    keys = [c.lower() for c in rows.columns]
    cell = cells[keys.index(name.lower())] if name.lower() in keys else None
    try:
        value = convert_cell(kind, cell, zone)
        fits = not is_out_of_range(kind, value)
    except (ValueError, OverflowError) as error:
        raise build_unfit_error(name, kind, cell, at, str(error)) from None
    if not fits:
        raise build_unfit_error(name, kind, cell, at)
    return format_sql_value(kind, value)


def format_rows(columns: Columns, values: list[tuple[str, ...]]) -> str:
    """Rows as a query: literals, cast to the columns' types."""
    if not values:
        nothing = ", ".join(f"CAST(NULL AS {format_sql_type(kind)}) AS {quote(name)}" for name, kind in columns)
        return f"SELECT {nothing} WHERE false"
    listed = ", ".join(
        f"CAST(c{i} AS {format_sql_type(kind)}) AS {quote(name)}" for i, (name, kind) in enumerate(columns)
    )
    rows = ", ".join(f"({', '.join(row)})" for row in values)
    return f"SELECT {listed} FROM VALUES {rows} AS given({', '.join(f'c{i}' for i in range(len(columns)))})"


# --- the model's query ----------------------------------------------------------------------------------------------


def _replace_clock(node: Node) -> Node:
    """The model with what it asks the clock as references, which are replaced like those to tables."""
    calls = list(iter_clock_calls(node.sql))
    slots = tuple(Reference((call.name,), call.start, call.end) for call in calls)
    return replace(node, slots=(*node.slots, *slots), reads=(*node.reads, *(_CLOCK + c.name for c in calls)))


def strip_arguments(node: Node) -> Node:
    """The model with its table functions as tables, for which rows can stand; everything keeps its place."""
    tokens = tokenize_code(node.sql)
    at = {token.start: index for index, token in enumerate(tokens)}
    sql, references = node.sql, list(zip(node.slots, node.reads, strict=True))
    for slot in (s for s in node.slots if s.kind == FUNCTION):
        opened = at[slot.start] + 1
        closed = find_closing(tokens, opened)
        if closed is not None:
            start, end = tokens[opened].start, tokens[closed].end
            sql = f"{sql[:start]}{' ' * (end - start)}{sql[end:]}"
            references = [(s, read) for s, read in references if not start <= s.start < end]
    return replace(node, sql=sql, slots=tuple(s for s, _ in references), reads=tuple(read for _, read in references))


def _select_cte(node: Node, name: str) -> Node:
    """The model with one of its CTEs as its result."""
    end = find_top_level_ctes(node.sql).end
    references = [(slot, read) for slot, read in zip(node.slots, node.reads, strict=True) if slot.start < end]
    return replace(
        node,
        sql=f"{node.sql[:end]}\nSELECT * FROM {quote(name)}",
        slots=tuple(slot for slot, _ in references),
        reads=tuple(read for _, read in references),
    )
