"""Views in the words of the Iceberg REST protocol: made, and given another query, by one request each.

The protocol replaces a view on condition that it is the same view, whatever its version. So a replacement looks at the
version first, and of two that come at the same moment the later one stands: with its query and its properties together,
which is all that anybody relies on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sqb.lake.clock import commit_ms
from sqb.lake.port import ViewMove
from sqb.lake.views import Document, view_document
from sqb.names import Relation

_LAST_ADDED = -1
# In the summary of a version: a server takes two versions that say the same for one, and refuses to add it again.
_MADE_BY = "sqb.made"


def wanted_view(move: ViewMove) -> dict[str, Any]:
    """The metadata that a move gives a view."""
    return view_document(move, "")


def creation(relation: Relation, wanted: Document, location: str) -> dict[str, Any]:
    """The request that makes a view whose files are at a location."""
    schema, version = _current(wanted)
    return {
        "name": relation.name,
        "location": location,
        "schema": {**schema, "schema-id": 0},
        "view-version": {**_version(version, 0, None), "version-id": 1},
        "properties": dict(wanted.get("properties") or {}),
    }


def replacement(relation: Relation, standing: Document, wanted: Document) -> dict[str, Any]:
    """The request that gives a view another query, other columns and other properties."""
    schema, version = _current(wanted)
    known = next((s for s in standing["schemas"] if s.get("fields") == schema.get("fields")), None)
    added = [] if known is not None else [_added(schema)]
    properties = dict(wanted.get("properties") or {})
    removed = sorted(set(standing.get("properties") or {}) - set(properties))
    schema_id = known.get("schema-id", 0) if known is not None else _LAST_ADDED
    number = max(v["version-id"] for v in standing["versions"]) + 1
    latest = max(entry["timestamp-ms"] for entry in standing["version-log"])
    added_version = {**_version(version, schema_id, latest), "version-id": number}
    return {
        "identifier": {"namespace": relation.schema.split("."), "name": relation.name},
        "requirements": [{"type": "assert-view-uuid", "uuid": standing["view-uuid"]}],
        "updates": [
            *added,
            {"action": "add-view-version", "view-version": added_version},
            {"action": "set-current-view-version", "view-version-id": _LAST_ADDED},
            {"action": "set-properties", "updates": properties},
            *([{"action": "remove-properties", "removals": removed}] if removed else []),
        ],
    }


def shows(document: Document, move: ViewMove) -> bool:
    """Whether a view is what a move would make it."""
    return stands_as(document, wanted_view(move))


def stands_as(document: Document, wanted: Document) -> bool:
    """Whether a view has the query, the columns and the properties that it should; a server may add properties."""
    (schema, version), (wanted_schema, wanted_version) = _current(document), _current(wanted)
    properties = document.get("properties") or {}
    return (
        _sql(version) == _sql(wanted_version)
        and schema.get("fields") == wanted_schema.get("fields")
        and all(properties.get(k) == v for k, v in (wanted.get("properties") or {}).items())
    )


def _current(document: Document) -> tuple[Document, Document]:
    number = document["current-version-id"]
    version: Document = next(v for v in document["versions"] if v["version-id"] == number)
    schema_id = version.get("schema-id", 0)
    schema: Document = next((s for s in document["schemas"] if s.get("schema-id", 0) == schema_id), {})
    return schema, version


def _sql(version: Mapping[str, Any]) -> str:
    return next((str(r.get("sql", "")) for r in version.get("representations", ())), "")


def _version(version: Document, schema_id: int, after: int | None) -> dict[str, Any]:
    summary = {**(version.get("summary") or {}), _MADE_BY: uuid.uuid4().hex}
    return {**version, "schema-id": schema_id, "timestamp-ms": commit_ms(after), "summary": summary}


def _added(schema: Document) -> dict[str, Any]:
    return {"action": "add-schema", "schema": {**schema, "schema-id": 0}, "last-column-id": _highest(schema)}


def _highest(kind: Any) -> int:
    """The highest id of a field in a schema or a type."""
    match kind:
        case {"fields": fields}:
            return max((max(f["id"], _highest(f["type"])) for f in fields), default=0)
        case {"element-id": number, "element": element}:
            return max(int(number), _highest(element))
        case {"key-id": key_id, "key": key, "value-id": value_id, "value": value}:
            return max(int(key_id), int(value_id), _highest(key), _highest(value))
        case _:
            return 0
