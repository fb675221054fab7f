"""What a Python node remembers of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from sqb.build.python.services import NodeServices
from sqb.lake.port import TableState
from sqb.lake.state.rows import NODE_RESULTS, STAGED, NodeResult
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def ran(schema: str, minutes: int, payload: Any = None, status: str = "ok", **message: Any) -> NodeResult:
    metadata = json.dumps({"relation": "raw.orders", "identical": payload is None, **message})
    text = "" if payload is None else json.dumps(payload)
    return NodeResult("loader", "fetch", schema, f"r{minutes}", status, text, metadata, "", NOW + timedelta(0, minutes))


def remembered(
    rows: Iterable[NodeResult], schema: str = "dev", kind: str = "loader", table: TableState | None = None
) -> Any:
    """What `ctx.last_result` is in a target."""
    rows = list(rows)

    def node_results(schemas: Iterable[str], node_name: str) -> list[NodeResult]:
        items = [r for r in rows if r.target_schema in schemas and r.node_name == node_name]
        return sorted(items, key=lambda r: r.ts, reverse=True)

    pointers = {Relation(r.target_schema, NODE_RESULTS.name): None for r in rows}
    state_tables = SimpleNamespace(read_node_results=node_results)
    lake = SimpleNamespace(list_pointers=lambda: pointers, state=state_tables)
    relation = Relation("raw", "orders") if kind == "loader" else None
    node = SimpleNamespace(name="fetch", type=kind, schema=schema, relation=relation, fills="raw.orders")
    states = {Relation("raw", "orders"): table} if table is not None else {}
    build: Any = SimpleNamespace(lake=lake, state=SimpleNamespace(states=states, externals={}))
    return NodeServices(build, "it", node)("last_result", {})  # type: ignore[arg-type]


def test_a_loader_remembers_what_filled_its_table_whichever_target_that_was() -> None:
    assert remembered([]) is None
    assert remembered([ran("prod", 1, {"cursor": 1}), ran("prod", 2, {"cursor": 2})]) == {"cursor": 2}
    assert remembered([ran("dev", 1, 1), ran("prod", 2, 2)]) == 2
    assert remembered([ran("dev", 3, 3), ran("prod", 2, 2)]) == 3
    # Another table is another memory.
    assert remembered([ran("dev", 1, 1), ran("prod", 2, 2, relation="prod_raw.orders")]) == 1


def test_what_did_nothing_leaves_what_is_known() -> None:
    before = ran("dev", 1, {"cursor": 1})
    later = [ran("dev", 2), ran("dev", 3, status="failed"), ran("dev", 4, status="skipped")]
    assert remembered([before, *later]) == {"cursor": 1}
    # A run that loaded rows and returned nothing has nothing to remember.
    assert remembered([before, ran("dev", 5, identical=False)]) is None


def test_a_task_remembers_its_own_target_alone() -> None:
    rows = [replace(ran("dev", 1, 1), node_type="task"), replace(ran("prod", 2, 2), node_type="task")]
    assert remembered(rows, kind="task") == 1


def filled(run_id: str, minutes: int, result: str | None, by: str = "fetch") -> TableState:
    """The loader's table after a run."""
    message = CommitIdentity(loader=by, run_id=run_id, loader_result=result or "")
    made_ms = int((NOW + timedelta(0, minutes)).timestamp() * 1000)
    return TableState("1", snapshot_id=1, identity=message, made_ms=made_ms)


def test_what_a_loader_committed_with_its_rows_is_what_it_remembers() -> None:
    loaded = ran("dev", 1, {"cursor": 1}, identical=False)
    # A run was killed between its commit and its history, or its history went to a state that nobody has any more.
    assert remembered([loaded], table=filled("r2", 2, '{"cursor": 2}')) == {"cursor": 2}
    assert remembered([], table=filled("r2", 2, '{"cursor": 2}')) == {"cursor": 2}
    assert remembered([loaded], table=filled("r2", 2, "null")) is None
    # Another build wrote its history after the killed one had committed.
    late = replace(loaded, ts=NOW + timedelta(0, 9))
    assert remembered([late], table=filled("r2", 2, '{"cursor": 2}')) == {"cursor": 2}
    # The table was rolled back, and its rows after that are to be loaded again.
    undone = ran("dev", 3, {"cursor": 3}, identical=False)
    assert remembered([undone], table=filled("r2", 2, '{"cursor": 2}')) == {"cursor": 2}
    # Another writer committed after the loader.
    foreign = filled("r2", 2, '{"cursor": 2}')
    foreign = replace(foreign, identity=CommitIdentity(), last_identity=foreign.identity, made_ms=None)
    assert remembered([loaded], table=foreign) == {"cursor": 2}


def test_what_a_loader_returned_without_rows_is_not_older_than_its_last_commit() -> None:
    moved = ran("dev", 3, {"cursor": 3}, identical=True)
    assert remembered([moved], table=filled("r2", 2, '{"cursor": 2}')) == {"cursor": 3}
    assert remembered([moved], table=filled("r4", 4, '{"cursor": 4}')) == {"cursor": 4}
    # Two runs in one second: the times of what they wrote tell.
    same = replace(moved, run_id="20240101_000000_aaaaaa")
    assert remembered([same], table=filled("20240101_000000_ffffff", 2, '{"cursor": 2}')) == {"cursor": 3}
    assert remembered([same], table=filled("20240101_000000_000000", 4, '{"cursor": 4}')) == {"cursor": 4}


def test_a_commit_that_does_not_say_what_was_returned_leaves_it_to_the_history() -> None:
    loaded = ran("dev", 1, {"cursor": 1}, identical=False)
    assert remembered([loaded], table=filled("r2", 2, None)) == {"cursor": 1}
    assert remembered([loaded], table=filled("r2", 2, '{"cursor": 2}', by="other")) == {"cursor": 1}


def test_a_run_that_ended_later_may_not_have_seen_the_rows() -> None:
    """It ran beside the one that loaded them, and found nothing new in what it saw."""
    table = filled("r2", 2, '{"cursor": 2}')
    beside = ran("dev", 4, {"cursor": 1}, identical=True, after="r1")
    first = ran("dev", 5, {"cursor": 0}, identical=True, after="")
    assert remembered([beside, first], table=table) == {"cursor": 2}
    upon = ran("dev", 3, {"cursor": 3}, identical=True, after="r2")
    assert remembered([beside, first, upon], table=table) == {"cursor": 3}


def test_what_was_written_down_before_the_rows_counts_once_their_commit_is_there() -> None:
    loaded = ran("dev", 1, {"cursor": 1}, identical=False)
    staged = ran("prod", 2, {"cursor": 2}, status=STAGED)
    # Before the commit, or where the build was killed before it, it is nothing.
    assert remembered([loaded, staged], table=filled("r1", 1, None)) == {"cursor": 1}
    assert remembered([loaded, staged]) == {"cursor": 1}
    assert remembered([loaded, staged], table=filled("r2", 2, None)) == {"cursor": 2}
    # A run that tried twice has committed what it returned last.
    again = replace(ran("prod", 3, {"cursor": 3}, status=STAGED), run_id="r2")
    assert remembered([staged, again], table=filled("r2", 3, None)) == {"cursor": 3}
    # A later run found nothing new, and moved on.
    upon = ran("dev", 4, {"cursor": 4}, identical=True, after="r2")
    assert remembered([staged, upon], table=filled("r2", 2, None)) == {"cursor": 4}
    # A commit that holds its result is asked first.
    assert remembered([staged], table=filled("r2", 2, '{"cursor": 9}')) == {"cursor": 9}
