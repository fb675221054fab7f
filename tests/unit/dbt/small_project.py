"""A dbt project of a few nodes, and a world in which all of it has just been built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from sqb.dbt.fingerprints import build_fingerprint, decode_nodes
from sqb.dbt.model import DbtNode, DbtObserved, DbtProject, DbtRelationState, DbtSource, DbtVersion
from sqb.dbt.versions import Versions, compute_run_versions
from sqb.lake.state.rows import Fingerprint
from sqb.names import Relation

PARTS = {name: f"{name} 1" for name in ("code", "config", "macros", "runtime", "vars", "reads")}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = "source.shop.raw.orders"


def node(short: str, *reads: str, materialized: str = "", messages: bool = True) -> DbtNode:
    """A node by its short id, such as `model.totals`."""
    kind, name = short.split(".")
    materialized = materialized or {"model": "table", "test": "test", "unit_test": "unit"}.get(kind, kind)
    built = kind in ("model", "seed", "snapshot") and materialized != "ephemeral"
    return DbtNode(
        unique_id=f"{kind}.shop.{name}",
        resource_type=kind,
        name=name,
        fqn=("shop", name),
        package="shop",
        relation=Relation("analytics", name) if built else None,
        schema="analytics",
        materialized=materialized,
        language="sql",
        checksum=f"{name} 1",
        identity=f"{name} 1",
        parts=PARTS,
        depends_on=tuple(full(r) for r in reads),
        attached=full(reads[0]) if kind == "test" and len(reads) == 1 else None,
        determined_by_sql=messages and kind == "model" and materialized in ("table", "view"),
    )


def full(short: str) -> str:
    """The unique id behind a short one; sources have theirs already."""
    kind, _, name = short.partition(".")
    return short if kind == "source" else f"{kind}.shop.{name}"


SHOP = (
    node("seed.people"),
    node("model.stg", ORDERS, materialized="view"),
    node("model.eph", "model.stg", materialized="ephemeral"),
    node("model.totals", "model.eph", "seed.people"),
    node("model.log", "model.stg", materialized="incremental"),
    node("snapshot.snap", "model.log"),
    node("model.report", "model.totals"),
    node("test.totals_unique", "model.totals"),
    node("test.no_negative", "model.totals", "model.log"),
    node("test.orders_not_null", ORDERS),
    node("unit_test.totals_sums", "model.totals"),
)
SOURCES = {ORDERS: DbtSource(ORDERS, "raw.orders", Relation("raw", "orders"), None, None, None, 3600.0, 7200.0)}


def project(nodes: Iterable[DbtNode] = SHOP) -> DbtProject:
    return DbtProject("shop", "1.11.16", {n.unique_id: n for n in nodes}, SOURCES)


def edited(short: str, *parts: str, **changes: object) -> DbtProject:
    """The project with another definition of one node, in the parts that are named."""
    entry = project().nodes[full(short)]
    new = replace(entry, identity=f"{entry.identity} new", parts={**PARTS, **dict.fromkeys(parts, "2")}, **changes)  # type: ignore[arg-type]
    return project(new if n.unique_id == new.unique_id else n for n in SHOP)


def seen(result: DbtProject, snapshots: int = 1) -> dict[str, DbtRelationState]:
    """Everything stands, each table at a snapshot."""
    relations = {
        n.unique_id: DbtRelationState(True, True)
        if n.materialized == "view"
        else DbtRelationState(True, version=DbtVersion("snapshot", str(snapshots)))
        for n in result.nodes.values()
        if n.is_built
    }
    return {**relations, ORDERS: DbtRelationState(True, version=DbtVersion("snapshot", "1"), age=60.0)}


def rows(result: DbtProject, observed: DbtObserved, run_id: str = "run 1") -> list[Fingerprint]:
    """What a run of everything leaves in the state tables."""
    ran = [n for n in result.nodes.values() if not n.is_ephemeral]
    versions = compute_run_versions(result, observed, observed, [n.unique_id for n in ran], run_id)
    return [build_fingerprint(n, versions.list_inputs(n), run_id, NOW, compiled=f"select {n.name}") for n in ran]


def built(result: DbtProject | None = None) -> DbtObserved:
    """The world after a build of everything."""
    result = result or project()
    before = DbtObserved(states=seen(result))
    return replace(before, stored=decode_nodes(result, rows(result, before)))


def versions(result: DbtProject, observed: DbtObserved) -> Versions:
    return Versions(result, observed)
