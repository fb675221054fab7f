"""Runs as the pages show them: times, waits, the critical path, and what was saved."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqb.docs_site.describe_runs import describe_runs, map_runs_of_nodes
from sqb.lake.state.rows import NodeResult


def row(run: str, name: str, metadata: dict[str, Any], status: str = "ok", error: str = "") -> NodeResult:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    return NodeResult("model", name, "dev", run, status, "", json.dumps(metadata), error, at)


def timed(began: float, ended: float, worker: int = 0, **more: Any) -> dict[str, Any]:
    span = {"began": began, "ended": ended, "worker": worker}
    run = {"began": 100.0, "spark": [100.5, 103.0], "nodes": 10, "skipped": 7}
    return {"span": span, "run": run, "seconds": ended - began, "rows": 5, "run_type": "full", **more}


UPSTREAM = {"b": ["a"], "c": ["a"], "d": ["b", "c"]}


def test_a_run_has_its_times_its_waits_and_its_critical_path() -> None:
    rows = [
        row("20260101_120000_x", "d", timed(109.5, 112, 1)),
        row("20260101_120000_x", "a", timed(101, 106)),
        row("20260101_120000_x", "b", timed(106, 107, 1)),
        row("20260101_120000_x", "c", timed(106, 109)),
    ]
    (run,) = describe_runs(rows, UPSTREAM, 10)
    assert (run["began"], run["ended"], run["seconds"], run["work_seconds"]) == (100.0, 112, 12.0, 11.5)
    assert (run["planned"], run["ran"], run["skipped"], run["rows"]) == (10, 4, 7, 20)
    assert {n["name"]: n["waited_for"] for n in run["nodes"]} == {"a": "Spark", "b": "a", "c": "a", "d": "c"}
    assert [n["name"] for n in run["nodes"] if n["critical"]] == ["a", "c", "d"]
    assert [n["name"] for n in run["nodes"]] == ["a", "b", "c", "d"], "in the order in which they began"


def test_a_node_that_was_ready_before_it_began_waited_for_a_place() -> None:
    rows = [
        row("1", "a", timed(104, 105)),
        row("1", "other", timed(104, 111, 1)),
        row("1", "b", timed(105.1, 109)),
        row("1", "c", timed(109.0, 113)),
        row("1", "d", timed(113.1, 114)),
    ]
    (run,) = describe_runs(rows, UPSTREAM, 10)
    waits = {n["name"]: (n["wait"], n["waited_for"], n["ready"]) for n in run["nodes"]}
    assert waits["b"] == ("input", "a", 105) and waits["c"] == ("place", "b", 105)
    assert waits["d"] == ("input", "c", 113), "what ran beside it and ended before is no reason"
    assert waits["a"] == (None, None, 100.0), "nothing had run before it that it could have waited for"
    assert [n["name"] for n in run["nodes"] if n["critical"]] == ["a", "b", "c", "d"] and not run["spark_critical"]


def test_the_critical_path_begins_with_the_start_of_spark_where_a_node_waited_for_it() -> None:
    rows = [row("1", "Spark", timed(101, 102)), row("1", "a", timed(101, 106, 1)), row("1", "b", timed(106, 107, 1))]
    (run,) = describe_runs(rows, UPSTREAM, 10)
    assert {n["name"]: n["wait"] for n in run["nodes"]} == {"Spark": None, "a": "spark", "b": "input"}
    assert [n["name"] for n in run["nodes"] if n["critical"]] == ["a", "b"], "a node with the name of Spark is a node"
    assert run["spark_critical"]


def test_a_run_that_was_interrupted_is_unfinished() -> None:
    done, left = timed(101, 106), timed(101, 106)
    left["run"] = {**left["run"], "nodes": 16, "skipped": 0}
    rows = [row("1", "a", done), row("1", "b", done), row("1", "c", done), row("2", "a", left)]
    rows += [row("3", "a", left, status="failed"), row("4", "a", {"seconds": 2.0})]
    assert {r["id"]: r["status"] for r in describe_runs(rows, UPSTREAM, 10)} == {
        "1": "ok",
        "2": "unfinished",
        "3": "failed",
        "4": "ok",
    }


def test_runs_without_times_are_there_all_the_same() -> None:
    (run,) = describe_runs([row("20260101_120000_x", "a", {"seconds": 2.0, "rows": 1})], {}, 10)
    assert run["seconds"] is None and run["work_seconds"] == 2.0 and run["planned"] is None
    assert run["nodes"][0]["waited_for"] is None and not run["nodes"][0]["critical"]


def test_what_a_full_rebuild_takes_is_the_last_rebuild_of_each_node() -> None:
    rows = [
        row("20260101_120000_x", "a", timed(1, 5)),
        row("20260101_120000_x", "b", timed(1, 3)),
        row("20260102_120000_x", "a", timed(1, 2, run_type="incremental")),
        row("20260103_120000_x", "b", timed(1, 9)),
        row("20260104_120000_x", "b", timed(1, 90), status="failed"),
    ]
    runs = describe_runs(rows, {}, 10)
    assert [r["id"][:8] for r in runs] == ["20260104", "20260103", "20260102", "20260101"]
    assert [r["rebuild_seconds"] for r in runs] == [12.0, 12.0, 6.0, 6.0]
    assert len(describe_runs(rows, {}, 2)) == 2
    assert [r["run"][:8] for r in map_runs_of_nodes(runs, 2)["b"]] == ["20260104", "20260103"]
