"""Views without Spark: their metadata written as plain JSON, and many of them moved in one step.

A view is one small file that never changes and a row of the catalog that names it. So new files are written first,
where nobody looks, and then one transaction lets all rows name them or none.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from sqb.errors import Conflict, LakeError
from sqb.errors_environments import ViewTaken
from sqb.lake.locations import parent_of
from sqb.lake.metadata import VIEW_TEXT, text_token
from sqb.lake.port import ColumnState, Pointer, ViewMove
from sqb.lake.storage import Storage
from sqb.names import Relation

Document = Mapping[str, Any]
# What stands under a name, as far as it is of use to whoever follows it: None where it is not a view that can be read.
ReadView = Callable[[Pointer], Document | None]

_COLUMN_NAMES = "spark.query-column-names"


def view_document(move: ViewMove, location: str, former: Document | None = None) -> dict[str, Any]:
    """The metadata of a view as Iceberg writes it; one that takes the place of `former` goes on from there."""
    now = int(time.time() * 1000)
    version = former["current-version-id"] + 1 if former is not None else 1
    fields = json.loads(move.columns)
    text = move.text or ""
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
            **move.properties,
            _COLUMN_NAMES: ",".join(f["name"] for f in fields),
            VIEW_TEXT: text_token(text),
        },
    }


def is_as_wanted(document: Document, move: ViewMove) -> bool:
    """Whether a view is what a move would make it: somebody made the move, or began to."""
    wanted = view_document(move, "")
    return _meaning(document) == _meaning(wanted)


def _meaning(document: Document) -> tuple[str, Any, dict[str, str]]:
    version = _current(document["versions"], "version-id", document["current-version-id"])
    schema = _current(document["schemas"], "schema-id", version.get("schema-id", 0))
    sql = next((r.get("sql", "") for r in version.get("representations", ())), "")
    return sql, schema.get("fields"), dict(document.get("properties") or {})


def _current(entries: Iterable[Document], key: str, wanted: Any) -> Document:
    return next((e for e in entries if e.get(key, 0) == wanted), {})


# --- columns ------------------------------------------------------------------------------------------------------


def columns_of(document: Document) -> str:
    """The columns of a table or view as a view on all of them has them.

    They are those that the table has today, which is what a query that pins one of its snapshots gives; and any of them
    may be NULL: a view promises nothing that only its table can keep.
    """
    if "view-uuid" in document:
        version = _current(document["versions"], "version-id", document["current-version-id"])
        schema_id = version.get("schema-id", 0)
    else:
        schema_id = document.get("current-schema-id", 0)
    schema = _current(document.get("schemas") or (document.get("schema", {}),), "schema-id", schema_id)
    return json.dumps([_optional_field(f) for f in schema.get("fields") or ()], separators=(",", ":"))


def _optional_field(field: Document) -> dict[str, Any]:
    kept = {"id": field["id"], "name": field["name"], "required": False, "type": _optional(field["type"])}
    return {**kept, "doc": field["doc"]} if field.get("doc") else kept


def _optional(kind: Any) -> Any:
    match kind:
        case {"type": "struct", "fields": fields}:
            return {"type": "struct", "fields": [_optional_field(f) for f in fields]}
        case {"type": "list", "element": element}:
            return {**kind, "element": _optional(element), "element-required": False}
        case {"type": "map", "key": key, "value": value}:
            return {**kind, "key": _optional(key), "value": _optional(value), "value-required": False}
        case _:
            return kind


def columns_from_states(columns: Iterable[ColumnState]) -> str:
    """The same, where only the columns' names and types are known."""
    ids = iter(range(1, 1 << 31))

    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"id": next(ids), "name": name, "required": False, "type": type_of(kind)}

    def type_of(kind: Any) -> Any:
        match kind:
            case ["struct", inner]:
                return {"type": "struct", "fields": [field(f[0], f[1]) for f in inner]}
            case ["list", element, *_]:
                number = next(ids)
                return {"type": "list", "element-id": number, "element": type_of(element), "element-required": False}
            case ["map", key, value, *_]:
                keys, values = {"key-id": next(ids), "key": type_of(key)}, {"value-id": next(ids)}
                return {"type": "map", **keys, **values, "value": type_of(value), "value-required": False}
            case _:
                return kind

    return json.dumps([field(c.name, json.loads(c.type)) for c in columns], separators=(",", ":"))


# --- moving -------------------------------------------------------------------------------------------------------


def stands_as_wanted(
    move: ViewMove,
    found: Pointer | None,
    read: ReadView,
    as_wanted: Callable[[Document, ViewMove], bool] = is_as_wanted,
) -> bool:
    """Whether a move has been made already; raises what stands in its way."""
    location = found.location if found is not None else ""
    if found is not None and not found.is_view:
        raise ViewTaken(
            f"{move.relation} is a table: a view of a virtual environment cannot take its place",
            hint="drop or rename the table, or choose another name for the environment or the schema",
        )
    if location == move.before:
        # What is to be removed and is not there is no work either.
        return move.text is None and found is None
    if found is None:
        if move.text is None:
            return True
        raise _moved(move.relation, "it was dropped")
    document = read(found)
    if move.text is not None and document is not None and as_wanted(document, move):
        return True
    if move.before == "":
        raise ViewTaken(
            f"a view {move.relation} is there that the virtual environment has not made",
            hint="drop it, or choose another name for the environment or the schema",
        )
    raise _moved(move.relation, "another command or a manual statement replaced it")


def _moved(relation: Relation, what: str) -> Conflict:
    return Conflict(
        f"the view {relation} is not where it was: {what}; no view was changed",
        hint="run the command again: it starts from what is there now",
    )


def write_view(storage: Storage, folder: str, document: Document) -> str:
    """Write the metadata file of a view under a name that nobody has used, and tell where it is."""
    path = f"{folder}/metadata/00000-{os.urandom(16).hex()}.metadata.json"
    storage.write(path, json.dumps(document).encode())
    return path


def remove_written(storage: Storage, paths: Iterable[str]) -> None:
    """Remove files that nothing names, and folders that were made for them alone."""
    for path in paths:
        with suppress(OSError, LakeError):
            storage.remove(path)
        for folder in (parent_of(path), parent_of(parent_of(path))):
            storage.remove_if_empty(folder)
