"""Iceberg metadata files, read as plain JSON: enough to plan with, at a hundredth of what importing pyiceberg costs."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqb.errors.lake import LakeDamaged
from sqb.lake.port import Columns, ColumnState, SnapshotInfo, TableState, format_shape_key
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import MODEL, PREFIX, CommitIdentity

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


def parse_state(document: Mapping[str, Any]) -> TableState:
    """Parse the metadata document of a table or view to the port's `TableState`."""
    return _parse_view_state(document) if "view-uuid" in document else _parse_table_state(document)


def build_damaged_error(relation: Relation, location: str) -> LakeDamaged:
    """The error for a metadata file that cannot be what the catalog says it is."""
    return LakeDamaged(
        f"the catalog says that {relation} is described by {location}, which is missing or damaged",
        hint="restore the file from a backup, or remove the relation from the catalog and build it again",
    )


def compute_text_token(text: str) -> str:
    """A short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _parse_table_state(document: Mapping[str, Any]) -> TableState:
    """The state of a table at its current snapshot, with the identity of the commit that made its rows."""
    snapshots = {s["snapshot-id"]: s for s in document.get("snapshots") or ()}
    main = (document.get("refs") or {}).get("main", {}).get("snapshot-id", document.get("current-snapshot-id"))
    current = main if main in snapshots else None
    schemas = {s.get("schema-id", 0): s for s in document.get("schemas") or (document.get("schema", {}),)}
    schema_id = document.get("current-schema-id", 0)
    columns = parse_columns(schemas.get(schema_id, {}))
    if current is None:
        return TableState(
            uuid=document["table-uuid"],
            location=document.get("location", ""),
            schema_id=schema_id,
            columns=columns,
            snapshot_columns=columns,
            columns_token=compute_columns_token(columns),
            rows=0,
            properties=_select_sqb_properties(document.get("properties")),
            former_columns=_list_former_columns(schemas, schema_id),
        )
    same_rows = _find_same_rows(current, snapshots)
    origin = next((s for i in same_rows if _get_identity(s := snapshots[i])), snapshots[current])
    identity = _get_identity(origin)
    snapshot_schema = snapshots[current].get("schema-id", schema_id)
    properties = _select_sqb_properties(document.get("properties"))
    ours = bool(properties.get(MODEL))
    return TableState(
        uuid=document["table-uuid"],
        location=document.get("location", ""),
        snapshot_id=current,
        same_rows=same_rows,
        schema_id=schema_id,
        snapshot_columns=parse_columns(schemas.get(snapshot_schema, {})),
        columns=columns,
        columns_token=compute_columns_token(columns),
        rows=_parse_row_count(snapshots[current].get("summary") or {}),
        identity=identity,
        drifted=ours and (not identity or origin.get("schema-id", schema_id) != schema_id),
        properties=properties,
        last_identity=CommitIdentity() if identity else _find_last_identity(snapshots.values()),
        former_columns=_list_former_columns(schemas, schema_id),
        rows_ms=snapshots[same_rows[-1]].get("timestamp-ms"),
        made_ms=origin.get("timestamp-ms") if identity else None,
    )


def _list_former_columns(schemas: Mapping[int, Mapping[str, Any]], current: int) -> dict[str, Columns]:
    columns_by_schema = {i: parse_columns(schema) for i, schema in schemas.items() if i != current}
    return {format_shape_key(i, compute_columns_token(columns)): columns for i, columns in columns_by_schema.items()}


def _get_identity(snapshot: Mapping[str, Any]) -> CommitIdentity:
    return CommitIdentity.from_properties(snapshot.get("summary") or {})


def _select_sqb_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    return {k: v for k, v in (properties or {}).items() if k.startswith(PREFIX)}


def _find_last_identity(snapshots: Iterable[Mapping[str, Any]]) -> CommitIdentity:
    """The identity of the last commit that sqb made, on whatever branch of the history it is."""
    ours = [s for s in snapshots if _get_identity(s)]
    latest = max(ours, key=lambda s: (s.get("sequence-number", 0), s.get("timestamp-ms", 0)), default=None)
    return _get_identity(latest) if latest is not None else CommitIdentity()


def _find_same_rows(current: int, snapshots: Mapping[int, Mapping[str, Any]]) -> tuple[int, ...]:
    chain = [current]
    while True:
        snapshot = snapshots[chain[-1]]
        parent = snapshots.get(snapshot.get("parent-snapshot-id", -1))
        if parent is None or not _has_same_rows(snapshot, parent):
            return tuple(chain)
        chain.append(parent["snapshot-id"])


def _has_same_rows(snapshot: Mapping[str, Any], parent: Mapping[str, Any]) -> bool:
    """Whether a snapshot has the rows of its parent: a compaction, or a commit that lists no new and no lost file."""
    summary = snapshot.get("summary") or {}
    if summary.get("operation") == "replace":
        return True
    # Only a writer that counts files can say that there were none.
    counts = "total-data-files" in summary and not any(summary.get(key, "0") != "0" for key in _FILE_COUNTS)
    return counts and snapshot.get("schema-id") == parent.get("schema-id")


def parse_lineage(document: Mapping[str, Any]) -> tuple[SnapshotInfo, ...]:
    """The snapshots that led to a table's current one, newest first."""
    snapshots = {s["snapshot-id"]: s for s in document.get("snapshots") or ()}
    main = (document.get("refs") or {}).get("main", {}).get("snapshot-id", document.get("current-snapshot-id"))
    schemas = {s.get("schema-id", 0): parse_columns(s) for s in document.get("schemas") or ()}
    today = schemas.get(document.get("current-schema-id", 0))
    lineage: list[SnapshotInfo] = []
    while main in snapshots and len(lineage) < len(snapshots):
        snapshot = snapshots[main]
        summary = snapshot.get("summary") or {}
        deletes = any(summary.get(k, "0") != "0" for k in ("total-delete-files", "added-delete-files"))
        is_counted = "total-data-files" in summary
        lineage.append(
            SnapshotInfo(
                main,
                summary.get("operation", ""),
                _parse_count(summary, "added-records"),
                _parse_count(summary, "deleted-records"),
                deletes or not is_counted,
                schemas.get(snapshot.get("schema-id", 0)) == today,
                _parse_count(summary, "added-data-files"),
                _parse_count(summary, "deleted-data-files"),
                _parse_count(summary, "added-files-size"),
                _parse_count(summary, "removed-files-size"),
                _parse_deletes(summary),
                "first-row-id" in snapshot,
                _estimate_rows_beside_hidden(summary),
            )
        )
        main = snapshot.get("parent-snapshot-id")
    return tuple(lineage)


