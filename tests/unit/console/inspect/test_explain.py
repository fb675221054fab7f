"""What is behind a node of a plan, as it is printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sqb.console.inspect.explain import format_explanation
from sqb.console.lines import format_change, format_plan
from sqb.console.style import Paint
from sqb.inspect.diff import ColumnChange, list_column_changes
from sqb.inspect.explain import Comparison, Explanation, InputComparison, Neighbour, RefreshEstimate
from sqb.names import At, Relation
from sqb.plan.model import DataChange, Plan, PlannedNode, Reason, Root


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Paint:
    monkeypatch.setenv("NO_COLOR", "1")
    return Paint()


def planned(**more: Any) -> PlannedNode:
    fields: dict[str, Any] = {"action": "run", "run_type": "full", "reason": Reason.UPSTREAM_CHANGED, **more}
    return PlannedNode("marts.m", "model", "table", Relation("marts", "m"), **fields)


CHANGE = DataChange("raw.r", 3, 0, 11, 12)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (CHANGE, "raw.r +3 rows"),
        (replace(CHANGE, rows_added=1), "raw.r +1 row"),
        (replace(CHANGE, rows_added=0, rows_removed=1200), "raw.r -1,200 rows"),
        (replace(CHANGE, rows_added=20, rows_removed=21, estimated=True), "raw.r at most +20 -21 rows"),
        (replace(CHANGE, rows_added=0), "raw.r +0 rows"),
        (replace(CHANGE, rows_added=None, rows_removed=None), "raw.r by an unknown number of rows"),
    ],
)
def test_the_size_of_a_change(change: DataChange, text: str) -> None:
    assert format_change(change) == text


def test_a_plan_says_what_is_behind_each_reason(plain: Paint) -> None:
    roots = tuple(Root(f"raw.r{i}", "Source changed") for i in range(5))
    nodes = (
        planned(
            detail="staging.s runs; if its output changes",
            root=roots,
            changes=(CHANGE, replace(CHANGE, source="raw.q", rows_removed=2, estimated=True)),
            incremental={"class": "groups", "why": "GROUP BY", "key": "id", "size": "3 rows changed, 10 input rows"},
        ),
        # Its own detail names the source already.
        planned(
            reason=Reason.SOURCE_CHANGED,
            root=roots[:1],
            upstream=("raw.r0",),
            changes=(CHANGE,),
            detail="raw.r0 moved",
        ),
        planned(
            action="blocked", run_type="skip", reason=Reason.UPSTREAM_BLOCKED, root=(Root("s.a", "Source too old"),)
        ),
    )
    assert list(format_plan(Plan("dev", nodes), False, plain, {}))[:-1] == [
        "run      marts.m  (table, full)  Upstream changed: staging.s runs; if its output changes",
        "           root: raw.r0 (Source changed), raw.r1 (Source changed), raw.r2 (Source changed) and 2 more",
        "           data: raw.r +3 rows, raw.q at most +3 -2 rows",
        "           class: groups by id (GROUP BY; 3 rows changed, 10 input rows)",
        "run      marts.m  (table, full)  Source changed: raw.r0 moved",
        "           data: raw.r +3 rows",
        "blocked  marts.m  (table)  Upstream blocked",
        "           root: s.a (Source too old)",
    ]


def test_columns_that_differ() -> None:
    before = [("id", "int"), ("Name", "string"), ("gone", "date")]
    now = [("ID", "bigint"), ("name", "string"), ("new", "boolean")]
    column_changes = list_column_changes(before, now)
    assert column_changes == (
        ColumnChange("id", "int", "bigint"),
        ColumnChange("gone", "date", None),
        ColumnChange("new", None, "boolean"),
    )
    assert [str(c) for c in column_changes] == ["id int → bigint", "gone date removed", "new boolean added"]
    assert list_column_changes(now, now) == ()


RUNS = Explanation(
    planned=planned(
        detail="raw.r moved from snapshot 11 to 12",
        root=(Root("raw.r", "Source changed"),),
        changes=(CHANGE,),
        notices=("uses rand(): …",),
    ),
    file="models/marts/m.sql",
    hashes=(Comparison("query", "aaa", "aaa"), Comparison("config", "bbb", "ccc")),
    settings=(Comparison("sorted_by", "", '["id"]'), Comparison("kind", "view", "table")),
    inputs=(
        InputComparison("raw.r", "source", 11, 12, False, "other rows", (ColumnChange("x", None, "int"),), CHANGE),
        InputComparison("staging.v", "view", "defdefdefdefdef", "defdefdefdefdef", True, "the same definition"),
        InputComparison("staging.new", "model", None, 5, False, "not read before"),
    ),
    diff="@@ -1 +1 @@\n-a\n+b",
    work=RefreshEstimate(
        "groups", "GROUP BY", At("models/marts/m.sql", 7, 3), ("id",), 100, 3, 1000, 0.3, "auto", "too few"
    ),
    checks=("constraint not_null(id)",),
    checks_passed="",
    last_run={
        "run_id": "r1",
        "at": "2026-01-02 03:04:05",
        "status": "failed",
        "run_type": "full",
        "rows": 0,
        "seconds": 1.25,
        "snapshot_id": None,
        "error": "error[SQB-B001]: no\nmore",
    },
    upstream=(Neighbour("raw.r", "source", "read"),),
    downstream=(
        Neighbour("marts.n", "model", "run", "Upstream changed"),
        Neighbour("marts.oo", "model", "not selected"),
    ),
)


def test_a_node_that_runs_in_full(plain: Paint) -> None:
    assert list(format_explanation(RUNS, plain)) == [
        "marts.m (table) → marts.m",
        "models/marts/m.sql",
        "",
        "Runs (full): Upstream changed",
        "  raw.r moved from snapshot 11 to 12",
        "  root: raw.r (Source changed)",
        "  note: uses rand(): …",
        "",
        "Compared",
        "  query   aaa        same",
        "  config  bbb → ccc  changed",
        '    sorted_by: not set → ["id"]',
        "    kind: view → table",
        "  source raw.r       snapshot 11 → 12         other rows: +3 rows",
        "  view staging.v     definition defdefdefdef  the same definition",
        "  model staging.new  nothing → snapshot 5     not read before",
        "    column of raw.r: x int added",
        "",
        "What changed in its definition",
        "  @@ -1 +1 @@",
        "  -a",
        "  +b",
        "",
        "Incremental work",
        "  class groups by id: GROUP BY (in the part at models/marts/m.sql:7:3)",
        "  100 input rows, 3 rewritten (followed from 1,000 rows on, up to 30% rewritten)",
        "  too few",
        "",
        "Checks",
        "  constraint not_null(id)",
        "  have not passed on the current rows",
        "",
        "Last run",
        "  r1 at 2026-01-02 03:04:05 UTC: failed, full, 0 rows, 1.2s",
        "  error[SQB-B001]: no",
        "",
        "Reads",
        "  raw.r  source, read",
        "",
        "Read by",
        "  marts.n   model, run: Upstream changed",
        "  marts.oo  model, not selected",
    ]


def test_a_node_that_is_skipped_says_what_was_found_equal(plain: Paint) -> None:
    skipped = replace(
        RUNS,
        planned=planned(action="skip", run_type="skip", reason=Reason.NORMAL),
        hashes=RUNS.hashes[:1],
        settings=(),
        inputs=(InputComparison("raw.r", "source", 11, 12, True, "another snapshot with the same content"),),
        diff="",
        work=None,
        checks_passed="2026-01-02 03:04:05",
        last_run=None,
        upstream=(),
        downstream=(),
    )
    assert list(format_explanation(skipped, plain))[2:] == [
        "",
        "Is skipped: nothing that it is made from has changed",
        "",
        "Compared",
        "  query  aaa  same",
        "  source raw.r  snapshot 11 → 12  another snapshot with the same content",
        "",
        "Checks",
        "  constraint not_null(id)",
        "  passed on the current rows (2026-01-02 03:04:05 UTC)",
        "",
        "Last run",
        "  never",
    ]


def test_what_does_not_fit_goes_on_below(plain: Paint) -> None:
    node = planned(
        detail="staging.some_model runs; if its output changes",
        root=(Root("staging.some_other_model", "Source changed"), Root("seeds.s", "Query changed")),
        notices=("uses rand(): its rows are as of its last run, and time alone does not make it run again",),
    )
    plan = Plan("dev", (node,))
    assert list(format_plan(plan, False, plain, {}, 60))[:-1] == [
        "run      marts.m  (table, full)  Upstream changed",
        "           staging.some_model runs; if its output changes",
        "           root: staging.some_other_model (Source changed),",
        "             seeds.s (Query changed)",
        "           note: uses rand(): its rows are as of its last",
        "             run, and time alone does not make it run again",
    ]
    wide = list(format_plan(plan, False, plain, {}, 120))
    assert (
        wide[0] == "run      marts.m  (table, full)  Upstream changed: staging.some_model runs; if its output changes"
    )
    assert len(wide) == 4
    exact = len(wide[0])
    assert next(iter(format_plan(plan, False, plain, {}, exact))) == wide[0]
    assert next(iter(format_plan(plan, False, plain, {}, exact - 1))) != wide[0]
