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

from sqb.build.observe import Look, standing_of
from sqb.dbt.border import relation_key
from sqb.dbt.values import NODE_TYPE, DbtProject
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Lake, TableState
from sqb.lake.state import Fingerprint
from sqb.names import Relation, quote


@dataclass(frozen=True, slots=True)
class Unsummed:
    """A table of dbt's whose rows nobody has summed up since its last run."""

    row: Fingerprint
    relation: Relation
    state: TableState


def unknown_contents(lake: IcebergLake, dbt: DbtProject, names: Collection[str]) -> list[Unsummed]:
    """Those of the dbt nodes that stand as dbt left them, and whose rows have not been summed up."""
    nodes = [dbt.nodes[name] for name in sorted(names)]
    if not nodes:
        return []
    pointers = {str(r).lower(): p for r, p in lake.pointers().items()}
    keys = {n.unique_id: relation_key(n.relation, lake.name) for n in nodes if n.relation is not None}
    wanted = {name: p for name, key in keys.items() if (p := pointers.get(key)) and not p.is_view}
    states = lake.tables(wanted.values())
    rows = {r.node_name: r for r in lake.fingerprints(sorted({n.schema for n in nodes})).values() if _is_dbt(r)}
    found = []
    for name, pointer in wanted.items():
        row, state = rows.get(name), states.get(pointer.relation)
        if row is None or state is None or state.snapshot_id is None:
            continue
        told = _told(row)
        if _is_of(told, state) and not told.get("content"):
            found.append(Unsummed(row, pointer.relation, state))
    return found


def content_rows(catalog: str, unsummed: Iterable[Unsummed], session: Any) -> Iterator[Fingerprint]:
    """Their fingerprints with the checksums of their rows, which Spark computes."""
    from sqb.spark.frames import contents_of_parts  # loads pyspark, which nothing unchanged needs

    for one in unsummed:
        columns = [c.name for c in one.state.snapshot_columns]
        table = f"{quote(catalog, one.relation.schema, one.relation.name)} VERSION AS OF {one.state.snapshot_id}"
        (content,) = contents_of_parts(session, table, [columns])
        metadata = {**_told(one.row), "content": content}
        yield replace(one.row, metadata=json.dumps(metadata, sort_keys=True), ts=datetime.now(UTC))


def with_contents(seen: Look, lake: Lake, names: Mapping[str, str]) -> Look:
    """The look in which tables of dbt's that stand as dbt left them have the contents that are known.

    `names` are the dbt nodes behind externals.
    """
    tables = {e: r for e, r in seen.externals.items() if e in names and not seen.states[r].is_view}
    if not tables:
        return seen
    rows = {r.node_name: r for r in lake.fingerprints(sorted({r.schema for r in tables.values()})).values()}
    kept = {name: told for name, row in rows.items() if (told := _told(row)).get("content")}
    relations, states = dict(seen.observed.relations), seen.states
    for external, relation in tables.items():
        known = kept.get(names[external])
        if known is None or not _is_of(known, states[relation]):
            continue
        before = relations.get(relation) or standing_of(states[relation])
        now = replace(before, version=replace(before.version, content=known["content"]))
        # The external may be known by another spelling, too.
        for one in [r for r, found in relations.items() if found is before] or [relation]:
            relations[one] = now
    return replace(seen, observed=replace(seen.observed, relations=relations))


def _is_of(told: Mapping[str, Any], state: TableState) -> bool:
    """Whether a table has the rows that a fingerprint is about."""
    return told.get("snapshot") in {str(snapshot) for snapshot in (state.snapshot_id, *state.same_rows)}


def _is_dbt(row: Fingerprint) -> bool:
    return row.node_type == NODE_TYPE


def _told(row: Fingerprint) -> dict[str, Any]:
    try:
        found = json.loads(row.metadata or "{}") if _is_dbt(row) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
