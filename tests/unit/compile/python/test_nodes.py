"""Python nodes as part of a project: what they name, what is wrong with it, and the one order of everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.cache import codec
from sqb.compile.model import Project
from sqb.errors.base import SqbError, flatten
from sqb.workspace import open_workspace

PROJECT = {
    "sqlbuild_project.toml": 'name = "shop"\n[vars]\nlimit = 3\n',
    "models/staging/orders.sql": "SELECT * FROM raw.orders",
    "models/marts/daily.sql": "SELECT * FROM orders",
    "seeds/people.csv": "id\n1\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in {**PROJECT, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def problems(root: Path) -> list[tuple[str, str, str]]:
    with pytest.raises(SqbError) as caught:
        open_workspace(root)
    return [(e.code, str(e.at), e.message) for e in flatten(caught.value)]


def test_everything_stands_after_what_it_needs(tmp_path: Path) -> None:
    code = """
from sqb import asset, check, loader, model, on_run_end, task

@loader(source="raw.orders", mode="upsert", key="id", timeout="10m", retries=2)
def fetch(ctx): ...

@check(depends_on="daily", severity="warn")
def fine(ctx): ...

@asset(depends_on=["marts.daily", fine, "seed:people"])
def report(ctx): ...

@task(depends_on="raw.orders", tags=["late"])
def tell(ctx): ...

@on_run_end
def bye(ctx): ...
"""
    models = """
from sqb import model

@model(kind="merge", unique_key="id")
def scores(ctx):
    return ctx.ref("daily")
"""
    root = write(tmp_path, {"python/shop.py": code, "python/models/marts/scores.py": models})
    project = open_workspace(root).project
    order = project.order
    assert set(order) == {*project.nodes, "fetch", "fine", "report", "tell"}
    edges = project.list_edges()
    assert edges["staging.orders"] == ("raw.orders", "fetch") and edges["tell"] == ("raw.orders", "fetch")
    assert all(order.index(u) < order.index(name) for name in order for u in edges[name] if u in order)
    assert edges["report"] == ("fine", "marts.daily", "seeds.people")
    fetch = project.python["fetch"]
    assert (fetch.kind, fetch.settings["timeout"], fetch.settings["retries"], fetch.settings["key"]) == (
        "upsert",
        600.0,
        2,
        ["id"],
    )
    assert project.sources["raw.orders"].managed and project.loaders == {"raw.orders": "fetch"}
    assert project.python["bye"].type == "hook" and "bye" not in project.graph
    assert project.nodes["marts.scores"].upstream == ("marts.daily",) and project.variables == {"limit": 3}
    remaining = codec.encode(project)
    again = codec.decode(Project, remaining)
    assert codec.encode(again) == remaining and again.python == project.python
    assert open_workspace(root).from_cache


def test_all_wrong_names_at_once(tmp_path: Path) -> None:
    code = """from sqb import check, loader, on_failure, task

@loader(source="staging.orders")
def one(ctx): ...

@loader(source="orders")
def two(ctx): ...

@task(depends_on=["dayly", "asset:two", "three", "hook"])
def three(ctx): ...

@on_failure
def hook(ctx): ...

@check(depends_on="raw.orders")
def four(ctx):
    return ctx.changes("raw.orders")
"""
    messages = problems(write(tmp_path, {"python/shop.py": code}))
    assert messages == [
        (
            "SQB-R001",
            "python/shop.py:3:16",
            '"staging.orders" is built by the project (models/staging/orders.sql), so that no loader can fill it',
        ),
        ("SQB-R006", "python/shop.py:6:16", '"orders" is not the name of a table that a loader could fill'),
        ("SQB-R002", "python/shop.py:9:18", 'no node or source is called "dayly"'),
        ("SQB-R002", "python/shop.py:9:18", 'no node or source is called "asset:two"'),
        ("SQB-R002", "python/shop.py:9:18", "three cannot depend on itself"),
        ("SQB-R002", "python/shop.py:9:18", "three cannot depend on the hook hook"),
        ("SQB-P006", "python/shop.py:17:24", "a check cannot follow changes"),
    ]


def test_circles_through_loaders(tmp_path: Path) -> None:
    code = """from sqb import loader

@loader(source="raw.orders", depends_on="daily")
def fetch(ctx): ...
"""
    ((number, at, message),) = problems(write(tmp_path, {"python/shop.py": code}))
    assert (number, at) == ("SQB-R004", "python/shop.py:4:5")
    assert message == "nodes wait for each other in a circle: fetch → marts.daily → staging.orders → fetch"
