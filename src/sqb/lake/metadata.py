"""Iceberg metadata files, read as plain JSON: enough to plan with, at a hundredth of what importing pyiceberg costs."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqb.errors import LakeDamaged
from sqb.lake.port import Columns, ColumnState, SnapshotInfo, TableState, shape_key
from sqb.names import Relation

IDENTITY_PREFIX = "sqb."
# A property of views: a digest of the text that sqb gave it.
VIEW_TEXT = "sqb.view_text"
_FILE_COUNTS = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


def parse_metadata(raw: bytes) -> dict[str, Any]:
    """The JSON document in a metadata file, which may be compressed."""
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    document = json.loads(text)
    if not isinstance(document, dict):
        raise TypeError("not an Iceberg metadata document")
    return document


def state_of(document: Mapping[str, Any]) -> TableState:
    """What a table's or view's metadata document says, in the words of the port."""
    return _view_state(document) if "view-uuid" in document else _table_state(document)


def damaged(relation: Relation, location: str) -> LakeDamaged:
    """The error for a metadata file that cannot be what the catalog says it is."""
    return LakeDamaged(
        f"the catalog says that {relation} is described by {location}, which is missing or damaged",
        hint="restore the file from a backup, or remove the relation from the catalog and build it again",
    )


def text_token(text: str) -> str:
    """A short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _table_state(document: Mapping[str, Any]) -> TableState:
    snapshots = {s["snapshot-id"]: s for s in document.get("snapshots") or ()}
    main = (document.get("refs") or {}).get("main", {}).get("snapshot-id", document.get("current-snapshot-id"))
    current = main if main in snapshots else None
    schemas = {s.get("schema-id", 0): s for s in document.get("schemas") or (document.get("schema", {}),)}
    schema_id = document.get("current-schema-id", 0)
    columns = schema_columns(schemas.get(schema_id, {}))
    if current is None:
        return TableState(
            uuid=document["table-uuid"],
            location=document.get("location", ""),
            schema_id=schema_id,
            columns=columns,
            snapshot_columns=columns,
            columns_token=columns_token(columns),
            rows=0,
            properties=_own(document.get("properties")),
            former=_former(schemas, schema_id),
        )
    same_rows = _same_rows(current, snapshots)
    origin = next((s for i in same_rows if _identity(s := snapshots[i])), snapshots[current])
    identity = _identity(origin)
    snapshot_schema = snapshots[current].get("schema-id", schema_id)
    properties = _own(document.get("properties"))
    ours = bool(properties.get("sqb.model"))
    return TableState(
        uuid=document["table-uuid"],
        location=document.get("location", ""),
        snapshot_id=current,
        same_rows=same_rows,
        schema_id=schema_id,
        snapshot_columns=schema_columns(schemas.get(snapshot_schema, {})),
        columns=columns,
        columns_token=columns_token(columns),
        rows=_row_count(snapshots[current].get("summary") or {}),
        identity=identity,
        drifted=ours and (not identity or origin.get("schema-id", schema_id) != schema_id),
        properties=properties,
        left={} if identity else _left(snapshots.values()),
        former=_former(schemas, schema_id),
        rows_ms=snapshots[same_rows[-1]].get("timestamp-ms"),
        made_ms=origin.get("timestamp-ms") if identity else None,
    )


def _former(schemas: Mapping[int, Mapping[str, Any]], current: int) -> dict[str, Columns]:
    found = {i: schema_columns(schema) for i, schema in schemas.items() if i != current}
    return {shape_key(i, columns_token(columns)): columns for i, columns in found.items()}


def _identity(snapshot: Mapping[str, Any]) -> dict[str, str]:
    return _own(snapshot.get("summary"))


def _own(properties: Mapping[str, str] | None) -> dict[str, str]:
    return {k: v for k, v in (properties or {}).items() if k.startswith(IDENTITY_PREFIX)}


