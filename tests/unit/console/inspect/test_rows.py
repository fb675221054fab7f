"""Rows of queries: tables where they fit, one value a line where they do not, CSV, and files."""

from __future__ import annotations

import errno
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sqb.console.inspect.rows import format_count, format_rows
from sqb.console.phase import show_waiting
from sqb.console.style import Paint
from sqb.errors.call import CallError
from sqb.operations.inspect.query import QueryResult
from sqb.operations.inspect.write_rows import format_csv, write_rows

COLUMNS = ("id", "name", "note")
ROWS = ((1, "Ada", None), (2, "Grace", "x" * 70))


@pytest.mark.parametrize(("width", "vertical"), [(None, False), (200, False), (100, False), (80, True)])
def test_a_table_where_it_fits(width: int | None, vertical: bool) -> None:
    lines = list(format_rows(COLUMNS, ROWS, width))
    assert lines[0].startswith("-[ row 1 ]-") is vertical
    if not vertical:
        assert lines[0] == "id  name   note" and lines[2] == "1   Ada    NULL"


def test_one_value_a_line() -> None:
    lines = list(format_rows(("id", "text"), [(1, "a\nb"), (2, "")], 80, vertical=True))
    assert lines == [
        "-[ row 1 ]" + "-" * 70,
        "id   | 1",
        "text | a",
        "     | b",
        "-[ row 2 ]" + "-" * 70,
        "id   | 2",
        "text |",
    ]


def test_no_rows_are_a_header() -> None:
    assert next(format_rows(("a" * 90, "b"), [], 80)).startswith("aaa")


def test_the_count() -> None:
    def format_line(**facts: object) -> list[str]:
        return list(format_count(QueryResult(("a",), ((1,),), 0.2, **facts), Paint.plain()))  # type: ignore[arg-type]

    assert format_line() == ["(1 row, 200ms)"]
    assert format_line(is_cut=True) == ["(1 row, the first of more: --limit N shows more, 200ms)"]
    assert format_line(notes=("m is out of date",)) == ["(1 row, 200ms)", "note: m is out of date"]
    written = QueryResult(("a",), (), 0.2, output=Path("x.csv"), written=1200)
    assert list(format_count(written, Paint.plain())) == ["Wrote 1,200 rows to x.csv (200ms)"]


def test_csv_tells_null_from_empty_text() -> None:
    values = (
        None,
        "",
        "a,b",
        'say "hi"',
        "two\nlines",
        True,
        1.5,
        Decimal("2.50"),
        date(2026, 1, 2),
        b"\x01",
        [1, None],
    )
    assert list(format_csv(["c"] * len(values), [values]))[1] == (
        ',"","a,b","say ""hi""","two\nlines",true,1.5,2.50,2026-01-02,01,"[1, null]"'
    )


def test_columns_of_one_name_are_all_in_the_document() -> None:
    result = QueryResult(("a", "a", "a_1"), ((1, 2, 3),), 0.0)
    assert result.to_data() == {"columns": ["a", "a", "a_1"], "rows": [{"a": 1, "a_2": 2, "a_1": 3}]}


def test_files(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    table = pa.table({"id": [1, 2], "at": [moment, None], "tags": [["a", "b"], []]})
    assert write_rows(table, tmp_path / "x.parquet") == (("id", "at", "tags"), 2)
    assert parquet.read_table(tmp_path / "x.parquet").equals(table)
    write_rows(table, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == 'id,at,tags\n1,2026-01-02 03:04:05+00:00,"[""a"", ""b""]"\n2,,[]\n'
    write_rows(table, tmp_path / "x.jsonl")
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 1, "at": "2026-01-02 03:04:05+00:00", "tags": ["a", "b"]},
        {"id": 2, "at": None, "tags": []},
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.csv", "x.jsonl", "x.parquet"]


def test_files_of_columns_with_one_name_and_of_values_that_json_does_not_have(tmp_path: Path) -> None:
    pairs = pa.array([[("k", float("nan"))]], pa.map_(pa.string(), pa.float64()))
    table = pa.Table.from_arrays([pa.array([float("-inf")]), pairs, pa.array([b"\x0f"])], ["x", "x", "raw"])
    write_rows(table, tmp_path / "x.parquet")
    assert parquet.read_table(tmp_path / "x.parquet").column_names == ["x", "x_1", "raw"]
    write_rows(table, tmp_path / "x.jsonl")
    text = (tmp_path / "x.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"x": "-Infinity", "x_1": {"k": "NaN"}, "raw": "0f"}
    write_rows(table, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == 'x,x,raw\n-inf,"{""k"": ""NaN""}",0f\n'
    document = QueryResult(("a",), ((float("inf"),),), 0.0).to_data()
    assert document["rows"] == [{"a": "Infinity"}]


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sqb.operations.inspect.write_rows._write_lines", write)
    (tmp_path / "x.csv").write_text("before\n")
    with pytest.raises(CallError, match=r"x\.csv cannot be written: No space left on device"):
        write_rows(pa.table({"id": [1]}), tmp_path / "x.csv")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"x.csv": "before\n"}


def test_waiting_is_shown_on_terminals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with show_waiting() as show:
        show("running")
    assert capsys.readouterr().err == ""
