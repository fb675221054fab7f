"""`exposures/*.yml`, and who is concerned."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.console.concerned import format_concerned
from sqb.console.style import Paint
from sqb.errors.base import SqbError, flatten
from sqb.inspect.concerned import find_concerned
from sqb.plan.model import Plan, PlannedNode, Reason
from sqb.workspace import Workspace, open_workspace
from unit.folders import write

FILES = {
    "seeds/orders.csv": "id,amount\n1,3.5\n",
    "models/staging/stg_orders.sql": "-- @owner: Ann Lee\nSELECT * FROM orders\n",
    "models/staging/shown.sql": "-- @kind: view\nSELECT * FROM stg_orders\n",
    "models/marts/revenue.sql": "MODEL (owner 'Ann Lee', group finance);\nSELECT sum(amount) AS r FROM stg_orders\n",
    "sources/raw.yml": "sources:\n  - name: raw.events\n    owner: Bob\n    group: ingest\n",
    "exposures/all.yml": """exposures:
  - name: board
    type: dashboard
    label: The board
    owner: {name: Ann, email: ann@example.com}
    url: https://example.com/board
    depends_on: [ref('shown'), "source('raw', 'events')"]
  - name: letter
    description: Every Monday
    owner: Bob
    depends_on:
      - marts.Revenue: [r]
""",
}


def open_files(root: Path, exposures: str | None = None) -> Workspace:
    return open_workspace(write(root, FILES if exposures is None else {**FILES, "exposures/all.yml": exposures}))


def test_exposures_are_linked(tmp_path: Path) -> None:
    project = open_files(tmp_path).project
    board, letter = project.exposures["board"], project.exposures["letter"]
    assert board.depends_on == ("staging.shown", "raw.events") and board.columns == {}
    assert (board.type, board.owner, board.url) == ("dashboard", "Ann <ann@example.com>", "https://example.com/board")
    assert letter.depends_on == ("marts.revenue",) and letter.columns == {"marts.revenue": ("r",)}
    assert (letter.type, letter.owner, letter.description) == ("exposure", "Bob", "Every Monday")
    assert (project.sources["raw.events"].owner, project.sources["raw.events"].group) == ("Bob", "ingest")
    # And so they are from the cache.
    again = open_workspace(tmp_path)
    assert again.from_cache and again.project.exposures == project.exposures


def test_owners_and_exposures_are_no_identity(tmp_path: Path) -> None:
    before = {n.name: n.local_hash for n in open_files(tmp_path).project}
    write(tmp_path, {"models/staging/stg_orders.sql": "SELECT * FROM orders\n", "exposures/all.yml": ""})
    after = open_workspace(tmp_path).project
    assert {n.name: n.local_hash for n in after} == before and not after.exposures


@pytest.mark.parametrize(
    ("text", "message", "hint", "place"),
    [
        ("depends_on: [stg_order]", 'nothing in the project is called "stg_order"', "did you mean 'stg_orders'", "5"),
        ("depends_on: stg_orders", '`depends_on` must be a list, not "stg_orders"', "write", "5"),
        ("depends_on: [[x]]", "each of `depends_on` is the name of a model or a source", "write", "5"),
        ("dependson: []", "unknown key `dependson` in an exposure", "did you mean 'depends_on'?", "5"),
        ("owner: {nme: x}", "unknown key `nme` in `owner`", "did you mean 'name'?", "5"),
        ("type: 7", "`type` must be text, not 7", "put it in quotes", "5"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str, hint: str, place: str) -> None:
    head = "exposures:\n  - name: a\n    depends_on: [revenue]\n  - name: b\n"
    with pytest.raises(SqbError) as caught:
        open_files(tmp_path, f"{head}    {text}\n")
    (error,) = flatten(caught.value)
    assert error.message == message and (error.hint or "").startswith(hint)
    assert str(error.at).startswith(f"exposures/all.yml:{place}:")


def test_two_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(SqbError) as caught:
        open_files(tmp_path, "exposures:\n  - name: a\n  - name: A\n")
    assert "is there twice; it is also at exposures/all.yml:2:11" in str(caught.value)


def plan_of(workspace: Workspace, *running: str) -> Plan:
    nodes = (
        PlannedNode(n.name, n.type, n.kind, n.relation, "run", "full", Reason.QUERY_CHANGED)
        for n in workspace.project
        if n.name in running
    )
    return Plan("dev", tuple(nodes))


def test_who_is_concerned(tmp_path: Path) -> None:
    workspace = open_files(tmp_path)
    concerned = find_concerned(workspace.project, plan_of(workspace, "staging.stg_orders", "marts.revenue"))
    assert list(format_concerned(concerned, Paint.plain())) == [
        "Concerned:",
        "  board (dashboard of Ann <ann@example.com>) reads staging.stg_orders",
        "  letter (exposure of Bob) reads marts.revenue",
        "  Ann Lee owns staging.stg_orders, marts.revenue",
        "  finance (group) has marts.revenue",
    ]
    assert concerned.to_data() == {
        "exposures": [
            {
                "name": "board",
                "type": "dashboard",
                "owner": "Ann <ann@example.com>",
                "url": "https://example.com/board",
                "reads": ["staging.stg_orders"],
            },
            {"name": "letter", "type": "exposure", "owner": "Bob", "url": None, "reads": ["marts.revenue"]},
        ],
        "owners": {"Ann Lee": ["staging.stg_orders", "marts.revenue"]},
        "groups": {"finance": ["marts.revenue"]},
    }
    assert not find_concerned(workspace.project, plan_of(workspace, "seeds.orders"))
    assert not find_concerned(workspace.project, plan_of(workspace))
