"""Views without Spark: their metadata written as plain JSON, and many of them swapped in one step.

A view is one small file that never changes and a row of the catalog that names it. So new files are written first,
where no reader looks, and then one transaction points all rows to them or none.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from sqb.errors.environments import ViewTaken
from sqb.errors.lake import Conflict, LakeError
from sqb.lake.metadata.table_state import VIEW_TEXT, compute_text_token
from sqb.lake.port import ColumnState, Pointer, ViewSwap
from sqb.lake.storage.base import Storage
from sqb.lake.storage.locations import get_parent
from sqb.names import Relation

Document = Mapping[str, Any]
# Reads the view behind a pointer; None where it is not a view that can be read.
ReadView = Callable[[Pointer], Document | None]

_COLUMN_NAMES = "spark.query-column-names"


def build_view_document(swap: ViewSwap, location: str, former: Document | None = None) -> dict[str, Any]:
    """The metadata of a view as Iceberg writes it; one that takes the place of `former` goes on from there."""
    now = int(time.time() * 1000)
    version = former["current-version-id"] + 1 if former is not None else 1
    fields = json.loads(swap.columns)
    text = swap.text or ""
    return {
        "view-uuid": former["view-uuid"] if former is not None else str(uuid.uuid4()),
        "format-version": 1,
        "location": location,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-version-id": version,
        "versions": [
            {
                "version-id": version,
                "timestamp-ms": now,
                "schema-id": 0,
                "summary": {"engine-name": "sqb"},
                "default-namespace": [],
                "representations": [{"type": "sql", "sql": text, "dialect": "spark"}],
            }
        ],
        "version-log": [{"timestamp-ms": now, "version-id": version}],
        "properties": {
            **swap.properties,
            _COLUMN_NAMES: ",".join(f["name"] for f in fields),
            VIEW_TEXT: compute_text_token(text),
        },
    }


def matches_swap(document: Document, swap: ViewSwap) -> bool:
    """Whether a view is already what a swap makes it: another process applied the swap, or began to."""
    desired = build_view_document(swap, "")
    return _extract_meaning(document) == _extract_meaning(desired)


def _extract_meaning(document: Document) -> tuple[str, Any, dict[str, str]]:
    version = _find_by_id(document["versions"], "version-id", document["current-version-id"])
    schema = _find_by_id(document["schemas"], "schema-id", version.get("schema-id", 0))
    sql = next((r.get("sql", "") for r in version.get("representations", ())), "")
    return sql, schema.get("fields"), dict(document.get("properties") or {})


def _find_by_id(entries: Iterable[Document], key: str, number: Any) -> Document:
    return next((e for e in entries if e.get(key, 0) == number), {})


# --- columns ------------------------------------------------------------------------------------------------------


def list_view_columns(document: Document) -> str:
    """The columns of a table or view as a view on all of them has them.

    They are those that the table has today, which is what a query that pins one of its snapshots gives; and any of them
    may be NULL: a view promises nothing that only its table can keep.
    """
    if "view-uuid" in document:
        version = _find_by_id(document["versions"], "version-id", document["current-version-id"])
        schema_id = version.get("schema-id", 0)
    else:
        schema_id = document.get("current-schema-id", 0)
    schema = _find_by_id(document.get("schemas") or (document.get("schema", {}),), "schema-id", schema_id)
    return json.dumps([_make_field_optional(f) for f in schema.get("fields") or ()], separators=(",", ":"))


def _make_field_optional(field: Document) -> dict[str, Any]:
    optional = {"id": field["id"], "name": field["name"], "required": False, "type": _make_optional(field["type"])}
    return {**optional, "doc": field["doc"]} if field.get("doc") else optional


def _make_optional(kind: Any) -> Any:
    match kind:
        case {"type": "struct", "fields": fields}:
            return {"type": "struct", "fields": [_make_field_optional(f) for f in fields]}
        case {"type": "list", "element": element}:
            return {**kind, "element": _make_optional(element), "element-required": False}
        case {"type": "map", "key": key, "value": value}:
            return {**kind, "key": _make_optional(key), "value": _make_optional(value), "value-required": False}
        case _:
            return kind


def build_view_columns(columns: Iterable[ColumnState]) -> str:
    """The same, where only the columns' names and types are known."""
    ids = iter(range(1, 1 << 31))

    def build_field(name: str, kind: Any) -> dict[str, Any]:
        return {"id": next(ids), "name": name, "required": False, "type": build_type(kind)}

    def build_type(kind: Any) -> Any:
        match kind:
            case ["struct", inner]:
                return {"type": "struct", "fields": [build_field(f[0], f[1]) for f in inner]}
            case ["list", element, *_]:
                number = next(ids)
                return {"type": "list", "element-id": number, "element": build_type(element), "element-required": False}
            case ["map", key, value, *_]:
                keys, values = {"key-id": next(ids), "key": build_type(key)}, {"value-id": next(ids)}
                return {"type": "map", **keys, **values, "value": build_type(value), "value-required": False}
            case _:
                return kind

    return json.dumps([build_field(c.name, json.loads(c.type)) for c in columns], separators=(",", ":"))


# --- swapping -----------------------------------------------------------------------------------------------------


def is_swap_done(
    swap: ViewSwap,
    pointer: Pointer | None,
    read: ReadView,
    is_match: Callable[[Document, ViewSwap], bool] = matches_swap,
) -> bool:
    """Whether a swap has been applied already; raises `ViewTaken` or `Conflict` where it cannot be."""
    location = pointer.location if pointer is not None else ""
    if pointer is not None and not pointer.is_view:
        raise ViewTaken(
            f"{swap.relation} is a table: a view of a virtual environment cannot take its place",
            hint="drop or rename the table, or choose another name for the environment or the schema",
        )
    if location == swap.before:
        # A view to be removed that does not exist needs no work.
        return swap.text is None and pointer is None
    if pointer is None:
        if swap.text is None:
            return True
        raise _build_moved_error(swap.relation, "it was dropped")
    document = read(pointer)
    if swap.text is not None and document is not None and is_match(document, swap):
        return True
    if swap.before == "":
        raise ViewTaken(
            f"a view {swap.relation} is there that the virtual environment has not made",
            hint="drop it, or choose another name for the environment or the schema",
        )
    raise _build_moved_error(swap.relation, "another command or a manual statement replaced it")


def _build_moved_error(relation: Relation, what: str) -> Conflict:
    return Conflict(
        f"the view {relation} is not where it was: {what}; no view was changed",
        hint="run the command again: it starts from what is there now",
    )


def write_view(storage: Storage, folder: str, document: Document) -> str:
    """Write the metadata file of a view under a new name, and return its location."""
    path = f"{folder}/metadata/00000-{os.urandom(16).hex()}.metadata.json"
    storage.write(path, json.dumps(document).encode())
    return path


def remove_unreferenced_files(storage: Storage, paths: Iterable[str]) -> None:
    """Remove files that nothing names, and folders that were made for them alone."""
    for path in paths:
        with suppress(OSError, LakeError):
            storage.remove(path)
        for folder in (get_parent(path), get_parent(get_parent(path))):
            storage.remove_if_empty(folder)
