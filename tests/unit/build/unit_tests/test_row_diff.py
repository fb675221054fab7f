"""Expected rows against those that came, and the difference as people read it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from sqb.build.unit_tests.row_diff import Result, format_difference
from sqb.errors.build import UnfitTestValue, UnknownTestColumn
from sqb.project.unit_tests import Rows
from sqb.types.model import BIGINT, INT, STRING, ArrayType, DecimalType, Field, MapType, StructType

FILE = "tests/t.yml"
TYPES = (BIGINT, DecimalType(10, 2), STRING)


def expected(columns: str, *cells: tuple[Any, ...]) -> Rows:
    return Rows(tuple(columns.split()), {}, cells, tuple((7 + i, 9, 3) for i in range(len(cells))))


def result(*rows: tuple[Any, ...]) -> Result:
    numbers = [tuple(Decimal(v) if isinstance(v, int) else v for v in row) for row in rows]
    return Result(("id", "total", "name"), TYPES, numbers)


def diff(wanted: Rows, came: Result, ordered: bool = False) -> list[str]:
    return format_difference(wanted, came, ordered, FILE)


def test_the_same_rows_in_any_order() -> None:
    wanted = expected("id total", (2, None), (1, ["float", "9.0", "9.0"]))
    assert diff(wanted, result((1, Decimal("9.00"), "x"), (2, None, "y"))) == []


def test_only_the_named_columns_are_compared() -> None:
    assert diff(expected("NAME", ("x",)), result((1, 2, "x"))) == []


def test_an_empty_result() -> None:
    assert diff(expected(""), result()) == []
    assert diff(expected(""), result((1, None, " x"))) == [
        "    id  total  name",
        "+   1   NULL   ' x'    unexpected",
    ]


def test_a_row_that_came_otherwise() -> None:
    wanted = expected("id total", (1, 9), (2, None))
    assert diff(wanted, result((2, None, ""), (1, 10, ""))) == [
        "    id  total",
        "-   1   9.00     expected, missing",
        "+   1   10.00    unexpected: total differs",
        "    2   NULL",
    ]


def test_duplicates_count() -> None:
    assert diff(expected("id", (1,), (1,)), result((1, 0, ""))) == ["    id", "    1", "-   1     expected, missing"]
    assert diff(expected("id", (1,)), result((1, 0, ""), (1, 0, ""))) == ["    id", "    1", "+   1     unexpected"]


def test_nothing_is_cut_off_numbers() -> None:
    """A cast would make 9.5 the whole number 9."""
    assert diff(expected("id", (["float", "9.5", "9.5"],)), result((9, 0, "")))[1:] == [
        "-   9.5    expected, missing",
        "+   9      unexpected",
    ]


def test_null_is_not_the_text_null() -> None:
    assert diff(expected("id name", (1, "NULL")), result((1, 0, None)))[1:] == [
        "-   1   'NULL'    expected, missing",
        "+   1   NULL      unexpected: name differs",
    ]


def test_in_order() -> None:
    rows = result((1, 0, ""), (2, 0, ""))
    assert diff(expected("id", (1,), (2,)), rows, ordered=True) == []
    assert diff(expected("id", (2,), (1,)), rows, ordered=True) == [
        "    id",
        "+   1     unexpected",
        "    2",
        "-   1     expected, missing",
        "these are the rows expected, but in another order",
    ]


def test_many_rows_are_counted() -> None:
    rows = result(*((i, 0, "") for i in range(40)))
    shown = diff(expected("id", *((i,) for i in range(5)), *((i,) for i in range(100, 112))), rows)
    assert shown[-3:] == [
        "    … and 2 more rows that agree",
        "    … and 2 more rows that are missing",
        "    … and 25 more rows that are unexpected",
    ]
    assert len(shown) == 1 + 3 + 10 + 10 + 3


def test_long_and_strange_texts_are_shortened() -> None:
    came = result((1, 0, "x" * 50), (2, 0, "a\nb"))
    lines = diff(expected("id name", (1, "y")), came)
    assert lines[2] == f"+   1   {'x' * 39}…    unexpected: name differs"
    assert lines[3].startswith("+   2   a\\nb ")


def test_a_column_that_the_result_does_not_have() -> None:
    with pytest.raises(UnknownTestColumn) as caught:
        diff(expected("id totl", (1, None), (2, 3)), result())
    assert caught.value.message == 'there is no column "totl"'
    assert str(caught.value.at) == f"{FILE}:8:9"
    assert caught.value.hint == "did you mean 'total'?"


def test_a_column_that_is_there_twice() -> None:
    with pytest.raises(UnknownTestColumn) as caught:
        diff(expected("a", (1,)), Result(("a", "A"), (INT, INT), []))
    assert caught.value.message == 'more than one column is called "a"'


def test_a_value_that_cannot_be_one_of_its_column() -> None:
    with pytest.raises(UnfitTestValue) as caught:
        diff(expected("id", (1,), ("abc",)), result())
    assert caught.value.message == '`id`: "abc" is not a value of type BIGINT'
    assert str(caught.value.at) == f"{FILE}:8:9"


def test_lists_maps_and_structs_are_compared_by_value() -> None:
    kinds = (ArrayType(INT), MapType(STRING, INT), StructType((Field("a", INT), Field("b", STRING))))
    came = Result(("l", "m", "s"), kinds, [((Decimal(1),), frozenset({("k", Decimal(2))}), (Decimal(3), None))])
    same = (["list", [1]], ["map", [["k", 2]]], ["map", [["a", 3]]])
    assert diff(expected("l m s", same), came) == []
    other = (["list", [2]], ["map", []], ["map", [["b", "x"]]])
    assert diff(expected("l m s", other), came) == [
        "    l    m       s",
        "-   [2]  {}      {a: NULL, b: x}    expected, missing",
        "+   [1]  {k: 2}  {a: 3, b: NULL}    unexpected",
    ]
