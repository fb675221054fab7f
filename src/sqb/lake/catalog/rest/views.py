"""Views in the words of the Iceberg REST protocol: made, and given another query, by one request each.

The protocol replaces a view on condition that it is the same view, whatever its version. So a replacement looks at the
version first, and of two that come at the same moment the later one wins: with its query and its properties together,
which is all that readers rely on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sqb.lake.commit.clock import commit_ms
from sqb.lake.commit.views import Document, build_view_document
from sqb.lake.port import ViewSwap
from sqb.names import Relation

_LAST_ADDED = -1
# In the summary of a version: a server takes two versions that say the same for one, and refuses to add it again.
_MADE_BY = "sqb.made"


def build_view(swap: ViewSwap) -> dict[str, Any]:
    """Build the metadata that a swap gives a view."""
    return build_view_document(swap, "")


def build_creation(relation: Relation, desired: Document, location: str) -> dict[str, Any]:
    """The request that makes a view whose files are at a location."""
    schema, version = _get_current_version(desired)
    return {
        "name": relation.name,
        "location": location,
        "schema": {**schema, "schema-id": 0},
        "view-version": {**_build_version(version, 0, None), "version-id": 1},
        "properties": dict(desired.get("properties") or {}),
    }


def build_replacement(relation: Relation, existing: Document, desired: Document) -> dict[str, Any]:
    """The request that gives a view another query, other columns and other properties."""
    schema, version = _get_current_version(desired)
    known = next((s for s in existing["schemas"] if s.get("fields") == schema.get("fields")), None)
    added = [] if known is not None else [_build_add_schema(schema)]
    properties = dict(desired.get("properties") or {})
    removed = sorted(set(existing.get("properties") or {}) - set(properties))
    schema_id = known.get("schema-id", 0) if known is not None else _LAST_ADDED
    number = max(v["version-id"] for v in existing["versions"]) + 1
    latest = max(entry["timestamp-ms"] for entry in existing["version-log"])
    added_version = {**_build_version(version, schema_id, latest), "version-id": number}
    return {
        "identifier": {"namespace": relation.schema.split("."), "name": relation.name},
        "requirements": [{"type": "assert-view-uuid", "uuid": existing["view-uuid"]}],
        "updates": [
            *added,
            {"action": "add-view-version", "view-version": added_version},
            {"action": "set-current-view-version", "view-version-id": _LAST_ADDED},
            {"action": "set-properties", "updates": properties},
            *([{"action": "remove-properties", "removals": removed}] if removed else []),
        ],
    }


def matches_swap_on_server(document: Document, swap: ViewSwap) -> bool:
    """Whether a view is already what a swap makes it."""
    return matches_view(document, build_view(swap))


def matches_view(document: Document, desired: Document) -> bool:
    """Whether a view has the query, the columns and the properties that it should; a server may add properties."""
    (schema, version), (wanted_schema, wanted_version) = _get_current_version(document), _get_current_version(desired)
    properties = document.get("properties") or {}
    return (
        _get_sql(version) == _get_sql(wanted_version)
        and schema.get("fields") == wanted_schema.get("fields")
        and all(properties.get(k) == v for k, v in (desired.get("properties") or {}).items())
    )


def _get_current_version(document: Document) -> tuple[Document, Document]:
    number = document["current-version-id"]
    version: Document = next(v for v in document["versions"] if v["version-id"] == number)
    schema_id = version.get("schema-id", 0)
    schema: Document = next((s for s in document["schemas"] if s.get("schema-id", 0) == schema_id), {})
    return schema, version


def _get_sql(version: Mapping[str, Any]) -> str:
    return next((str(r.get("sql", "")) for r in version.get("representations", ())), "")


def _build_version(version: Document, schema_id: int, after: int | None) -> dict[str, Any]:
    summary = {**(version.get("summary") or {}), _MADE_BY: uuid.uuid4().hex}
    return {**version, "schema-id": schema_id, "timestamp-ms": commit_ms(after), "summary": summary}


def _build_add_schema(schema: Document) -> dict[str, Any]:
    return {"action": "add-schema", "schema": {**schema, "schema-id": 0}, "last-column-id": _find_highest_id(schema)}


def _find_highest_id(kind: Any) -> int:
    """The highest id of a field in a schema or a type."""
    match kind:
        case {"fields": fields}:
            return max((max(f["id"], _find_highest_id(f["type"])) for f in fields), default=0)
        case {"element-id": number, "element": element}:
            return max(int(number), _find_highest_id(element))
        case {"key-id": key_id, "key": key, "value-id": value_id, "value": value}:
            return max(int(key_id), int(value_id), _find_highest_id(key), _find_highest_id(value))
        case _:
            return 0
