"""Cursors and queries: what fits, what has one identity, and what a query looks like for a window."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.build.node.render import build_live_names, render_query
from sqb.errors.call import CallError
from sqb.operations.plan import validate_window
from sqb.plan.model import Options
from sqb.sql.text.cursor_calls import END, START
from unit.compile.test_project import compiled, hint, problems

HEAD = "-- @incremental: ts\n"
QUERY = "SELECT ts FROM raw.x WHERE ts >= __cursor_start() AND ts < __cursor_end()"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-- @kind: table\n" + QUERY, [("BadCursor", "2:34"), ("BadCursor", "2:60")]),
        ("-- @kind: view\nSELECT __cursor_end() AS e", [("BadCursor", "2:8")]),
        (HEAD + "SELECT ts FROM raw.x WHERE ts >= __cursor_start('a')", [("BadCursor", "2:34")]),
        (HEAD + "SELECT ts FROM raw.x WHERE ts >= __cursor_start", [("BadCursor", "2:34")]),
        (HEAD + "SELECT id FROM raw.x", [("BadCursor", "1:18")]),
        ("MODEL (kind incremental, cursor t);\nSELECT ts FROM raw.x", [("BadCursor", "1:33")]),
    ],
)
def test_problems(tmp_path: Path, text: str, expected: list[tuple[str, str]]) -> None:
    messages = problems(tmp_path, {"models/m/a.sql": text})
    assert [(kind, at) for kind, at, _ in messages] == [(kind, f"models/m/a.sql:{at}") for kind, at in expected]


def test_a_mistyped_cursor_gets_the_nearest_name(tmp_path: Path) -> None:
    files = {"models/m/a.sql": "-- @incremental: updated\nSELECT id, updated_at FROM raw.x"}
    assert hint(tmp_path, files) == "did you mean 'updated_at'?"


@pytest.mark.parametrize(
    "query", [QUERY, "SELECT * FROM raw.x", "SELECT TS FROM raw.x", "SELECT '__cursor_start' AS a, ts FROM raw.x"]
)
def test_what_fits(tmp_path: Path, query: str) -> None:
    assert compiled(tmp_path, {"models/m/a.sql": HEAD + query}).nodes["m.a"].kind == "incremental"


def test_both_spellings_are_one_model(tmp_path: Path) -> None:
    lines = "-- @incremental: ts\n-- @incremental_initial: 2024-01-01\n"
    block = "MODEL (kind incremental, cursor ts, cursor_start '2024-01-01');\n"
    one = compiled(tmp_path / "a", {"models/m/a.sql": lines + QUERY}).nodes["m.a"]
    other = compiled(tmp_path / "b", {"models/m/a.sql": block + QUERY.replace("__cursor", "__CURSOR")}).nodes["m.a"]
    assert one.local_hash == other.local_hash


@pytest.mark.parametrize(
    ("key", "same"),
    [
        ("-- @lookback: 1d", True),
        ("-- @replay_on_change: full", True),
        ("-- @on_schema_change: fail", True),
        ("-- @cursor_grain: 1h", False),
        ("-- @cursor_start: 2024-01-01", False),
        ("-- @incremental_strategy: append", False),
        ("-- @unique_key: ts", False),
    ],
)
def test_what_is_part_of_the_identity(tmp_path: Path, key: str, same: bool) -> None:
    one = compiled(tmp_path / "a", {"models/m/a.sql": HEAD + QUERY}).nodes["m.a"]
    other = compiled(tmp_path / "b", {"models/m/a.sql": f"{HEAD}{key}\n{QUERY}"}).nodes["m.a"]
    assert (one.local_hash == other.local_hash) is same


def test_a_query_for_a_window(tmp_path: Path) -> None:
    project = compiled(tmp_path, {"models/m/a.sql": HEAD + QUERY})
    names = build_live_names(project, "lake", {})
    sql = render_query(project.nodes["m.a"], names, window={START: "DATE '2024-01-01'", END: "DATE '2024-01-02'"}).sql
    assert sql == "SELECT ts FROM `lake`.`raw`.`x` AS `x` WHERE ts >= DATE '2024-01-01' AND ts < DATE '2024-01-02'"
    widest = render_query(project.nodes["m.a"], names).sql
    assert "'0001-01-01 00:00:00.000000Z'" in widest and "'9999-12-31 23:59:59.999999Z'" in widest


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(start_cursor="soon"), '--start-cursor: "soon" is not a date or timestamp'),
        (Options(end_cursor="7"), "the cursor of m.a is of the type timestamp"),
        (Options(frozenset({"m.n"}), start_cursor="1.5"), '"1.5" is not a whole number'),
        (Options(start_cursor="2024-01-01"), "the cursor of m.n is of the type integer"),
        (Options(frozenset({"m.a"}), start_cursor="2024-01-01", end_cursor="2023-01-01"), "must be before"),
        (Options(frozenset({"m.n"}), start_cursor="5", end_cursor="5"), "must be before"),
        (Options(full_refresh=True, end_cursor="5"), "--end-cursor and --full-refresh contradict each other"),
        (Options(frozenset({"m.t"}), start_cursor="5"), "none is selected"),
    ],
)
def test_windows_that_cannot_be(tmp_path: Path, options: Options, says: str) -> None:
    files = {
        "a": HEAD + QUERY,
        "n": "-- @incremental: id\n-- @cursor_type: integer\nSELECT id FROM raw.x",
        "t": "SELECT 1 AS a",
    }
    project = compiled(tmp_path, {f"models/m/{name}.sql": text for name, text in files.items()})
    with pytest.raises(CallError) as caught:
        validate_window(project, options)
    assert says in caught.value.message and caught.value.hint


def test_windows_that_can_be(tmp_path: Path) -> None:
    project = compiled(tmp_path, {"models/m/a.sql": HEAD + QUERY})
    validate_window(project, Options())
    validate_window(project, Options(start_cursor="2024-01-01", end_cursor="2024-01-01 00:00:01"))