def _left(snapshots: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The identity of the last commit that sqb made, on whatever branch of the history it is."""
    ours = [s for s in snapshots if _identity(s)]
    latest = max(ours, key=lambda s: (s.get("sequence-number", 0), s.get("timestamp-ms", 0)), default=None)
    return _identity(latest) if latest is not None else {}


def _same_rows(current: int, snapshots: Mapping[int, Mapping[str, Any]]) -> tuple[int, ...]:
    chain = [current]
    while True:
        snapshot = snapshots[chain[-1]]
        parent = snapshots.get(snapshot.get("parent-snapshot-id", -1))
        if parent is None or not _keeps_rows(snapshot, parent):
            return tuple(chain)
        chain.append(parent["snapshot-id"])


def _keeps_rows(snapshot: Mapping[str, Any], parent: Mapping[str, Any]) -> bool:
    """Whether a snapshot has the rows of its parent: a compaction, or a commit that lists no new and no lost file."""
    summary = snapshot.get("summary") or {}
    if summary.get("operation") == "replace":
        return True
    # Only a writer that counts files can say that there were none.
    counts = "total-data-files" in summary and not any(summary.get(key, "0") != "0" for key in _FILE_COUNTS)
    return counts and snapshot.get("schema-id") == parent.get("schema-id")


def lineage_of(document: Mapping[str, Any]) -> tuple[SnapshotInfo, ...]:
    """The snapshots that led to a table's current one, newest first."""
    snapshots = {s["snapshot-id"]: s for s in document.get("snapshots") or ()}
    main = (document.get("refs") or {}).get("main", {}).get("snapshot-id", document.get("current-snapshot-id"))
    schemas = {s.get("schema-id", 0): schema_columns(s) for s in document.get("schemas") or ()}
    today = schemas.get(document.get("current-schema-id", 0))
    found: list[SnapshotInfo] = []
    while main in snapshots and len(found) < len(snapshots):
        snapshot = snapshots[main]
        summary = snapshot.get("summary") or {}
        deletes = any(summary.get(k, "0") != "0" for k in ("total-delete-files", "added-delete-files"))
        known = "total-data-files" in summary
        found.append(
            SnapshotInfo(
                main,
                summary.get("operation", ""),
                int(summary.get("added-records", 0)) if known else None,
                int(summary.get("deleted-records", 0)) if known else None,
                deletes or not known,
                schemas.get(snapshot.get("schema-id", 0)) == today,
            )
        )
        main = snapshot.get("parent-snapshot-id")
    return tuple(found)


def committed_ms(document: Mapping[str, Any], snapshot_id: int) -> int | None:
    """When a snapshot of a table, or a version of a view, was made, in milliseconds since 1970."""
    made: Iterable[Mapping[str, Any]] = (*(document.get("snapshots") or ()), *(document.get("versions") or ()))
    found = (m["timestamp-ms"] for m in made if snapshot_id in (m.get("snapshot-id"), m.get("version-id")))
    return next(found, None)


def _row_count(summary: Mapping[str, str]) -> int | None:
    """The rows that a reader sees, when the summary tells: equality deletes hide nobody knows how many."""
    total = summary.get("total-records")
    if total is None or summary.get("total-equality-deletes", "0") != "0":
        return None
    return max(0, int(total) - int(summary.get("total-position-deletes", "0")))


def _view_state(document: Mapping[str, Any]) -> TableState:
    version_id = document["current-version-id"]
    version = next(v for v in document["versions"] if v["version-id"] == version_id)
    schema_id = version.get("schema-id", 0)
    schema: Mapping[str, Any] = next((s for s in document["schemas"] if s.get("schema-id", 0) == schema_id), {})
    sql = next((r.get("sql", "") for r in version.get("representations", ())), "")
    identity = _own(document.get("properties"))
    columns = schema_columns(schema)
    return TableState(
        uuid=document["view-uuid"],
        is_view=True,
        location=document.get("location", ""),
        snapshot_id=version_id,
        same_rows=(version_id,),
        schema_id=schema_id,
        snapshot_columns=columns,
        columns=columns,
        columns_token=columns_token(columns),
        identity=identity,
        drifted=bool(identity) and identity.get(VIEW_TEXT) != text_token(sql),
        properties=identity,
    )


def schema_columns(schema: Mapping[str, Any]) -> Columns:
    """The columns of a schema in a metadata document."""
    return Columns.of(
        ColumnState(f["name"], json.dumps(_without_ids(f["type"]), separators=(",", ":")), f["id"])
        for f in schema.get("fields") or ()
    )


def _without_ids(kind: Any) -> Any:
    """A type without field ids and documentation, so that equal types are equal text."""
    match kind:
        case str():
            return kind
        case {"type": "struct", "fields": fields}:
            return ["struct", [[f["name"], _without_ids(f["type"]), bool(f.get("required"))] for f in fields]]
        case {"type": "list", "element": element}:
            return ["list", _without_ids(element), bool(kind.get("element-required"))]
        case {"type": "map", "key": key, "value": value}:
            return ["map", _without_ids(key), _without_ids(value), bool(kind.get("value-required"))]
        case _:
            return kind


def columns_token(columns: Iterable[ColumnState]) -> str:
    """A digest of column names and types in order; field ids do not count."""
    return text_token(json.dumps([[c.name, c.type] for c in columns]))
