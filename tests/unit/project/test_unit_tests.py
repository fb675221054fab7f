"""`tests/**/*.yml`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqb.errors.base import Errors
from sqb.names import At
from sqb.project.unit_tests import Rows, WrittenTest, load_tests

FILE = "tests/t.yml"
Load = Callable[[str], tuple[WrittenTest, ...]]
HEAD = "tests:\n  - name: a\n    model: s.m\n"


@pytest.fixture
def load(tmp_path: Path, errors: Errors) -> Load:
    def load(text: str) -> tuple[WrittenTest, ...]:
        (tmp_path / "tests").mkdir()
        (tmp_path / FILE).write_text(text, encoding="utf-8")
        return load_tests(tmp_path, [FILE], errors)

    return load


@pytest.fixture
def rows(load: Load, errors: Errors) -> Callable[[str], Rows]:
    """The rows that are given to `raw.orders` by a piece of YAML."""

    def rows(text: str) -> Rows:
        indented = "".join(f"        {line}\n" for line in text.splitlines())
        (test,) = load(f"{HEAD}    given:\n      raw.orders:\n{indented}    expect: []\n")
        assert errors.found == []
        return test.given[0].rows

    return rows


def test_a_whole_test(load: Load, errors: Errors) -> None:
    (test,) = load(
        HEAD
        + "    description: what it is for\n"
        + "    now: 2026-01-02 03:04:05\n"
        + "    vars: {region: eu}\n"
        + "    given:\n      raw.orders:\n        - {id: 1, amount: 10.0}\n        - {id: 2}\n"
        + "    expect:\n      - {id: 1, total: 9.0}\n"
        + "    expect_ctes:\n      d: []\n"
        + "    ordered: true\n"
    )
    assert errors.found == []
    assert (test.name, test.at, test.model) == ("a", At(FILE, 2, 11, 1), "s.m")
    assert test.now == "2026-01-02 03:04:05"
    assert {k: v.value for k, v in test.vars.items()} == {"region": "eu"}
    assert test.ordered is True
    given = test.given[0]
    assert (given.name, given.rows.columns) == ("raw.orders", ("id", "amount"))
    assert given.rows.cells == ((1, ["float", "10.0", "10.0"]), (2, None))
    assert given.rows.places == ((9, 11, 21), (10, 11, 7))
    assert test.expect is not None and test.expect.cells == ((1, ["float", "9.0", "9.0"]),)
    assert [(c.name, c.rows.cells) for c in test.expect_ctes] == [("d", ())]


@pytest.mark.parametrize("text", ["", "# nothing\n", "tests:\n", "tests: []\n"])
def test_no_tests(text: str, load: Load, errors: Errors) -> None:
    assert load(text) == ()
    assert errors.found == []


@pytest.mark.parametrize(
    ("written", "cell"),
    [
        ("1", 1),
        ("0123", ["int", "83", "0123"]),
        ("1_000", ["int", "1000", "1_000"]),
        ("10.10", ["float", "10.10", "10.10"]),
        (".nan", ["float", "nan", ".nan"]),
        ("-.inf", ["float", "-inf", "-.inf"]),
        ("12:30:00", "12:30:00"),
        ("true", True),
        ("yes", ["bool", "true", "yes"]),
        ("'yes'", "yes"),
        ("~", None),
        ("", None),
        ("2026-01-02", ["date", "2026-01-02", "2026-01-02"]),
        ("2026-13-45", "2026-13-45"),
        ("2026-01-02 03:04:05", ["timestamp", "2026-01-02 03:04:05", "2026-01-02 03:04:05"]),
        ("2026-01-02T03:04:05Z", ["timestamp", "2026-01-02 03:04:05+00:00", "2026-01-02T03:04:05Z"]),
        ("[1, x]", ["list", [1, "x"]]),
        ("{a: 1, 2: b}", ["map", [["a", 1], ["2", "b"]]]),
        ("!!binary AP8=", ["binary", "00ff"]),
    ],
)
def test_values_keep_what_was_written(written: str, cell: Any, rows: Callable[[str], Rows]) -> None:
    assert rows(f"- id: {written}").cells == ((cell,),)


def test_columns_with_types_and_rows_as_lists(rows: Callable[[str], Rows]) -> None:
    content = rows('columns: {cur: string, rate: "decimal(10,4)"}\nrows: [[EUR, 1.1], {rate: 2}]')
    assert content.columns == ("cur", "rate")
    assert content.types == {"cur": "STRING", "rate": "DECIMAL(10,4)"}
    assert content.cells == (("EUR", ["float", "1.1", "1.1"]), (None, 2))


@pytest.mark.parametrize(
    ("text", "columns", "cells"),
    [
        ("columns: [a, b]\nrows: [[1, 2]]", ("a", "b"), ((1, 2),)),
        ("columns: {a: int}", ("a",), ()),
        ("rows: []", (), ()),
        ("- {a: 1, B: 2}\n- {b: 3, A: 4}", ("a", "B"), ((1, 2), (4, 3))),
        ('csv: |\n  a, b\n  1, x\n  , "y, z"', ("a", "b"), (("1", "x"), (None, "y, z"))),
    ],
)
def test_other_ways_to_write_rows(
    text: str, columns: tuple[str, ...], cells: tuple[Any, ...], rows: Callable[[str], Rows]
) -> None:
    content = rows(text)
    assert (content.columns, content.cells) == (columns, cells)
    assert Rows.from_data(content.to_data()) == content


def test_the_types_of_csv_are_guessed_as_for_seeds(rows: Callable[[str], Rows]) -> None:
    content = rows("csv: |\n  id,day,name\n  1,2026-01-02,x\n  ,,\n")
    assert content.guessed == {"id": "bigint", "day": "date", "name": "string"}


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-01-02", "2026-01-02 00:00:00"),
        ("'2026-01-02 03:04'", "2026-01-02 03:04:00"),
        ("2026-01-02T03:04:05.5Z", "2026-01-02 03:04:05.500000+00:00"),
    ],
)
def test_now(now: str, expected: str, load: Load) -> None:
    assert load(f"{HEAD}    now: {now}\n    expect: []\n")[0].now == expected


EXPECT = "    expect: []\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tests: [}\n", ("BadYaml", f"{FILE}:1:9", None)),
        ("- a\n", ("BadYaml", f"{FILE}:1:1", None)),
        ("test: []\n", ("UnknownKey", f"{FILE}:1:1", "did you mean 'tests'?")),
        ("tests: {a: 1}\n", ("BadYaml", f"{FILE}:1:8", "write each test as `- name: …`")),
        ("tests: [x]\n", ("BadYaml", f"{FILE}:1:9", "write `- name: …`")),
        ("tests:\n  - model: m\n" + EXPECT, ("MissingKey", f"{FILE}:2:5", "add `name: what_is_true`")),
        ("tests:\n  - name: m\n" + EXPECT, ("MissingKey", f"{FILE}:2:5", "add `model: folder.name`")),
        (HEAD, ("MissingKey", f"{FILE}:2:5", "add `expect: []` if the result must be empty")),
        (HEAD + EXPECT + "    givn: {}\n", ("UnknownKey", f"{FILE}:5:5", "did you mean 'given'?")),
        (HEAD + EXPECT + "    now: soon\n", ("BadValue", f"{FILE}:5:10", "such as 2026-01-02 03:04:05")),
        (HEAD + EXPECT + "    ordered: 1\n", ("BadValue", f"{FILE}:5:14", None)),
        (HEAD + EXPECT + "    given: [x]\n", ("BadValue", f"{FILE}:5:12", None)),
        (HEAD + EXPECT + "    vars: {a: {b: 1}}\n", ("BadValue", f"{FILE}:5:15", None)),
        (
            HEAD + EXPECT + "    given: {x: 1}\n",
            ("BadYaml", f"{FILE}:5:16", "write rows as `- {column: value}`, or `columns` and `rows`, or `csv`"),
        ),
        (
            HEAD + EXPECT + "    given: {x: [[1]]}\n",
            ("BadYaml", f"{FILE}:5:17", "add `columns` beside `rows`, or write `- {column: value}`"),
        ),
        (
            HEAD + EXPECT + "    given: {x: {columns: [a], rows: [[1, 2]]}}\n",
            ("BadYaml", f"{FILE}:5:38", "the columns are a"),
        ),
        (
            HEAD + EXPECT + "    given: {x: {columns: {a: strng}}}\n",
            ("BadValue", f"{FILE}:5:30", "such as bigint, string, date, timestamp, decimal(10,2) or array<int>"),
        ),
        (HEAD + EXPECT + "    given: {x: {columns: [a], rows: [{b: 1}]}}\n", ("BadYaml", f"{FILE}:5:39", "they are a")),
        (HEAD + EXPECT + "    given: {x: {row: []}}\n", ("UnknownKey", f"{FILE}:5:17", "did you mean 'rows'?")),
        (HEAD + EXPECT + "    given: {x: [{a: 1, A: 2}]}\n", ("DuplicateKey", f"{FILE}:5:24", None)),
        (HEAD + EXPECT + '    given: {x: {csv: "a,b\\n1"}}\n', ("BadYaml", f"{FILE}:5:22", "the columns are a, b")),
        (
            HEAD + EXPECT + HEAD.removeprefix("tests:\n").replace(": a", ": A", 1) + EXPECT,
            ("DuplicateKey", f"{FILE}:5:11", "give each test its own name"),
        ),
    ],
)
def test_mistakes(
    text: str, expected: tuple[str, str, str | None], load: Load, seen: Callable[[], list[tuple[str, str, str | None]]]
) -> None:
    load(text)
    assert seen() == [expected]
