"""What a Python node remembers of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from sqb.build.python_services import Services
from sqb.lake.state import NODE_RESULTS, NodeResult
from sqb.names import Relation

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def ran(schema: str, minutes: int, payload: Any = None, status: str = "ok", **said: Any) -> NodeResult:
    metadata = json.dumps({"relation": "raw.orders", "identical": payload is None, **said})
    text = "" if payload is None else json.dumps(payload)
    return NodeResult("loader", "fetch", schema, f"r{minutes}", status, text, metadata, "", NOW + timedelta(0, minutes))


def remembered(rows: Iterable[NodeResult], schema: str = "dev", kind: str = "loader") -> Any:
    """What `ctx.last_result` is in a target."""
    rows = list(rows)

    def node_results(schemas: Iterable[str], node_name: str) -> list[NodeResult]:
        found = [r for r in rows if r.target_schema in schemas and r.node_name == node_name]
        return sorted(found, key=lambda r: r.ts, reverse=True)

    pointers = {Relation(r.target_schema, NODE_RESULTS.name): None for r in rows}
    lake = SimpleNamespace(pointers=lambda: pointers, node_results=node_results)
    relation = Relation("raw", "orders") if kind == "loader" else None
    node = SimpleNamespace(name="fetch", type=kind, schema=schema, relation=relation)
    build: Any = SimpleNamespace(lake=lake)
    return Services(build, "it", node)("last_result", {})  # type: ignore[arg-type]


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
