"""Fingerprints of dbt nodes: rows of `_sqlbuild_fingerprints` to values, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from sqb.dbt.values import NODE_TYPE, DbtNode, DbtProject, DbtStored, DbtVersion
from sqb.lake.state import Fingerprint
from sqb.names import Relation


def stored_nodes(project: DbtProject, rows: Iterable[Fingerprint]) -> dict[str, DbtStored]:
    """What the fingerprints of a project's schemas tell of its nodes."""
    found: dict[str, DbtStored] = {}
    for row in rows:
        node = project.nodes.get(row.node_name) if row.node_type == NODE_TYPE else None
        # The same node may have been built in another schema, for another target of dbt.
        if node is not None and row.target_schema == node.schema:
            found[row.node_name] = _stored(row)
    return found


def _stored(row: Fingerprint) -> DbtStored:
    try:
        definition, metadata = json.loads(row.definition or "{}"), json.loads(row.metadata or "{}")
        return DbtStored(
            row.node_name,
            row.local_hash,
            row.version_hash,
            dict(definition.get("parts", {})),
            definition.get("compiled"),
            dict(metadata.get("inputs", {})),
            Relation(row.target_schema, row.target_name) if row.target_name else None,
            bool(metadata.get("in_catalog", True)),
            metadata.get("content"),
            metadata.get("snapshot"),
            str(metadata.get("built_by") or row.run_id),
            definition.get("raw"),
            str(metadata.get("partial") or ""),
        )
    except (ValueError, TypeError, AttributeError):
        # A row that nobody can read is as good as none, but the node was built.
        return DbtStored(row.node_name, row.local_hash, row.version_hash, run_id=row.run_id)


def fingerprint(
    node: DbtNode,
    inputs: Mapping[str, DbtVersion],
    run_id: str,
    ts: datetime,
    *,
    compiled: str | None = None,
    in_catalog: bool = True,
    snapshot: str | None = None,
    content: str | None = None,
) -> Fingerprint:
    """The row of a node that succeeded; `inputs` are the versions that it read."""
    recorded = {name: version.record() for name, version in inputs.items()}
    stored = DbtStored(
        node.unique_id,
        node.identity,
        compiled=compiled,
        inputs=recorded,
        in_catalog=in_catalog,
        content=content,
        snapshot=snapshot,
        run_id=run_id,
    )
    return renewed(node, stored, run_id, ts)


def partial_fingerprint(node: DbtNode, option: str, run_id: str, ts: datetime) -> Fingerprint:
    """The row of a node that dbt is about to make something else of than what it says; no node has its identity."""
    metadata = {"type": node.resource_type, "path": node.path, "partial": option}
    name = node.relation.name if node.relation is not None else ""
    row = (NODE_TYPE, node.unique_id, node.schema, name, run_id, "", "", "", "{}")
    return Fingerprint(*row, json.dumps(metadata, sort_keys=True), ts)


def renewed(node: DbtNode, stored: DbtStored, run_id: str, ts: datetime) -> Fingerprint:
    """The row of a node that stands as it was built, under the identity that it has now."""
    definition = {"raw": node.code, "compiled": stored.compiled, "checksum": node.checksum, "parts": dict(node.parts)}
    metadata = {
        "type": node.resource_type,
        "materialized": node.materialized,
        "path": node.path,
        "inputs": dict(sorted(stored.inputs.items())),
        "in_catalog": stored.in_catalog,
        "snapshot": stored.snapshot,
        "content": stored.content,
        "built_by": stored.run_id,
    }
    return Fingerprint(
        NODE_TYPE,
        node.unique_id,
        node.schema,
        node.relation.name if node.relation is not None else "",
        run_id,
        node.identity,
        node.checksum,
        "",
        json.dumps(definition, sort_keys=True),
        json.dumps(metadata, sort_keys=True),
        ts,
    )