def _parse_count(summary: Mapping[str, str], key: str) -> int | None:
    """A figure of a snapshot's summary, which leaves out what is 0; None when the summary counts nothing."""
    return int(summary.get(key, 0)) if "total-data-files" in summary else None


def _parse_deletes(summary: Mapping[str, str]) -> int | None:
    places, values = (_parse_count(summary, f"added-{kind}-deletes") for kind in ("position", "equality"))
    return None if places is None or values is None else places + values


def _estimate_rows_beside_hidden(summary: Mapping[str, str]) -> int | None:
    """The rows of the files into which a snapshot's new delete files point: they are read to see what was hidden.

    As many files as there are delete files: writers of today make one for each, and values may point into all.
    """
    rows, files = (_parse_count(summary, f"total-{what}") for what in ("records", "data-files"))
    deletes, values = (_parse_count(summary, f"added-{what}") for what in ("delete-files", "equality-deletes"))
    if rows is None or files is None or deletes is None:
        return None
    return rows if values else min(rows, deletes * rows // max(1, files))


def find_commit_ms(document: Mapping[str, Any], snapshot_id: int) -> int | None:
    """When a snapshot of a table, or a version of a view, was made, in milliseconds since 1970."""
    commits: Iterable[Mapping[str, Any]] = (*(document.get("snapshots") or ()), *(document.get("versions") or ()))
    times = (m["timestamp-ms"] for m in commits if snapshot_id in (m.get("snapshot-id"), m.get("version-id")))
    return next(times, None)


def _parse_row_count(summary: Mapping[str, str]) -> int | None:
    """The rows that a reader sees, when the summary tells: equality deletes hide an unknown number."""
    total = summary.get("total-records")
    if total is None or summary.get("total-equality-deletes", "0") != "0":
        return None
    return max(0, int(total) - int(summary.get("total-position-deletes", "0")))


def _parse_view_state(document: Mapping[str, Any]) -> TableState:
    version_id = document["current-version-id"]
    version = next(v for v in document["versions"] if v["version-id"] == version_id)
    schema_id = version.get("schema-id", 0)
    schema: Mapping[str, Any] = next((s for s in document["schemas"] if s.get("schema-id", 0) == schema_id), {})
    sql = next((r.get("sql", "") for r in version.get("representations", ())), "")
    properties = _select_sqb_properties(document.get("properties"))
    columns = parse_columns(schema)
    return TableState(
        uuid=document["view-uuid"],
        is_view=True,
        location=document.get("location", ""),
        snapshot_id=version_id,
        same_rows=(version_id,),
        schema_id=schema_id,
        snapshot_columns=columns,
        columns=columns,
        columns_token=compute_columns_token(columns),
        identity=CommitIdentity.from_properties(properties),
        drifted=bool(properties) and properties.get(VIEW_TEXT) != compute_text_token(sql),
        properties=properties,
    )


def parse_columns(schema: Mapping[str, Any]) -> Columns:
    """The columns of a schema in a metadata document."""
    return Columns.of(
        ColumnState(f["name"], json.dumps(_strip_ids(f["type"]), separators=(",", ":")), f["id"])
        for f in schema.get("fields") or ()
    )


def _strip_ids(kind: Any) -> Any:
    """A type without field ids and documentation, so that equal types are equal text."""
    match kind:
        case str():
            return kind
        case {"type": "struct", "fields": fields}:
            return ["struct", [[f["name"], _strip_ids(f["type"]), bool(f.get("required"))] for f in fields]]
        case {"type": "list", "element": element}:
            return ["list", _strip_ids(element), bool(kind.get("element-required"))]
        case {"type": "map", "key": key, "value": value}:
            return ["map", _strip_ids(key), _strip_ids(value), bool(kind.get("value-required"))]
        case _:
            return kind


def compute_columns_token(columns: Iterable[ColumnState]) -> str:
    """A digest of column names and types in order; field ids do not count."""
    return compute_text_token(json.dumps([[c.name, c.type] for c in columns]))
