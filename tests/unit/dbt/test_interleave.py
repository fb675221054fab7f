"""Where dbt and sqb read each other: turns, circles, and what is held back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sqb.compile.model import Project
from sqb.dbt.interleave import Border, Phase, exclude_nodes, find_blocked, find_border, merge_dbt_plan, plan_phases
from sqb.dbt.model import DbtPlan, DbtPlanned, DbtProject, DbtSource
from sqb.dbt.project.cache import ProjectInputs, SummaryOrigin, write_summary
from sqb.errors.dbt import CycleAcrossDbt
from sqb.names import Relation
from sqb.plan.model import Plan, PlannedNode, Reason
from sqb.workspace import open_workspace
from unit.dbt.small_project import node, project
from unit.folders import TOML, write

RATES = "source.shop.sqb.rates"
BACK = "source.shop.sqb.back"
ORIGIN = SummaryOrigin((), (), ProjectInputs((), {}, {}, {}, 0))


def dbt_project(*extra: str) -> DbtProject:
    """`first` reads nothing, `second` reads what sqb made of `first`, `rated` reads what sqb made of nothing."""
    nodes = [node("model.first", *extra), node("model.second", BACK), node("model.rated", RATES)]
    sources = {
        RATES: DbtSource(RATES, "sqb.rates", Relation("marts", "rates")),
        BACK: DbtSource(BACK, "sqb.back", Relation("marts", "back")),
    }
    return replace(project(nodes), sources=sources)


def sqb_project(root: Path, dbt: DbtProject) -> Project:
    write_summary(root, ORIGIN, dbt)
    write(
        root,
        {
            "sqlbuild_project.toml": TOML + '[dbt]\nproject_dir = "dbt"\n',
            "models/marts/rates.sql": "SELECT 1 AS rate",
            "models/marts/back.sql": 'SELECT id FROM __dbt_ref("first")',
            "models/marts/end.sql": 'SELECT id FROM __dbt_ref("second")',
            "models/marts/last.sql": "SELECT id FROM marts.end",
            "models/marts/alone.sql": "SELECT 2 AS two",
        },
    )
    return open_workspace(root).project


def all_of(dbt: DbtProject) -> list[str]:
    return list(dbt.nodes)


def test_the_border_is_told_by_relations(tmp_path: Path) -> None:
    dbt = dbt_project()
    border = find_border(sqb_project(tmp_path, dbt), dbt, "lake")
    assert border.from_dbt == {"model.shop.first": "model.shop.first", "model.shop.second": "model.shop.second"}
    assert border.from_sqb == {RATES: "marts.rates", BACK: "marts.back"}


def test_both_take_turns(tmp_path: Path) -> None:
    dbt = dbt_project()
    own = sqb_project(tmp_path, dbt)
    assert plan_phases(own, dbt, find_border(own, dbt, "lake"), all_of(dbt)) == [
        Phase("sqb", frozenset({"marts.rates"})),
        Phase("dbt", frozenset({"model.shop.first", "model.shop.rated"})),
        Phase("sqb", frozenset({"marts.back"})),
        Phase("dbt", frozenset({"model.shop.second"})),
        Phase("sqb", frozenset({"marts.end", "marts.last"})),
    ]


def test_only_what_stands_around_the_selection_takes_part(tmp_path: Path) -> None:
    dbt = dbt_project()
    own = sqb_project(tmp_path, dbt)
    border = find_border(own, dbt, "lake")
    assert plan_phases(own, dbt, border, ["model.shop.rated"]) == [
        Phase("sqb", frozenset({"marts.rates"})),
        Phase("dbt", frozenset({"model.shop.rated"})),
    ]


def test_a_circle_is_an_error_that_shows_it(tmp_path: Path) -> None:
    dbt = dbt_project(BACK)
    own = sqb_project(tmp_path, dbt)
    with pytest.raises(CycleAcrossDbt, match=r"model\.shop\.first") as caught:
        plan_phases(own, dbt, find_border(own, dbt, "lake"), all_of(dbt))
    assert "marts.back" in caught.value.message


def test_what_reads_a_model_that_was_not_built_is_held_back_with_all_below(tmp_path: Path) -> None:
    dbt = dbt_project()
    own = sqb_project(tmp_path, dbt)
    held = find_blocked(own, find_border(own, dbt, "lake"), {"model.shop.second": "failed"})
    assert held == {"marts.end": "model.shop.second failed", "marts.last": "model.shop.second failed"}
    left = exclude_nodes(own, held, {"model.shop.second"})
    assert set(left.nodes) == {"marts.rates", "marts.back", "marts.alone"}
    assert set(left.externals) == {"model.shop.first"}


def test_a_plan_says_what_dbt_will_do_to_it(tmp_path: Path) -> None:
    dbt = dbt_project()
    own = sqb_project(tmp_path, dbt)
    border = Border({"model.shop.first": "model.shop.first", "model.shop.second": "model.shop.second"})
    nodes = [
        PlannedNode(n.name, n.type, n.kind, n.relation, "skip", "skip", Reason.NORMAL, upstream=n.after) for n in own
    ]
    planned = DbtPlan(
        (
            DbtPlanned("model.shop.first", "model", "run", "checksum changed"),
            DbtPlanned("model.shop.second", "model", "blocked", "source_freshness_error"),
        )
    )
    by_name = {n.name: n for n in merge_dbt_plan(Plan("dev", tuple(nodes)), own, border, planned).nodes}
    assert (by_name["marts.back"].action, by_name["marts.back"].reason) == ("run", Reason.UPSTREAM_CHANGED)
    assert by_name["marts.back"].pending and by_name["marts.back"].detail.startswith("model.shop.first runs")
    assert by_name["marts.end"].action == by_name["marts.last"].action == "blocked"
    assert by_name["marts.alone"].action == "skip"
