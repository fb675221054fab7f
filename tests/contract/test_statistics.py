"""The greatest value of a column, from the statistics of files: exact, or not told. The lake in memory has no files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from contract.lakes import ORDERS, SqliteProbe, shape, state, write
from sqb.lake.port import Base, NotInStatistics

SHAPE = shape(("id", "long"), ("small", "integer"), ("ts", "timestamp"), ("d", "date"), ("name", "string"))
ONE = [[1, 2], [10, 20], [datetime(2024, 1, 1, 10, tzinfo=UTC), None], [date(2024, 1, 1), date(2024, 1, 5)], ["a", "b"]]
TWO = [[7], [None], [datetime(2024, 3, 1, tzinfo=UTC)], [None], ["z"]]


@pytest.fixture
def probe(tmp_path: Path) -> SqliteProbe:
    return SqliteProbe(tmp_path)


def add(probe: SqliteProbe, columns: list[list[Any]], base: Base) -> None:
    stage = probe.lake.stage(ORDERS, SHAPE, base, "r2")
    probe.lake.fill(stage, columns)
    probe.lake.publish(stage, {}, [])


def maximum(probe: SqliteProbe, column: str, filter_: str | None = None) -> object:
    return probe.lake.read_column_maximum(probe.lake.list_pointers()[ORDERS], column, filter_)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("id", 7),
        ("ID", 7),
        ("small", 20),
        ("ts", datetime(2024, 3, 1, tzinfo=UTC)),
        ("d", date(2024, 1, 5)),
    ],
)
def test_exact_values(probe: SqliteProbe, column: str, expected: object) -> None:
    write(probe, ONE, wanted=SHAPE)
    add(probe, TWO, state(probe).base)
    assert maximum(probe, column) == expected


@pytest.mark.parametrize("column", ["name", "nope"])
def test_texts_may_be_cut_off(probe: SqliteProbe, column: str) -> None:
    write(probe, ONE, wanted=SHAPE)
    with pytest.raises(NotInStatistics):
        maximum(probe, column)


def test_no_values(probe: SqliteProbe) -> None:
    write(probe, [], wanted=SHAPE)
    assert maximum(probe, "id") is None
    add(probe, TWO, state(probe).base)
    assert maximum(probe, "small") is None


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ("id < 5", 2),
        ("id <= 2 and small > 5", 2),
        ("name in ('a', 'b') or name = 'z'", None),
        ("name = 'z'", 7),
        ("d >= '2024-01-01'", 2),
        ("d is null", 7),
        ("id > 100", "nothing"),
        ("id between 0 and 5", 2),
        ("id > 1", None),
        ("id <> 3", None),
        ("not id = 3", None),
        ("small > 1.5", None),
        ("name < 5", None),
        ("ts > '2024-01-01'", None),
        ("upper(name) = 'Z'", None),
        ('name = "z"', None),
        (r"name < 'a\t'", None),
        ("d >= '2024-1-1'", None),
        ("nope = 3", None),
    ],
)
def test_filters_that_statistics_decide_and_those_that_they_do_not(
    probe: SqliteProbe, filter_: str, expected: object
) -> None:
    write(probe, ONE, wanted=SHAPE)
    add(probe, TWO, state(probe).base)
    if expected is None:
        with pytest.raises(NotInStatistics):
            maximum(probe, "id", filter_)
    else:
        assert maximum(probe, "id", filter_) == (None if expected == "nothing" else expected)


def test_the_smallest_value_is_told_as_the_greatest_is(probe: SqliteProbe) -> None:
    def minimum(column: str) -> object:
        return probe.lake.read_column_minimum(probe.lake.list_pointers()[ORDERS], column)

    write(probe, [], wanted=SHAPE)
    assert minimum("id") is None
    add(probe, TWO, state(probe).base)
    assert minimum("small") is None
    add(probe, ONE, state(probe).base)
    assert (minimum("ID"), minimum("small"), minimum("d")) == (1, 10, date(2024, 1, 1))
    assert minimum("ts") == datetime(2024, 1, 1, 10, tzinfo=UTC)
    with pytest.raises(NotInStatistics):
        minimum("name")
