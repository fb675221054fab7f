"""`manifest.json` of dbt as a `DbtProject`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from sqb.dbt.model import BUILT, DbtNode, DbtProject, DbtSource
from sqb.dbt.project.context import DbtContext
from sqb.dbt.project.identity import Identity, compute_identities
from sqb.errors.dbt import DbtTooOld, ManifestUnsupported
from sqb.names import Relation

_SCHEMA = "v12"
_MIN_VERSION = (1, 8)
_RUN_TYPES = (*BUILT, "test", "unit_test")
_PERIODS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}


def read_manifest(path: Path, context: DbtContext) -> DbtProject:
    """The project that a manifest file describes."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ManifestUnsupported(f"the manifest {path} cannot be read: {error}") from None
    return build_project(document, context)


def build_project(manifest: Mapping[str, Any], context: DbtContext) -> DbtProject:
    """What planning needs of a manifest; raises when its version is not supported."""
    _check_version(manifest)
    metadata = manifest["metadata"]
    entries = {**manifest["nodes"], **manifest.get("unit_tests", {})}
    runnable = {i: n for i, n in entries.items() if n["resource_type"] in _RUN_TYPES}
    order = _sort_nodes(runnable)
    identities = compute_identities({**manifest, "unit_tests": manifest.get("unit_tests", {})}, context, order)
    default_schema = context.strip_catalog(_find_usual_schema(runnable.values()))
    nodes: dict[str, DbtNode] = {}
    for unique_id in order:
        built = _build_node(runnable[unique_id], identities[unique_id], context)
        nodes[unique_id] = (
            replace(built, schema=_find_schema(built, nodes) or default_schema or built.schema)
            if built.is_test
            else built
        )
    return DbtProject(
        str(metadata.get("project_name") or ""),
        str(metadata["dbt_version"]),
        nodes,
        {i: _build_source(s, context) for i, s in sorted(manifest.get("sources", {}).items())},
        adapter=str(metadata.get("adapter_type") or "spark"),
    )


def encode_selection(arguments: Sequence[str]) -> str:
    """What the result of `dbt ls` is known by: the arguments that it was given."""
    return json.dumps(list(arguments))


def _check_version(manifest: Mapping[str, Any]) -> None:
    metadata = manifest.get("metadata") if isinstance(manifest, Mapping) else None
    schema = str((metadata or {}).get("dbt_schema_version", ""))
    schema_version = schema.rpartition("/")[2].removesuffix(".json")
    if "/manifest/" not in schema:
        raise ManifestUnsupported("the manifest does not say what version it has", hint=f"sqb reads {_SCHEMA}")
    version = str((metadata or {}).get("dbt_version", ""))
    if _is_old(version):
        raise DbtTooOld(
            f"dbt {version} is not supported",
            hint="sqb works with dbt 1.8 and later; 1.11 is what it is tested with",
        )
    if schema_version != _SCHEMA:
        raise ManifestUnsupported(
            f"the manifest has the schema {schema_version}, and sqb reads {_SCHEMA}",
            hint=f"dbt 1.8 to 1.11 write {_SCHEMA}",
        )


def _is_old(version: str) -> bool:
    parts = version.split(".")[:2]
    return all(p.isdecimal() for p in parts) and tuple(int(p) for p in parts) < _MIN_VERSION


def _sort_nodes(nodes: Mapping[str, Any]) -> list[str]:
    """The ids so that each comes after what it reads, those of one rank by name."""
    sorter = TopologicalSorter(
        {i: [d for d in n["depends_on"].get("nodes", ()) if d in nodes] for i, n in nodes.items()}
    )
    sorter.prepare()
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order


def _find_usual_schema(nodes: Any) -> str:
    count = Counter(str(n["schema"]) for n in nodes if n["resource_type"] in BUILT)
    return min(count, key=lambda s: (-count[s], s)) if count else ""


def _find_schema(test: DbtNode, nodes: Mapping[str, DbtNode]) -> str | None:
    """The schema of what a test looks at."""
    above = [u for u in (test.attached or "", *test.depends_on) if u in nodes]
    return nodes[above[0]].schema if above else None


def _build_node(node: Mapping[str, Any], identity: Identity, context: DbtContext) -> DbtNode:
    checksum = node.get("checksum")
    config = node["config"]
    kind = node["resource_type"]
    materialized = str(config.get("materialized") or ("unit" if kind == "unit_test" else kind))
    has_relation = kind in BUILT and materialized != "ephemeral"
    schema = context.strip_catalog(str(node["schema"]))
    return DbtNode(
        unique_id=node["unique_id"],
        resource_type=kind,
        name=node["name"],
        fqn=tuple(node["fqn"]),
        package=node["package_name"],
        relation=Relation(schema, str(node.get("alias") or node["name"])) if has_relation else None,
        schema=schema,
        materialized=materialized,
        language=str(node.get("language") or ("sql" if kind != "seed" else "csv")),
        checksum=str(checksum.get("checksum", "") if isinstance(checksum, dict) else checksum or ""),
        identity=identity.hash,
        parts=identity.parts,
        depends_on=tuple(dict.fromkeys(node["depends_on"].get("nodes", ()))),
        attached=node.get("attached_node"),
        path=node["original_file_path"],
        code=str(node.get("raw_code") or "") if kind != "seed" else "",
        determined_by_sql=identity.determined_by_sql,
        is_latest=node.get("version") is None or node.get("version") == node.get("latest_version"),
    )


def _build_source(source: Mapping[str, Any], context: DbtContext) -> DbtSource:
    freshness = source.get("freshness") or {}
    return DbtSource(
        unique_id=source["unique_id"],
        name=f"{source['source_name']}.{source['name']}",
        relation=Relation(
            context.strip_catalog(str(source["schema"])), str(source.get("identifier") or source["name"])
        ),
        loaded_at_field=source.get("loaded_at_field"),
        loaded_at_query=source.get("loaded_at_query"),
        filter=freshness.get("filter"),
        warn_after=_convert_to_seconds(freshness.get("warn_after")),
        error_after=_convert_to_seconds(freshness.get("error_after")),
        path=str(source.get("original_file_path") or ""),
    )


def _convert_to_seconds(age: Mapping[str, Any] | None) -> float | None:
    if not age or age.get("count") is None or age.get("period") not in _PERIODS:
        return None
    return float(age["count"]) * _PERIODS[age["period"]]
