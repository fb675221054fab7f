"""The lines of plans and builds, exactly as the documentation shows them."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from sqb.build.events import NodeDone, NodeStarted, NodeWaiting, Notice, PhaseStarted, Progress, SparkStarted
from sqb.build.result import BuildResult, build_empty_result
from sqb.console.lines import (
    format_done,
    format_plan,
    format_skipped,
    format_summary,
    format_table,
    shorten_diff,
)
from sqb.console.live import Listener
from sqb.console.style import Paint
from sqb.names import Relation, format_seconds
from sqb.plan.model import Plan, PlannedNode, Reason


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Paint:
    monkeypatch.setenv("NO_COLOR", "1")
    return Paint()


def planned(name: str = "staging.orders", kind: str = "table", **more: Any) -> PlannedNode:
    fields: dict[str, Any] = {"action": "run", "run_type": "full", "reason": Reason.UPSTREAM_CHANGED, **more}
    return PlannedNode(name, "seed" if kind == "seed" else "model", kind, Relation.parse(name), **fields)


def done(node: PlannedNode, status: str = "ok", run_type: str = "full", **more: Any) -> NodeDone:
    return NodeDone(node, status, run_type, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            done(planned(kind="merge"), run_type="incremental", rows=3, seconds=0.2),
            "[OK] staging.orders (merge, incremental, 3 rows, 200ms)",
        ),
        (
            done(planned(kind="tracked"), rows=2, seconds=0.2, wrote="changed rows only"),
            "[OK] staging.orders (tracked, full, 2 rows, changed rows only, 200ms)",
        ),
        (
            done(planned(kind="tracked"), rows=9, seconds=0.2, wrote="whole table rewritten"),
            "[OK] staging.orders (tracked, full, 9 rows, whole table rewritten, 200ms)",
        ),
        (
            done(planned(kind="tracked"), identical=True, seconds=0.2, wrote="changed rows only"),
            "[OK] staging.orders (tracked, full, identical output, 0 rows, 200ms)",
        ),
        (done(planned(), rows=1, seconds=1.55), "[OK] staging.orders (table, full, 1 row, 1.6s)"),
        (done(planned(), rows=0, seconds=0.0004), "[OK] staging.orders (table, full, 0 rows, 0ms)"),
        (
            done(planned(), identical=True, seconds=0.3),
            "[OK] staging.orders (table, full, identical output, 0 rows, 300ms)",
        ),
        (done(planned(kind="view"), run_type="backfill", seconds=0.3), "[OK] staging.orders (view, backfill, 300ms)"),
        (
            done(planned("raw.orders"), "skipped", "skip"),
            "[OK] raw.orders (table, skip — unchanged)",
        ),
        (
            done(planned("raw.orders"), "skipped", "skip", detail="upstream output identical"),
            "[OK] raw.orders (table, skip — upstream output identical)",
        ),
        (done(planned(), "failed", seconds=0.3), "[FAIL] staging.orders (table, full, 300ms)"),
        (
            done(planned("marts.revenue"), "blocked", "skip", detail="upstream staging.orders failed"),
            "[SKIP] marts.revenue (upstream staging.orders failed)",
        ),
        (
            done(planned("marts.revenue", reason=Reason.UPSTREAM_BLOCKED), "blocked", "skip"),
            "[SKIP] marts.revenue (Upstream blocked)",
        ),
    ],
)
def test_one_line_per_node(event: NodeDone, line: str, plain: Paint) -> None:
    assert format_done(event, plain) == line


def result(*nodes: NodeDone, **more: Any) -> BuildResult:
    return BuildResult(Plan("dev", tuple(n.planned for n in nodes)), "r", nodes, 1.0, True, **more)


@pytest.mark.parametrize(
    ("nodes", "seconds", "line"),
    [
        (
            [*(done(planned(), rows=r) for r in (30, 4, 1)), done(planned(), "skipped", "skip")],
            1.6,
            "Done: 3 ran, 1 skipped, 0 failed (35 rows, 1.6s)",
        ),
        (
            [done(planned(), "failed"), done(planned(), "blocked"), done(planned(), rows=1)],
            75,
            "Done: 1 ran, 0 skipped, 1 failed, 1 blocked (1 row, 1m 15s)",
        ),
        ([], 0.03, "Done: 0 ran, 0 skipped, 0 failed (0 rows, 30ms)"),
    ],
)
def test_the_last_line(nodes: list[NodeDone], seconds: float, line: str) -> None:
    assert format_summary(result(*nodes), seconds) == line


def test_the_summary_of_a_build_as_data() -> None:
    nodes = [done(planned(), rows=3), done(planned(), "skipped"), done(planned(), "failed"), done(planned(), "blocked")]
    assert result(*nodes).summary == {
        "ran": 1,
        "skipped": 1,
        "failed": 1,
        "blocked": 1,
        "rows": 3,
        "seconds": 1.0,
        "spark_started": True,
    }
    assert not result(*nodes).ok
    assert result(*nodes[:2]).ok and not result(*nodes[:2], interrupted=True).ok


def test_many_skipped_nodes_are_one_line_unless_asked(plain: Paint) -> None:
    skipped = [done(planned(f"s.n{i}"), "skipped", "skip") for i in range(21)]
    assert list(format_skipped(skipped, False, plain)) == ["[OK] 21 nodes (skip — unchanged)"]
    assert len(list(format_skipped(skipped, True, plain))) == 21
    assert len(list(format_skipped(skipped[:20], False, plain))) == 20


def plan_of(*nodes: PlannedNode, **more: Any) -> Plan:
    return Plan("dev", nodes, **more)


SKIP = planned("seeds.orders", "seed", action="skip", run_type="skip", reason=Reason.NORMAL)
RUN = planned("staging.stg", detail="a → b", reason=Reason.QUERY_CHANGED, run_type="backfill")
BLOCKED = planned("marts.m", action="blocked", run_type="skip", reason=Reason.UPSTREAM_BLOCKED, detail="x is blocked")


def test_a_plan_in_lines(plain: Paint) -> None:
    noted = replace(RUN, notices=("uses rand()",))
    plan = plan_of(SKIP, noted, BLOCKED, warnings=("look out",))
    assert list(format_plan(plan, False, plain, {"staging.stg": "@@ -1 +1 @@\n-a\n+b\n c"})) == [
        "skip     seeds.orders  (seed)",
        "run      staging.stg   (table, backfill)  Query changed: a → b",
        "           note: uses rand()",
        "           @@ -1 +1 @@",
        "           -a",
        "           +b",
        "            c",
        "blocked  marts.m       (table)  Upstream blocked: x is blocked",
        "warning: look out",
        "Plan: 1 to run, 1 unchanged, 1 blocked (target dev)",
    ]


def test_a_plan_with_nothing_to_do(plain: Paint) -> None:
    assert list(format_plan(plan_of(SKIP), False, plain, {}))[-1] == "Nothing to do: 1 unchanged (target dev)"
    assert list(format_plan(plan_of(), False, plain, {})) == [
        "Nothing to do: there is nothing to build. Models are SQL files in models/, seeds are CSV files in seeds/."
    ]
    assert list(format_plan(plan_of(BLOCKED), False, plain, {}))[-1].startswith("Plan: 0 to run")


def test_many_unchanged_nodes_of_a_plan_are_one_line(plain: Paint) -> None:
    skips = [replace(SKIP, name=f"s.n{i}") for i in range(21)]
    assert list(format_plan(plan_of(*skips, RUN), False, plain, {})) == [
        "run      staging.stg  (table, backfill)  Query changed: a → b",
        "skip     21 nodes, unchanged",
        "Plan: 1 to run, 21 unchanged, 0 blocked (target dev)",
    ]
    assert len(list(format_plan(plan_of(*skips, RUN), True, plain, {}))) == 23


def test_a_short_difference_has_only_what_changed() -> None:
    text = "@@ -1,3 +1,3 @@\n SELECT\n-  a\n+  b\n FROM t"
    assert shorten_diff(text) == "-  a\n+  b"
    many = "\n".join(f"+{n}" for n in range(11))
    assert shorten_diff(many).splitlines() == [*(f"+{n}" for n in range(8)), "… 3 more lines: -v shows all"]
    assert shorten_diff("") == ""


def test_columns_are_aligned() -> None:
    rows = [(1, None, "日本", "a"), (22, True, "x", "two\nlines\t")]
    assert list(format_table(("n", "flag", "text", "more"), rows)) == [
        "n   flag  text  more",
        "--  ----  ----  ------------",
        "1   NULL  日本  a",
        "22  True  x     two\\nlines\\t",
    ]
    assert list(format_table(("a", "b"), [])) == ["a  b", "-  -"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.2, "200ms"), (0.9996, "1.0s"), (1.6, "1.6s"), (59.97, "1m 0s"), (125, "2m 5s"), (3600, "1h 0m")],
)
def test_times_as_people_read_them(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_nothing_ran_is_a_result_too() -> None:
    empty_result = build_empty_result(plan_of(SKIP, BLOCKED), "r", 0.1)
    assert [n.status for n in empty_result.nodes] == ["skipped", "blocked"]
    assert not empty_result.spark_started and not empty_result.ok


# --- what is printed while a build runs ---------------------------------------------------------------------------


def test_without_a_terminal_every_event_is_a_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    stream = io.StringIO()
    with Listener(stream, 2) as listener:
        listener(NodeStarted("s.a", "table"))
        listener(Progress("starting Spark"))
        listener(Progress(""))
        listener(done(planned("s.a"), rows=2, seconds=0.5))
        listener(done(replace(SKIP, name="s.unchanged"), "skipped", "skip"))
        listener(done(planned("s.b"), "skipped", "skip", detail="upstream output identical"))
        listener(Notice("something to know"))
    assert stream.getvalue().splitlines() == [
        "starting Spark",
        "[OK] s.a (table, full, 2 rows, 500ms)",
        "[OK] s.b (table, skip — upstream output identical)",
        "note: something to know",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "colour"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], colour: bool) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Paint(Terminal()).enabled is colour


def test_colour_elsewhere_only_when_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert not Paint(io.StringIO()).enabled
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Paint(io.StringIO()).enabled


def stopped(name: str) -> NodeDone:
    return done(planned(name), "blocked", "skip", detail="the build was interrupted")


def test_what_was_not_begun_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    stream = io.StringIO()
    with Listener(stream, 3) as listener:
        listener(stopped("s.b"))
        listener(done(planned("s.a"), rows=2, seconds=0.5))
    assert stream.getvalue().splitlines() == [
        "[OK] s.a (table, full, 2 rows, 500ms)",
        "[SKIP] s.b (the build was interrupted)",
    ]
    many = io.StringIO()
    with Listener(many, 30) as listener:
        for i in range(30):
            listener(stopped(f"s.n{i}"))
    assert many.getvalue() == "[SKIP] 30 nodes (the build was interrupted)\n"


def test_a_terminal_shows_what_runs_and_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Listener(stream, 9) as listener:
        listener(NodeWaiting("s.a"))
        assert "0/9  starting Spark" in str(listener._render())
        listener(Progress("fetching things"))
        assert "0/9  fetching things" in str(listener._render())
        listener(Progress(""))
        listener(SparkStarted(6.2))
        assert "0/9  working" in str(listener._render())
        listener(NodeStarted("s.s", "seed"))
        listener(PhaseStarted("checking columns"))
        assert "0/9  checking columns, s.s 0s" in str(listener._render())
        listener(NodeWaiting("s.s"))
        assert str(listener._render()).endswith("0/9  checking columns"), "what waits does not run"
        listener(PhaseStarted(""))
        for name in ("s.a", "s.b", "s.c", "s.d", "s.e", "s.f"):
            listener(NodeStarted(name, "table"))
        assert str(listener._render()).endswith("0/9  s.a 0s, s.b 0s, s.c 0s, s.d 0s, 2 more")
        listener(done(planned("s.a"), rows=2, seconds=0.5))
        assert "1/9  s.b 0s" in str(listener._render())
        listener.stopping = True
        assert "1/9  stopping; Ctrl-C again does not wait, s.b 0s" in str(listener._render())
    text = stream.getvalue()
    assert "\x1b[32m[OK]" in text and "Spark: started (6.2s)" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is back"
