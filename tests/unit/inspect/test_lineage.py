"""Columns across a project, and what is said of those that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sqb.compile.model import Project
from sqb.console.inspect.lineage import format_lineage, format_mermaid
from sqb.console.style import Paint
from sqb.errors.call import BadSelector
from sqb.inspect.lineage import Focus, LineageGraph, find_focus, trace_project
from sqb.operations.inspect.lineage import Lineage
from sqb.workspace import open_workspace
from unit.folders import write

FILES = {
    "seeds/people.csv": "id,name\n1,Ada\n",
    "models/staging/orders.sql": "SELECT id, customer, price * 2 AS total FROM raw.orders WHERE state = 'ok'",
    "models/staging/everything.sql": "-- @kind: view\nSELECT * FROM raw.orders",
    "models/marts/names.sql": "SELECT o.id, p.name FROM staging.orders o JOIN people p ON p.id = o.customer",
    "models/marts/sums.sql": "SELECT max(total), customer FROM staging.orders GROUP BY customer",
    "models/marts/pivoted.sql": "SELECT * FROM staging.orders PIVOT (sum(total) FOR customer IN (1, 2))",
    "models/marts/history.sql": "-- @kind: scd2\n-- @unique_key: id\nSELECT id FROM everything",
}
RAW = ("id", "customer", "price", "state")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return open_workspace(write(tmp_path, FILES)).project


def known(name: str) -> Sequence[str] | None:
    return {"raw.orders": RAW, "marts.sums": ("max(total)", "customer"), "marts.pivoted": ("id", "1", "2")}.get(name)


def nothing(name: str) -> Sequence[str] | None:
    return None


def lines(graph: LineageGraph, focus: Focus) -> list[str]:
    paint = Paint()
    paint.enabled = False
    return list(format_lineage(Lineage(graph, focus), paint))


def test_columns_of_models(project: Project) -> None:
    tables = trace_project(project, known).tables
    assert next(iter(tables)) == "raw.orders"
    assert tables["staging.orders"].columns == {
        "id": (("raw.orders", "id"),),
        "customer": (("raw.orders", "customer"),),
        "total": (("raw.orders", "price"),),
    }
    assert tables["staging.orders"].rows_from == (("raw.orders", "state"),)
    assert tables["staging.everything"].columns == {name: (("raw.orders", name),) for name in RAW}
    assert tables["marts.names"].columns["name"] == (("seeds.people", "name"),)
    assert tables["marts.sums"].columns == {
        "max(total)": (("staging.orders", "total"),),
        "customer": (("staging.orders", "customer"),),
    }
    assert list(tables["marts.history"].columns) == ["id", "valid_from", "valid_to", "is_current"]


def test_columns_that_nobody_knows(project: Project) -> None:
    tables = trace_project(project, nothing).tables
    assert tables["raw.orders"].unknown == "its columns are not known: it is not in the catalog"
    assert tables["staging.everything"].columns == {}
    assert tables["staging.everything"].unknown == "the columns of raw.orders are not known"
    assert tables["staging.orders"].columns["total"] == (("raw.orders", "price"),)
    assert list(tables["marts.sums"].columns) == ["MAX(total)", "customer"]
    pivoted = trace_project(project, known).tables["marts.pivoted"]
    assert (list(pivoted.columns), pivoted.unknown) == (["id", "1", "2"], "PIVOT is not followed")


def test_only_what_is_wanted_and_above_it_is_looked_at(project: Project) -> None:
    assert list(trace_project(project, known, ["marts.history"]).tables) == [
        "raw.orders",
        "staging.everything",
        "marts.history",
    ]


@pytest.mark.parametrize(
    ("text", "focus"),
    [
        (None, Focus()),
        ("orders", None),
        ("staging.orders", Focus("staging.orders")),
        ("raw.orders", Focus("raw.orders")),
        ("STAGING.Orders.Total", Focus("staging.orders", "total")),
        ("names.name", Focus("marts.names", "name")),
        ("people", Focus("seeds.people")),
        ("people.id", Focus("seeds.people", "id")),
        ("raw.orders.state", Focus("raw.orders", "state")),
    ],
)
def test_names(project: Project, text: str | None, focus: Focus | None) -> None:
    def table(name: str):  # type: ignore[no-untyped-def]
        return trace_project(project, known, [name]).tables[name]

    if focus is None:
        with pytest.raises(BadSelector) as caught:
            find_focus(text, project, table)
        assert caught.value.message == '"orders" could be raw.orders, staging.orders'
    else:
        assert find_focus(text, project, table) == focus


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("nmaes", 'nothing is called "nmaes"', "did you mean 'names'"),
        ("zzz", 'nothing is called "zzz"', "write a model, seed or source"),
        ("names.nmae", 'marts.names has no column "nmae"', "did you mean 'name'?"),
        ("names.zzz", 'marts.names has no column "zzz"', "columns: id, name"),
        (
            "pivoted.zzz",
            'marts.pivoted has no column "zzz": PIVOT is not followed',
            "columns: id, 1, 2",
        ),
    ],
)
def test_names_that_mean_nothing(project: Project, text: str, message: str, hint: str) -> None:
    with pytest.raises(BadSelector) as caught:
        find_focus(text, project, lambda name: trace_project(project, known, [name]).tables[name])
    assert caught.value.message == message and hint in (caught.value.hint or "")


def test_a_column_as_a_tree(project: Project) -> None:
    graph = trace_project(project, known)
    assert lines(graph, Focus("marts.names", "name")) == [
        "marts.names.name",
        "up",
        "└─ seeds.people.name",
        "the rows of marts.names are chosen, joined or grouped by seeds.people.id, staging.orders.customer",
    ]
    assert lines(graph, Focus("raw.orders", "customer")) == [
        "raw.orders.customer",
        "down",
        "├─ staging.everything.customer",
        "└─ staging.orders.customer",
        "   ├─ marts.names (which rows it has)",
        "   ├─ marts.sums.customer",
        "   └─ marts.sums (which rows it has)",
    ]


def test_a_table_as_a_tree(project: Project) -> None:
    assert lines(trace_project(project, known), Focus("staging.orders")) == [
        "staging.orders (table)",
        "up",
        "└─ raw.orders (source)",
        "down",
        "├─ marts.names (table)",
        "├─ marts.pivoted (table)",
        "└─ marts.sums (table)",
        "columns",
        "   id       ← raw.orders.id",
        "   customer ← raw.orders.customer",
        "   total    ← raw.orders.price",
        "rows chosen, joined or grouped by raw.orders.state",
    ]


def test_the_project_as_a_tree(project: Project) -> None:
    assert lines(trace_project(project, known), Focus()) == [
        "raw.orders (source)",
        "├─ staging.everything (view)",
        "│  └─ marts.history (scd2)",
        "└─ staging.orders (table)",
        "   ├─ marts.names (table)",
        "   ├─ marts.pivoted (table)",
        "   └─ marts.sums (table)",
        "seeds.people (seed)",
        "└─ marts.names (table)",
    ]


def test_a_chain_longer_than_calls_can_be_nested(tmp_path: Path) -> None:
    files = {f"models/m/m{i}.sql": f"SELECT id FROM {f'm{i - 1}' if i else 'raw.x'}" for i in range(1200)}
    graph = trace_project(open_workspace(write(tmp_path, files)).project, nothing)
    assert len(lines(graph, Focus("raw.x"))) == len(lines(graph, Focus())) + 2
    assert lines(graph, Focus("m.m1199", "id"))[-1].strip() == (
        "not all is known of raw.x: its columns are not known: it is not in the catalog"
    )


def test_documents(project: Project) -> None:
    graph = trace_project(project, known)
    data = Lineage(graph, Focus("staging.orders", "total")).to_data()
    assert data["focus"] == {"node": "staging.orders", "column": "total"}
    assert [(n["name"], [c["name"] for c in n["columns"]]) for n in data["nodes"]] == [
        ("raw.orders", ["price"]),
        ("staging.orders", ["total"]),
        ("marts.sums", ["max(total)"]),
    ]
    assert data["nodes"][1]["columns"][0]["from"] == [{"node": "raw.orders", "column": "price"}]
    assert data["nodes"][1]["rows_from"] == [{"node": "raw.orders", "column": "state"}]
    whole = Lineage(graph, Focus()).to_data()
    assert whole["focus"] is None and len(whole["nodes"]) == len(graph.tables)
    assert [n["name"] for n in Lineage(graph, Focus("marts.history")).to_data()["nodes"]] == [
        "raw.orders",
        "staging.everything",
        "marts.history",
    ]


def test_diagrams(project: Project) -> None:
    graph = trace_project(project, known)
    assert list(format_mermaid(Lineage(graph, Focus("marts.history")))) == [
        "flowchart LR",
        '  n0["raw.orders (source)"]',
        '  n1["staging.everything (view)"]',
        '  n2["marts.history (scd2)"]',
        "  n0 --> n1",
        "  n1 --> n2",
    ]
    assert list(format_mermaid(Lineage(graph, Focus("seeds.people", "id")))) == [
        "flowchart LR",
        '  subgraph n0["seeds.people (seed)"]',
        '    n0c0["id"]',
        "  end",
        '  subgraph n1["marts.names (table)"]',
        "  end",
        "  n0c0 -.-> n1",
    ]
