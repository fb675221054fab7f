"""Lists that must have as many columns as something else has, and columns that are asked for by their number."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.columns.outline import (
    Constant,
    Conversion,
    Expression,
    Item,
    Name,
    Nested,
    Opaque,
    Query,
    SetOperation,
    Star,
    UnreadableQuery,
)
from sqb.sql.columns.places import find_item_place, find_place
from sqb.sql.columns.problems import Report
from sqb.sql.columns.scope import Relation
from sqb.types import model as m

Place = tuple[int, int]
NO_PLACE = (-1, -1)


def list_items(query: Query) -> Sequence[Item]:
    """The list of a query's first SELECT; none where a star stands for several columns."""
    while isinstance(query, SetOperation):
        query = query.left
    if isinstance(query, UnreadableQuery):
        return ()
    return () if any(isinstance(item.value, Star) for item in query.items) else query.items


def find_list_place(query: Query) -> Place:
    """From the first to the last column of a query's list."""
    items = list_items(query)
    return (find_item_place(items[0])[0], find_item_place(items[-1])[1]) if items else NO_PLACE


def check_names(names: Sequence[str], relation: Relation, place: Place, report: Report) -> None:
    """Report a list of names for another number of columns."""
    count = len(relation.columns)
    if names and not relation.is_open and count != len(names):
        message = f"{_format_count(len(names), 'name')} for {_format_count(count, 'column')}: {', '.join(names)}"
        report("set operation", message, *place, "name every column once")


def check_rows(rows: Sequence[Sequence[Expression]], report: Report) -> bool:
    """Report a row of VALUES with more or fewer values than the first; whether all are alike."""
    for index, row in enumerate(rows):
        # A single value may be a struct, which is a whole row.
        if len(row) != len(rows[0]) and not any(len(r) == 1 and isinstance(r[0], Opaque) for r in (row, rows[0])):
            place = find_place(Opaque(tuple(row)))
            message = f"row {index + 1} of VALUES has {_format_count(len(row), 'value')}, the first has {len(rows[0])}"
            report("set operation", message, *place, "all rows must have as many values")
    return all(len(row) == len(rows[0]) for row in rows)


def check_value(nested: Nested, relation: Relation, report: Report) -> None:
    """Report a query that is to give one value and gives several columns."""
    if nested.use == "scalar" and not relation.is_open and len(relation.columns) > 1:
        message = f"a query as a value gives one column, and this one gives {len(relation.columns)}"
        report("set operation", message, *find_list_place(nested.query), None)


def check_in_query(value: Expression, nested: Expression, relation: Relation, report: Report) -> None:
    """Report `x IN (SELECT a, b …)`."""
    is_one = isinstance(value, Name | Constant | Conversion)
    if is_one and isinstance(nested, Nested) and not relation.is_open and len(relation.columns) > 1:
        message = f"one value is compared with {len(relation.columns)} columns"
        report("set operation", message, *find_list_place(nested.query), "write (a, b) IN (SELECT …)")


def check_numbers(values: Sequence[Expression], relation: Relation, clause: str, report: Report) -> None:
    """Report a column that ORDER BY or GROUP BY asks for by a number, and that is not there."""
    count = len(relation.columns)
    for value in values:
        if relation.is_open or not isinstance(value, Constant) or value.type != m.INT or not value.text.isdigit():
            continue
        if not 1 <= int(value.text) <= count:
            message = f"{clause} {value.text} asks for a column by its number, and there {_format_are(count)}"
            report("unknown column", message, value.start, value.end, None)


def _format_count(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _format_are(count: int) -> str:
    return "is one" if count == 1 else f"are {count}"
