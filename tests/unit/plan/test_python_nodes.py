"""Which Python nodes run, and what stands below them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqb.compile.model import Project
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Plan
from sqb.plan.observed import Observed, RelationState
from unit.plan.worlds import built, changed, node, project, python, ran, source, version

WORLD = project(
    python("fetch", "loader", fills="raw.orders"),
    node("staging.orders", "raw.orders"),
    node("marts.daily", "staging.orders"),
    node("marts.people", "raw.people"),
    python("quality", "check", "marts.daily"),
    python("publish", "asset", "marts.daily", "quality"),
    python("notify", "task", "publish"),
    python("mail", "task", "marts.people"),
    python("ping", "task"),
    externals=("raw.orders", "raw.people"),
)
SOURCES = {Relation("raw", "orders"): source(1), Relation("raw", "people"): source(2)}
STANDING = built(WORLD, SOURCES)
RAN = ran(WORLD, STANDING)


def planned(
    world: Project = WORLD,
    relations: dict[Relation, RelationState] = STANDING,
    options: Options = Options(),
    **more: object,
) -> Plan:
    return make_plan(world, Observed(relations, python={**RAN, **more}), options)  # type: ignore[arg-type]


def decisions(plan: Plan) -> dict[str, tuple[str, str, bool]]:
    return {n.name: (n.action, str(n.reason), n.pending) for n in plan.nodes}


def test_loaders_run_and_what_they_feed_waits_for_them() -> None:
    assert decisions(planned()) == {
        "fetch": ("run", "Every build", False),
        "staging.orders": ("run", "Upstream changed", True),
        "marts.daily": ("run", "Upstream changed", True),
        "marts.people": ("skip", "Normal", False),
        "quality": ("run", "Upstream changed", True),
        "publish": ("run", "Upstream changed", True),
        "notify": ("run", "Upstream changed", True),
        "mail": ("skip", "Normal", False),
        "ping": ("run", "Every build", False),
    }


def test_a_model_waits_for_the_loader_of_its_source() -> None:
    by_name = {n.name: n for n in planned().nodes}
    assert by_name["staging.orders"].upstream == ("raw.orders", "fetch")
    assert by_name["staging.orders"].detail == "fetch runs; if its output changes"
    assert [(r.name, r.reason) for r in by_name["marts.daily"].root] == [("fetch", "Every build")]
    assert [(r.name, r.reason) for r in by_name["notify"].root] == [("fetch", "Every build")]


def test_without_loaders_everything_below_unchanged_models_is_pruned() -> None:
    names = ("marts.people", "mail")
    plan = planned(options=Options(selected=frozenset(names)))
    assert decisions(plan) == dict.fromkeys(names, ("skip", "Normal", False))


def test_first_run() -> None:
    decided = decisions(make_plan(WORLD, Observed({})))
    assert {v for name, v in decided.items() if name in WORLD.python} == {("run", "First run", False)}


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        ({"source_hash": "mail t", "local_hash": "x"}, "Code changed", "source mail s → mail t"),
        ({"dependencies": {"python/mail.py": "n"}, "local_hash": "x"}, "Code changed", "python/mail.py"),
        (
            {"dependencies": {"python/mail.py": "m", "python/helpers.py": "1"}, "local_hash": "x"},
            "Code changed",
            "python/helpers.py",
        ),
        ({"dependencies": {}, "local_hash": "x"}, "Code changed", "python/mail.py"),
        ({"config_hash": "d", "local_hash": "x"}, "Config changed", "c → d"),
    ],
)
def test_a_node_that_is_another_one_runs(changes: dict[str, object], reason: str, detail: str) -> None:
    mail = replace(WORLD.python["mail"], **changes)  # type: ignore[arg-type]
    world = replace(WORLD, python={**WORLD.python, "mail": mail})
    match = next(n for n in planned(world).nodes if n.name == "mail")
    assert (match.action, str(match.reason), match.detail, match.pending) == ("run", reason, detail, False)


def test_a_task_that_missed_a_build_of_its_model_runs() -> None:
    moved = changed(STANDING, "marts.people", version=version(900))
    match = next(n for n in planned(relations=moved).nodes if n.name == "mail")
    assert (match.action, str(match.reason)) == ("run", "Upstream changed")
    assert match.detail == "marts.people changed since its last run"


def test_a_task_that_missed_a_run_of_another_runs() -> None:
    selected = Options(selected=frozenset({"notify"}))
    entry = planned(options=selected, publish=replace(RAN["publish"], run_id="run 2")).nodes[0]
    assert (entry.action, str(entry.reason), entry.detail) == ("run", "Upstream changed", "publish has run since")


def test_what_is_not_built_and_not_selected_blocks() -> None:
    gone = {r: s for r, s in STANDING.items() if r.name != "people" or r.schema != "marts"}
    entry = planned(relations=gone, options=Options(selected=frozenset({"mail"}))).nodes[0]
    assert (entry.action, str(entry.reason)) == ("blocked", "Upstream missing")


def test_forced() -> None:
    decided = decisions(planned(options=Options(force=True)))
    assert {v for name, v in decided.items() if name in WORLD.python} == {("run", "Forced", False)}


def test_a_loader_behind_a_view_is_waited_for() -> None:
    world = project(
        python("fetch", "loader", fills="raw.orders"),
        node("staging.orders", "raw.orders", kind="view"),
        node("marts.daily", "staging.orders"),
        externals=("raw.orders",),
    )
    current = built(world, {Relation("raw", "orders"): source(1)})
    by_name = {n.name: n for n in make_plan(world, Observed(current, python=ran(world, current))).nodes}
    assert by_name["staging.orders"].action == "run" and by_name["staging.orders"].pending
    assert by_name["marts.daily"].upstream == ("staging.orders", "fetch")
    assert by_name["marts.daily"].pending


def test_a_plan_with_python_nodes_is_data() -> None:
    plan = planned()
    assert Plan.from_json(plan.to_json()) == plan
    assert {n["name"]: n["relation"] for n in plan.to_data()["nodes"] if n["type"] in ("loader", "task")} == {
        "fetch": "raw.orders",
        "notify": None,
        "mail": None,
        "ping": None,
    }


def test_a_target_whose_loaders_are_off_leaves_sources_as_they_are() -> None:
    plan = planned(replace(WORLD, loads=False))
    loaders = [n for n in plan.nodes if n.type == "loader"]
    assert loaders and {(n.action, n.detail) for n in loaders} == {("skip", f"loaders are off in {WORLD.target}")}
