"""Failed checks as people read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqb.build.checks.report import Failure, Report, combine_failures, encode_finding, format_examples
from sqb.build.events import NodeDone
from sqb.console.errors import format_error
from sqb.console.style import Paint
from sqb.errors.base import SqbErrors
from sqb.errors.build import BuildError
from sqb.errors.lake import LakeFull
from sqb.names import Relation
from sqb.plan.model import PlannedNode, Reason
from support.checks import check


def test_a_failure_shows_its_place_and_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "models").mkdir()
    (tmp_path / "models/m.sql").write_text("-- @constraint: not_null(order_id)\nSELECT 1")
    examples = tuple({"amount": amount, "order_id": "NULL"} for amount in ("12.50", "3.00"))
    failure = Failure(check("not_null(order_id)", "constraint"), "7 rows violate it", 7, examples, 7)
    assert list(format_error(combine_failures([failure]), tmp_path, Paint())) == [
        "error[SQB-K101]: models/m.sql:1:17: not_null(order_id): 7 rows violate it",
        "  1 | -- @constraint: not_null(order_id)",
        "    |                 ^^^^^^^^^^^^^^^^^^",
        "  order_id  amount",
        "  NULL      12.50",
        "  NULL      3.00",
        "  … and 5 more",
        "hint: `sqb build --store-failures` keeps the violating rows in a table",
    ]


def test_several_failures_are_one_error() -> None:
    failures = tuple(Failure(check(text), "wrong") for text in ("not_null(id)", "unique(id)"))
    error = combine_failures(failures)
    assert isinstance(error, SqbErrors)
    assert [e.message for e in error.errors] == ["not_null(id): wrong", "unique(id): wrong"]
    with pytest.raises(SqbErrors):
        Report(failures).raise_failures()
    Report((), failures).raise_failures()


def done(**what: Any) -> dict[str, Any]:
    planned = PlannedNode("s.m", "model", "table", Relation("s", "m"), "run", "full", Reason.NORMAL)
    return NodeDone(planned, **{"status": "failed", "run_type": "full", **what}).to_data()


def test_failures_for_programs() -> None:
    row = {"id": "NULL", "name": "a"}
    failure = Failure(check("not_null(id)", "constraint"), "1 row violates it", 1, (row,), 1)
    warned = Failure(check("row_count(>, 5)", "warning"), "the number of rows is 1, not > 5")
    (result,) = done(error=combine_failures([failure]))["failures"]
    assert result == {
        "check": "not_null(id)",
        "role": "constraint",
        "severity": "error",
        "message": "1 row violates it",
        "file": "models/m.sql",
        "line": 1,
        "column": 17,
        "violations": 1,
        "rows": [row],
    }
    (messages,) = done(status="ok", findings=(encode_finding(warned),))["failures"]
    assert (messages["severity"], messages["violations"], messages["rows"]) == ("warn", None, [])
    both = done(error=combine_failures([failure, replace(failure, check=check("unique(id)"))], [LakeFull("no space")]))
    assert [f["check"] for f in both["failures"]] == ["not_null(id)", "unique(id)"]
    assert "no space" in both["error"]
    assert done(error=BuildError("broken"))["failures"] == done(status="ok")["failures"] == []
    json.dumps(both)


def test_control_characters_in_rows_do_nothing() -> None:
    assert list(format_examples([{"c": "\x1b[31mred"}], ["c"], 1))[1] == "�[31mred"


def test_wide_and_long_rows_are_cut() -> None:
    row = {f"c{i}": "x" * 50 if i == 0 else f"a\nb{i}" for i in range(9)}
    header, line = format_examples([row], ["C8"], 1)
    assert header == f"c8     c0{' ' * 38}  c1     c2     c3     c4  … 3 more columns"
    assert line == f"a\\nb8  {'x' * 39}…  a\\nb1  a\\nb2  a\\nb3  a\\nb4"
    assert list(format_examples([], ["id"], 0)) == []
