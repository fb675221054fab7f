"""The rows of dbt's tables as checksums, for sqb models that read them: equal rows are one version.

dbt writes a table anew each time. Its rows are summed up once after a run, with Spark, and only where a sqb model reads
them; the sum is kept in the fingerprint of the dbt node, beside the snapshot that it is of.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqb.build.observe.lake import LakeState, build_relation_state
from sqb.dbt.interleave import normalize_relation
from sqb.dbt.model import NODE_TYPE, DbtProject
from sqb.lake.port import Lake, TableState
from sqb.lake.state.rows import Fingerprint
from sqb.names import Relation, quote


@dataclass(frozen=True, slots=True)
class TableWithoutChecksum:
    """A table of dbt whose rows have no checksum since its last run."""

    row: Fingerprint
    relation: Relation
    state: TableState


def find_missing_checksums(lake: Lake, dbt: DbtProject, names: Collection[str]) -> list[TableWithoutChecksum]:
    """Find the dbt nodes whose tables are unchanged since dbt's run and have no checksum."""
    nodes = [dbt.nodes[name] for name in sorted(names)]
    if not nodes:
        return []
    pointers = {str(r).lower(): p for r, p in lake.list_pointers().items()}
    keys = {n.unique_id: normalize_relation(n.relation, lake.name) for n in nodes if n.relation is not None}
    tables = {name: p for name, key in keys.items() if (p := pointers.get(key)) and not p.is_view}
    states = lake.read_tables(tables.values())
    rows = {
        r.node_name: r for r in lake.state.read_fingerprints(sorted({n.schema for n in nodes})).values() if _is_dbt(r)
    }
    missing = []
    for name, pointer in tables.items():
        row, state = rows.get(name), states.get(pointer.relation)
        if row is None or state is None or state.snapshot_id is None:
            continue
        metadata = _read_metadata(row)
        if _is_metadata_of(metadata, state) and not metadata.get("content"):
            missing.append(TableWithoutChecksum(row, pointer.relation, state))
    return missing


def compute_checksums(catalog: str, tables: Iterable[TableWithoutChecksum], session: Any) -> Iterator[Fingerprint]:
    """Their fingerprints with the checksums of their rows, which Spark computes."""
    from sqb.spark.data.frames import compute_part_contents  # loads pyspark, which nothing unchanged needs

    for entry in tables:
        columns = [c.name for c in entry.state.snapshot_columns]
        table = f"{quote(catalog, entry.relation.schema, entry.relation.name)} VERSION AS OF {entry.state.snapshot_id}"
        (content,) = compute_part_contents(session, table, [columns])
        metadata = {**_read_metadata(entry.row), "content": content}
        yield replace(entry.row, metadata=json.dumps(metadata, sort_keys=True), ts=datetime.now(UTC))


def add_checksums(seen: LakeState, lake: Lake, names: Mapping[str, str]) -> LakeState:
    """Add the known checksums of dbt's tables that are unchanged since dbt's run.

    `names` are the dbt nodes behind externals.
    """
    tables = {e: r for e, r in seen.externals.items() if e in names and not seen.states[r].is_view}
    if not tables:
        return seen
    rows = {r.node_name: r for r in lake.state.read_fingerprints(sorted({r.schema for r in tables.values()})).values()}
    checksums = {name: metadata for name, row in rows.items() if (metadata := _read_metadata(row)).get("content")}
    relations, states = dict(seen.observed.relations), seen.states
    for external, relation in tables.items():
        checksum = checksums.get(names[external])
        if checksum is None or not _is_metadata_of(checksum, states[relation]):
            continue
        before = relations.get(relation) or build_relation_state(states[relation])
        now = replace(before, version=replace(before.version, content=checksum["content"]))
        # The external may be known by another spelling, too.
        for spelling in [r for r, state in relations.items() if state is before] or [relation]:
            relations[spelling] = now
    return replace(seen, observed=replace(seen.observed, relations=relations))


def _is_metadata_of(metadata: Mapping[str, Any], state: TableState) -> bool:
    """Whether a table has the rows that a fingerprint is about."""
    return metadata.get("snapshot") in {str(snapshot) for snapshot in (state.snapshot_id, *state.same_rows)}


def _is_dbt(row: Fingerprint) -> bool:
    return row.node_type == NODE_TYPE


def _read_metadata(row: Fingerprint) -> dict[str, Any]:
    try:
        metadata = json.loads(row.metadata or "{}") if _is_dbt(row) else {}
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}
