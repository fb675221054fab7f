"""A manifest that dbt 1.11 wrote, as the values that planning works on."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from sqb.dbt.project.cache import ProjectInputs, SummaryOrigin, read_summary, write_summary
from sqb.dbt.project.context import DbtContext, read_context
from sqb.dbt.project.manifest import build_project, read_manifest
from sqb.errors.dbt import DbtTooOld, ManifestUnsupported
from sqb.names import Relation
from sqb.project.config.dbt_names import read_names

FILE = Path(__file__).parent.parent / "manifest.json"
MANIFEST = json.loads(FILE.read_text())
PROJECT = read_manifest(FILE, DbtContext())
ORIGIN = SummaryOrigin(("dbt",), (("/bin/dbt", 1, 2),), ProjectInputs(None, {"a.sql": (1, 2)}, {}, {}, 3))


def test_every_node_stands_after_what_it_reads() -> None:
    order = list(PROJECT.nodes)
    for node in PROJECT.nodes.values():
        assert all(order.index(d) < order.index(node.unique_id) for d in node.depends_on if d in PROJECT.nodes)


def test_nodes_are_what_dbt_says() -> None:
    by_name = {
        n.unique_id.replace(".shop.", "."): (n.materialized, str(n.relation) if n.relation else n.schema)
        for n in PROJECT.nodes.values()
        if not n.unique_id.startswith("test.")
    }
    assert by_name == {
        "model.money.rates": ("table", "analytics.rates"),
        "model.stg_orders": ("view", "analytics_stg.stg_orders"),
        "model.ver.v1": ("table", "analytics.ver_v1"),
        "seed.raw_people": ("seed", "analytics.raw_people"),
        "model.eph": ("ephemeral", "analytics_stg"),
        "model.log": ("incremental", "analytics.order_log"),
        "snapshot.snap": ("snapshot", "analytics.snap"),
        "model.totals": ("table", "analytics.totals"),
        "model.ver.v2": ("table", "analytics.ver_v2"),
        "model.py": ("table", "analytics.py"),
        "unit_test.totals.ut": ("unit", "analytics"),
    }
    # Disabled models, analyses, hooks of the project and exposures are nothing that is run.
    assert all(n.resource_type in ("model", "seed", "snapshot", "test", "unit_test") for n in PROJECT.nodes.values())


def test_which_models_are_told_by_their_sql() -> None:
    messages = {n.unique_id for n in PROJECT.nodes.values() if n.determined_by_sql}
    # Not the view with a hook, the incremental one, the one in Python, nor anything that is no model.
    assert messages == {"model.money.rates", "model.shop.ver.v1", "model.shop.ver.v2", "model.shop.totals"}


def test_tests_belong_where_what_they_look_at_is() -> None:
    tests = {n.name: (n.schema, n.attached) for n in PROJECT.nodes.values() if n.is_test}
    assert tests == {
        "no_negative": ("analytics", None),
        "unique_totals_id": ("analytics", "model.shop.totals"),
        "positive_totals_id": ("analytics", "model.shop.totals"),
        "source_not_null_raw_orders_id": ("analytics", None),
        "ut": ("analytics", None),
    }
    assert PROJECT.schemas == ("analytics", "analytics_stg")


def test_sources_and_how_old_they_may_be() -> None:
    orders, customers = (PROJECT.sources[f"source.shop.raw.{name}"] for name in ("orders", "customers"))
    assert (orders.name, orders.relation, orders.loaded_at_field) == (
        "raw.orders",
        Relation("raw", "ORDERS"),
        "loaded_at",
    )
    assert (orders.warn_after, orders.error_after, orders.filter) == (12 * 3600, 2 * 86400, "id > 0")
    assert (customers.warn_after, customers.error_after) == (None, None)


def test_a_schema_that_names_the_catalog_is_the_one_in_it() -> None:
    manifest = copy.deepcopy(MANIFEST)
    for node in (*manifest["nodes"].values(), *manifest["sources"].values()):
        node["schema"] = f"lake.{node['schema']}"
    project = build_project(manifest, DbtContext(catalog="Lake"))
    assert [n.relation for n in project.nodes.values()] == [n.relation for n in PROJECT.nodes.values()]
    assert project.schemas == PROJECT.schemas
    assert {s.relation.schema for s in project.sources.values()} == {"raw"}


def test_a_project_goes_through_the_cache(tmp_path: Path) -> None:
    assert read_summary(tmp_path) is None
    assert read_names(tmp_path) is None
    write_summary(tmp_path, ORIGIN, PROJECT)
    summary = read_summary(tmp_path)
    assert summary is not None
    assert (summary.origin, summary.decode_project()) == (ORIGIN, PROJECT)
    (tmp_path / ".sqb" / "cache" / "dbt.json").write_text('{"format": 1}')
    assert read_summary(tmp_path) is None
    assert read_names(tmp_path) is None


def test_names_for_models_of_sqb(tmp_path: Path) -> None:
    write_summary(tmp_path, ORIGIN, PROJECT)
    names = read_names(tmp_path)
    assert names is not None
    assert [str(n.relation) for n in names.find("LOG")] == ["analytics.order_log"]
    assert [str(n.relation) for n in names.find("money.rates")] == ["analytics.rates"]
    assert [str(n.relation) for n in names.find("ver")] == ["analytics.ver_v2"]
    assert [str(n.relation) for n in names.find("ver.v1")] == ["analytics.ver_v1"]
    assert [n.relation for n in names.find("eph")] == [None]
    assert names.find("nobody") == ()


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        (
            {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v11.json", "dbt_version": "1.9.0"},
            ManifestUnsupported,
            "the manifest has the schema v11, and sqb reads v12",
        ),
        (
            {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v11.json", "dbt_version": "1.7.4"},
            DbtTooOld,
            "dbt 1.7.4 is not supported",
        ),
        ({}, ManifestUnsupported, "the manifest does not say what version it has"),
    ],
)
def test_other_versions_are_refused(metadata: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build_project({**copy.deepcopy(MANIFEST), "metadata": metadata}, DbtContext())


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ManifestUnsupported, match="cannot be read"):
        read_manifest(tmp_path / "manifest.json", DbtContext())


def test_variables_and_the_target_of_a_call(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("profile: shop\nvars: {low: 5, shop: {low: 6, high: 9}}\n")
    (tmp_path / "dbt_packages" / "money").mkdir(parents=True)
    (tmp_path / "dbt_packages" / "money" / "dbt_project.yml").write_text("vars: {rate: 2}\n")
    (tmp_path / "profiles.yml").write_text(
        "shop: {target: dev, outputs: {dev: {type: spark, schema: a, threads: 4}, prod: {schema: b}}}\n"
    )
    context = read_context(tmp_path, tmp_path, variables={"high": 1})
    assert dict(context.variables) == {"low": (5, 6), "shop": ({"low": 6, "high": 9},), "high": (1,), "rate": (2,)}
    assert context.target == '["dev", {"schema": "a", "type": "spark"}]'
    assert read_context(tmp_path, tmp_path, target="prod").target == '["prod", {"schema": "b"}]'
    assert read_context(tmp_path / "nowhere", tmp_path).target == '["default", {}]'
