"""Fingerprints of dbt nodes: rows of `_sqlbuild_fingerprints` to values, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from sqb.dbt.model import NODE_TYPE, DbtNode, DbtObserved, DbtPlan, DbtProject, DbtStored, DbtVersion
from sqb.dbt.run import DbtRun
from sqb.dbt.versions import compute_run_versions
from sqb.lake.port import Lake
from sqb.lake.state.rows import Fingerprint, FreshnessRow
from sqb.names import Relation


def decode_nodes(project: DbtProject, rows: Iterable[Fingerprint]) -> dict[str, DbtStored]:
    """What the fingerprints of a project's schemas tell of its nodes."""
    nodes: dict[str, DbtStored] = {}
    for row in rows:
        node = project.nodes.get(row.node_name) if row.node_type == NODE_TYPE else None
        # The same node may have been built in another schema, for another target of dbt.
        if node is not None and row.target_schema == node.schema:
            nodes[row.node_name] = _decode_node(row)
    return nodes


def _decode_node(row: Fingerprint) -> DbtStored:
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
        # A row that cannot be decoded has no details, but the node was built.
        return DbtStored(row.node_name, row.local_hash, row.version_hash, run_id=row.run_id)


def build_fingerprint(
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
    recorded = {name: version.to_record() for name, version in inputs.items()}
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
    return renew_fingerprint(node, stored, run_id, ts)


def build_partial_fingerprint(node: DbtNode, option: str, run_id: str, ts: datetime) -> Fingerprint:
    """The row of a node that dbt is about to make something else of than what it says; no node has its identity."""
    metadata = {"type": node.resource_type, "path": node.path, "partial": option}
    name = node.relation.name if node.relation is not None else ""
    row = (NODE_TYPE, node.unique_id, node.schema, name, run_id, "", "", "", "{}")
    return Fingerprint(*row, json.dumps(metadata, sort_keys=True), ts)


def renew_fingerprint(node: DbtNode, stored: DbtStored, run_id: str, ts: datetime) -> Fingerprint:
    """The row of an unchanged node, under its current identity."""
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


def record_run(
    lake: Lake,
    project: DbtProject,
    run: DbtRun,
    before: DbtObserved,
    after: DbtObserved,
    run_id: str,
) -> None:
    """Write down what succeeded."""
    now = datetime.now(UTC)
    rows = list(_iter_succeeded(project, run, before, after, run_id, now))
    if rows:
        lake.state.append_fingerprints(rows)
        lake.state.append_freshness(_iter_sources(project, (r.node_name for r in rows), before, run_id, now))


def record_partial(lake: Lake, project: DbtProject, names: Iterable[str], option: str, run_id: str) -> None:
    """Write down, before dbt runs, that what it makes of these nodes is not what they say: the next build runs them."""
    now = datetime.now(UTC)
    rows = [
        build_partial_fingerprint(project.nodes[n], option, run_id, now) for n in names if project.nodes[n].is_built
    ]
    if rows:
        lake.state.append_fingerprints(rows)


def record_same(lake: Lake, project: DbtProject, plan: DbtPlan, observed: DbtObserved, run_id: str) -> None:
    """Write down the new identity of what proved to mean the same, so that it is not compiled again."""
    now = datetime.now(UTC)
    skipped = {n.unique_id for n in plan.filter_nodes("skip")}
    rows = [
        renew_fingerprint(project.nodes[name], observed.stored[name], run_id, now)
        for name in sorted(observed.same_compiled & skipped)
        if name in observed.stored and observed.stored[name].identity != project.nodes[name].identity
    ]
    if rows:
        lake.state.append_fingerprints(rows)


def _iter_succeeded(
    project: DbtProject,
    run: DbtRun,
    before: DbtObserved,
    after: DbtObserved,
    run_id: str,
    now: datetime,
) -> Iterator[Fingerprint]:
    """The fingerprints of the nodes that dbt has run without an error."""
    read = compute_run_versions(project, before, after, frozenset(run.succeeded), run_id)
    for name in run.succeeded:
        node, seen = project.nodes.get(name), after.states.get(name)
        # dbt tells of its hooks too.
        if node is None:
            continue
        version = seen.version if seen is not None else None
        yield build_fingerprint(
            node,
            read.list_inputs(node),
            run_id,
            now,
            compiled=run.results[name].compiled,
            in_catalog=seen is None or seen.exists,
            snapshot=version.value if version is not None and version.kind == "snapshot" else None,
        )


def _iter_sources(
    project: DbtProject, names: Iterable[str], seen: DbtObserved, run_id: str, now: datetime
) -> Iterator[FreshnessRow]:
    """The versions of the sources that were read, once for each schema that has readers."""
    emitted: set[tuple[str, str]] = set()
    for node in (project.nodes[name] for name in names):
        for source in node.depends_on:
            state = seen.states.get(source) if source in project.sources else None
            if state is None or state.version is None or (source, node.schema) in emitted:
                continue
            emitted.add((source, node.schema))
            strategy = "loaded_at_field" if state.version.kind == "value" else "snapshot"
            yield FreshnessRow(source, node.schema, run_id, strategy, state.version.kind, str(state.version.value), now)
