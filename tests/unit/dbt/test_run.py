"""What dbt is told to run, and what it tells of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sqb.dbt import run as running
from sqb.dbt.command import Dbt, DbtExit
from sqb.dbt.model import DbtPlan, DbtPlanned, DbtProject
from sqb.dbt.run import DbtRun, PassThrough, build_terms, is_same_sql, run_plan, split_nodes
from unit.dbt.small_project import node, project


def at(short: str, *folders: str) -> object:
    result = node(short)
    return replace(result, fqn=("shop", *folders, result.name), path=f"models/{result.name}.sql")


def test_a_name_that_is_also_a_folder_is_told_apart_by_its_file() -> None:
    items = [at("model.orders"), at("model.lines", "orders"), at("model.plain")]
    assert build_terms(items, project(items)) == [  # type: ignore[arg-type]
        "fqn:shop.orders,resource_type:model,file:orders.sql",
        "fqn:shop.orders.lines,resource_type:model",
        "fqn:shop.plain,resource_type:model",
    ]


def test_characters_that_mean_something_match_as_any() -> None:
    odd = replace(node("test.x"), fqn=("shop", "a b+c"))
    assert build_terms([odd], project([odd])) == ["fqn:shop.a?b?c,resource_type:test"]


def test_long_selections_go_in_chunks_in_their_order() -> None:
    nodes = [node(f"model.m{number:03}") for number in range(100)]
    chunks = list(split_nodes(nodes, project(nodes), longest=1000))
    assert len(chunks) > 2
    assert [n for chunk in chunks for n in chunk.nodes] == nodes
    assert all(sum(len(word) + 1 for word in chunk.selection[1:-2]) <= 1000 for chunk in chunks)


class FakeDbt:
    """Stands for the command: notes its selections, and writes results."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dbt: Dbt, bad: dict[str, str], known: DbtProject) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.dbt, self.bad, self.known = dbt, bad, known
        monkeypatch.setattr(running, "stream_dbt", self)

    def __call__(self, dbt: Dbt, verb: str, *words: str, out: object = None) -> DbtExit:
        self.calls.append(words)
        terms = [w for w in words if w.startswith("fqn:")]
        names = [n for n in self.known.nodes.values() if not terms or build_terms([n], self.known)[0] in terms]
        results = [
            {"unique_id": n.unique_id, "status": self.bad.get(n.unique_id, "pass" if n.is_test else "success")}
            for n in names
        ]
        document = {"metadata": {"invocation_id": str(len(self.calls))}, "results": results}
        dbt.run_results.write_text(json.dumps(document))
        return DbtExit(1 if self.bad else 0)


def _run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bad: dict[str, str], longest: int = 1
) -> tuple[FakeDbt, DbtRun]:
    nodes = [
        node("model.a"),
        node("test.t", "model.a"),
        node("model.b", "model.a"),
        node("model.c", "model.b"),
        node("model.d"),
    ]
    known = project(nodes)
    dbt = Dbt(tmp_path, ("dbt",), tmp_path, None, tmp_path)
    fake = FakeDbt(monkeypatch, dbt, bad, known)
    monkeypatch.setattr(running, "_MAX_LENGTH", longest)
    monkeypatch.setattr(running.split_nodes, "__defaults__", (longest,))
    skipped = DbtPlanned("model.shop.d", "model", "skip", "no change")
    plan = DbtPlan((*(DbtPlanned(n.unique_id, n.resource_type, "run", "first run") for n in nodes[:4]), skipped))
    return fake, run_plan(dbt, known, plan, PassThrough("build", ()))


def test_what_failed_in_one_command_is_not_built_upon_in_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake, run = _run(monkeypatch, tmp_path, {"test.shop.t": "fail"})
    assert len(fake.calls) == 2
    assert run.results["model.shop.a"].ok and run.results["test.shop.t"].failed
    assert run.results["model.shop.b"].status == run.results["model.shop.c"].status == "skipped"


def test_all_in_one_command_where_there_is_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake, run = _run(monkeypatch, tmp_path, {}, 100_000)
    assert (len(fake.calls), run.commands, run.code) == (1, 1, 0)
    assert run.succeeded == ("model.shop.a", "test.shop.t", "model.shop.b", "model.shop.c")


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [
        ("select a from t", "SELECT  a -- b\nFROM t", True),
        ("select a from t", "select b from t", False),
        ("select 'a  b' as x", "select 'a b' as x", False),
        ("select a from t; select b", "select a from t;  select b", True),
        ("select a from t; select b", "select a from t; select c", False),
    ],
)
def test_compiled_sql_is_compared_by_what_it_means(then: str, now: str, same: bool) -> None:
    assert is_same_sql(then, now) is same
