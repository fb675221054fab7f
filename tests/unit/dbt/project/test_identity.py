"""What changes the identity of which nodes, on a manifest that dbt 1.11 wrote."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqb.dbt.project.context import DbtContext
from sqb.dbt.project.identity import list_changed_parts
from sqb.dbt.project.manifest import build_project

MANIFEST = json.loads((Path(__file__).parent.parent / "manifest.json").read_text())
CONTEXT = DbtContext({"low": (5,), "high": (9,), "rate": (2,)}, {"REGION": "eu"}, "dev")
Edit = Callable[[dict[str, Any]], object]


def _changed(edit: Edit, context: DbtContext = CONTEXT) -> dict[str, str]:
    """The nodes that are other ones after an edit of the manifest, and in which parts."""
    manifest = copy.deepcopy(MANIFEST)
    edit(manifest)
    before, after = build_project(MANIFEST, CONTEXT).nodes, build_project(manifest, context).nodes
    return {
        i.replace(".shop.", ".", 1): " ".join(list_changed_parts(before[i].parts, after[i].parts))
        for i in before
        if before[i].identity != after[i].identity
    }


def _code(unique_id: str, old: str, new: str) -> Edit:
    def edit(manifest: dict[str, Any]) -> None:
        node = manifest["nodes"][unique_id]
        assert old in node["raw_code"]
        node["raw_code"] = node["raw_code"].replace(old, new)

    return edit


def _macro(unique_id: str, old: str, new: str) -> Edit:
    def edit(manifest: dict[str, Any]) -> None:
        macro = manifest["macros"][unique_id]
        assert old in macro["macro_sql"]
        macro["macro_sql"] = macro["macro_sql"].replace(old, new)

    return edit


def _set(unique_id: str, key: str, value: object) -> Edit:
    return lambda manifest: manifest["nodes"][unique_id]["config"].update({key: value})


BUILT = [
    *("model.money.rates", "model.stg_orders", "model.ver.v1", "seed.raw_people", "model.log"),
    *("snapshot.snap", "model.totals", "model.ver.v2", "model.py"),
]
# Its name is part of nothing, the ephemeral model's code part of those that read it.
EPHEMERAL = {"model.totals": "reads"}


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (lambda m: None, {}),
        (_code("model.shop.stg_orders", "-- comment", "-- another comment"), {}),
        (_code("model.shop.stg_orders", "tags=['x'], ", ""), {}),
        (_code("model.shop.stg_orders", "id >", "id >="), {"model.stg_orders": "code"}),
        (_code("model.shop.eph", "id <", "id <="), {"model.eph": "code", **EPHEMERAL}),
        (_code("model.shop.py", "session", "spark"), {"model.py": "code"}),
        (_code("test.shop.no_negative", "< 0", "< 1"), {"test.no_negative": "code"}),
        (_macro("macro.shop.cents", "100", "1000"), {"model.stg_orders": "macros"}),
        (_macro("macro.shop.cents", "* 100", "*  100"), {}),
        # Called by another macro, and by a model of the package.
        (_macro("macro.money.rated", "*", "+"), {"model.stg_orders": "macros", "model.money.rates": "macros"}),
        (_macro("macro.money.rated", "{% macro", "{# x #}{% macro"), {}),
        (_macro("macro.shop.grant_it", "1", "2"), {"model.stg_orders": "macros"}),
        (_macro("macro.shop.test_positive", "< 0", "< 1"), {"test.positive_totals_id.14d27bd6ef": "macros"}),
        # Names of relations are compared themselves.
        (_macro("macro.shop.generate_schema_name", "_", "__"), {}),
        (_macro("macro.shop.spark__create_table_as", "temporary", "temp"), dict.fromkeys(BUILT, "runtime")),
        (_set("model.shop.log", "unique_key", "other"), {"model.log": "config"}),
        (_set("model.shop.log", "tags", ["new"]), {}),
        (_set("model.shop.log", "meta", {"owner": "me"}), {}),
        (_set("model.shop.log", "grants", {"select": ["bob"]}), {"model.log": "config"}),
        (_set("model.shop.log", "a_new_setting_of_dbt", None), {}),
        (_set("model.shop.stg_orders", "post-hook", []), {"model.stg_orders": "config"}),
        (
            _set("test.shop.unique_totals_id.08abf1f647", "severity", "warn"),
            {"test.unique_totals_id.08abf1f647": "config"},
        ),
        (lambda m: m["nodes"]["model.shop.totals"].update(description="other words"), {}),
        (
            lambda m: m["nodes"]["seed.shop.raw_people"]["checksum"].update(checksum="other"),
            {"seed.raw_people": "code"},
        ),
        (
            lambda m: m["unit_tests"]["unit_test.shop.totals.ut"].update(checksum="other"),
            {"unit_test.totals.ut": "code"},
        ),
        (
            lambda m: m["sources"]["source.shop.raw.orders"].update(relation_name="other.orders"),
            {"model.stg_orders": "reads", "test.source_not_null_raw_orders_id.f232a64478": "reads"},
        ),
        # A newer dbt is no change for those who use none of its SQL.
        (lambda m: m["metadata"].update(dbt_version="1.11.17"), {}),
    ],
)
def test_what_changes_whom(edit: Edit, changed: dict[str, str]) -> None:
    assert _changed(edit) == changed


@pytest.mark.parametrize(
    ("context", "changed"),
    [
        (replace(CONTEXT, variables={**CONTEXT.variables, "low": (6,)}), {"model.stg_orders": "vars"}),
        (replace(CONTEXT, variables={**CONTEXT.variables, "high": (8,)}), {"model.eph": "vars", **EPHEMERAL}),
        (
            replace(CONTEXT, variables={**CONTEXT.variables, "rate": (3,)}),
            {"model.stg_orders": "vars", "model.money.rates": "vars"},
        ),
        (replace(CONTEXT, variables={**CONTEXT.variables, "nobody": (1,)}), {}),
        (replace(CONTEXT, environment={"REGION": "us"}), {"model.eph": "vars", **EPHEMERAL}),
        # The macro `tail`, which `cents` calls, looks at the target.
        (replace(CONTEXT, target="prod"), {"model.stg_orders": "vars"}),
    ],
)
def test_what_is_asked_for_changes_those_who_ask(context: DbtContext, changed: dict[str, str]) -> None:
    assert _changed(lambda m: None, context) == changed


def test_a_variable_whose_name_is_made_up_may_be_any() -> None:
    edit = _code("model.shop.totals", "count(*)", "{{ var(name) }}")
    manifest = copy.deepcopy(MANIFEST)
    edit(manifest)
    one = build_project(manifest, CONTEXT).nodes["model.shop.totals"]
    other = build_project(manifest, replace(CONTEXT, variables={**CONTEXT.variables, "nobody": (1,)})).nodes[
        "model.shop.totals"
    ]
    assert list_changed_parts(one.parts, other.parts) == ("vars",)


def test_a_newer_dbt_is_a_change_for_those_who_use_its_sql() -> None:
    manifest = copy.deepcopy(MANIFEST)
    manifest["macros"]["macro.dbt.dateadd"] = {
        "name": "dateadd",
        "package_name": "dbt",
        "macro_sql": "",
        "depends_on": {"macros": []},
    }
    manifest["nodes"]["model.shop.totals"]["depends_on"]["macros"] = ["macro.dbt.dateadd"]
    newer = copy.deepcopy(manifest)
    newer["metadata"]["dbt_version"] = "1.11.17"
    one, other = (build_project(m, CONTEXT).nodes["model.shop.totals"] for m in (manifest, newer))
    assert list_changed_parts(one.parts, other.parts) == ("macros",)
    # One of the project's own that takes its place is found by dispatch.
    newer["metadata"]["dbt_version"] = "1.11.16"
    newer["macros"]["macro.shop.spark__dateadd"] = {
        "name": "spark__dateadd",
        "package_name": "shop",
        "macro_sql": "{% macro spark__dateadd() %}1{% endmacro %}",
        "depends_on": {"macros": []},
    }
    assert "macros" in list_changed_parts(one.parts, build_project(newer, CONTEXT).nodes["model.shop.totals"].parts)


def test_descriptions_count_where_they_are_written_into_the_table() -> None:
    def edit(manifest: dict[str, Any], words: str) -> dict[str, Any]:
        node = manifest["nodes"]["model.shop.totals"]
        node["config"]["persist_docs"] = {"relation": True}
        node["description"] = words
        return manifest

    one = build_project(edit(copy.deepcopy(MANIFEST), "a"), CONTEXT).nodes["model.shop.totals"]
    other = build_project(edit(copy.deepcopy(MANIFEST), "b"), CONTEXT).nodes["model.shop.totals"]
    assert list_changed_parts(one.parts, other.parts) == ("config",)


def test_a_contract_counts_with_its_columns() -> None:
    def edit(manifest: dict[str, Any], kind: str) -> dict[str, Any]:
        node = manifest["nodes"]["model.shop.totals"]
        node["config"]["contract"] = {"enforced": True}
        node["columns"]["id"]["data_type"] = kind
        return manifest

    one = build_project(edit(copy.deepcopy(MANIFEST), "int"), CONTEXT).nodes["model.shop.totals"]
    other = build_project(edit(copy.deepcopy(MANIFEST), "bigint"), CONTEXT).nodes["model.shop.totals"]
    assert list_changed_parts(one.parts, other.parts) == ("config",)


def test_large_seeds_are_read(tmp_path: Path) -> None:
    manifest = copy.deepcopy(MANIFEST)
    manifest["nodes"]["seed.shop.raw_people"]["checksum"] = {"name": "path", "checksum": "seeds/raw_people.csv"}
    context = replace(CONTEXT, project_dir=tmp_path)
    (tmp_path / "seeds").mkdir()
    hashes = set()
    for text in ("id\n1\n", "id\n2\n"):
        (tmp_path / "seeds" / "raw_people.csv").write_text(text)
        hashes.add(build_project(manifest, context).nodes["seed.shop.raw_people"].identity)
    assert len(hashes) == 2
