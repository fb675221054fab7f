"""Whether an input is as it was in what a node reads of it: those columns, and the rows in them.

An input that changed elsewhere has not changed for the node. Whatever cannot be told counts as a change.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqb.compiled import Node, Project
from sqb.compiled_sources import SourceQuery
from sqb.identity import digest
from sqb.sql.reading import ALL, ASKED, through

if TYPE_CHECKING:
    from sqb.plan.observed import Version

# The name, the type as plain data in JSON, and the id of a column.
Field = tuple[str, str, int]
Read = frozenset[str]
EVERYTHING: Read = frozenset({ALL})
# Columns that Iceberg gives every table: they say where a row is stored, and compaction moves rows.
STORAGE = frozenset({"_file", "_pos", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"})
_SPARK_WORDS = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}


def reads_of(node: Node | SourceQuery, project: Project, asked: Read = EVERYTHING) -> Mapping[str, Read]:
    """The columns that a query reads of each input, by its key, when `asked` is read of the query itself.

    Views and the expressions of sources are seen through.
    """
    found: dict[str, Read] = {}
    known = node.reading if len(node.reading) == len(node.reads) else ((ALL,),) * len(node.reads)
    for name, columns in zip(node.reads, known, strict=True):
        read = through(frozenset(columns), asked)
        for key, more in _reads_of_name(name, project, read).items():
            found[key] = found.get(key, frozenset()) | more
    return found


def _reads_of_name(name: str, project: Project, read: Read) -> Mapping[str, Read]:
    """The columns of each input that are read when these are read of a name, by the inputs' keys."""
    above = project.nodes.get(name)
    source = project.sources.get(name) if above is None else None
    if source is not None and not source.is_table:
        query = source.expression
        beneath = reads_of(query, project, read) if query is not None else {}
        return {f"source {name}": EVERYTHING, **beneath}
    if above is not None and above.kind == "view":
        return {f"view {name}": read, **reads_of(above, project, read)}
    return {str(above.relation if above is not None else project.externals[name].relation): read}


def reads_storage(node: Node, project: Project) -> bool:
    """Whether a node reads, itself or through views, where the rows of its tables are stored."""
    if any(name in node.sql.lower() for name in STORAGE):
        from sqb.sql.lexer import code  # hardly any model gets here

        if any(t.text.strip("`").lower() in STORAGE for t in code(node.sql) if t.kind in ("word", "quoted")):
            return True
    views = (project.nodes[name] for name in node.reads if name in project.nodes and name != node.name)
    return any(reads_storage(view, project) for view in views if view.kind == "view")


def view_as_read(name: str, project: Project, asked: Read) -> str:
    """The identity of a view for somebody who reads these columns of it, views beneath it included."""
    node = project.nodes[name]
    reads = reads_of(node, project, asked)
    beneath = [
        view_as_read(u, project, reads.get(f"view {u}", EVERYTHING))
        for u in node.upstream
        if u in project.nodes and project.nodes[u].kind == "view"
    ]
    if not node.columns or is_everything(asked):
        return digest("view as read", node.local_hash, *beneath)
    shown = [f"{column} {text}" for column, text in sorted(node.columns.items()) if not column or column in asked]
    return digest("columns of a view", *shown, "\0", *beneath)


def is_everything(read: Read) -> bool:
    """Whether every column counts, and their order."""
    return ALL in read or ASKED in read


def shape_then(recorded: Sequence[Any], now: Version) -> Sequence[Field] | None:
    """The columns that an input had when it was read; None when nobody remembers."""
    if len(recorded) > 3:
        key = f"{recorded[3]}:{recorded[2]}"
        if key == f"{now.schema_id}:{now.columns}":
            return now.shape
        if key in now.former:
            return now.former[key]
    if recorded[2] == now.columns:
        return now.shape
    return next((shape for key, shape in now.former.items() if key.partition(":")[2] == recorded[2]), None)


def differences(recorded: Sequence[Any], now: Version, read: Read) -> tuple[str, ...]:
    """What happened to the columns that are read, in words; empty when they are as they were."""
    then = shape_then(recorded, now)
    if then is None:
        return ("has other columns",)
    if then is now.shape:
        return ()
    old, new = ({f[0].lower(): f for f in shape} for shape in (then, now.shape))
    names = [*old, *(n for n in new if n not in old)] if is_everything(read) else sorted(read)
    found = [text for n in names if (text := _difference(old.get(n), new.get(n)))]
    if not found and is_everything(read) and [f[0] for f in then] != [f[0] for f in now.shape]:
        found.append("has its columns in another order")
    return tuple(found)


def _difference(old: Field | None, new: Field | None) -> str:
    match old, new:
        case None, (name, *_):
            return f'has a new column "{name}"'
        case (name, *_), None:
            return f'lost the column "{name}"'
        case (name, kind, _), (other, now, _) if kind != now:
            return f'changed the column "{other}" from {_type_text(kind)} to {_type_text(now)}'
        case (name, *_), (other, *_) if name != other:
            return f'renamed the column "{name}" to "{other}"'
        case _:
            return ""


def _type_text(kind: str) -> str:
    """A column's type in Spark's words, as far as it is a simple one."""
    found = json.loads(kind)
    if isinstance(found, list):
        return {"list": "an array"}.get(found[0], f"a {found[0]}") + " of another type"
    return _SPARK_WORDS.get(found, str(found).replace(" ", ""))


def same_as_read(recorded: Sequence[Any], now: Version, read: Read, columns_only: bool = False) -> bool:
    """Whether an input's columns that are read are as they were, and its rows in them."""
    if len(recorded) < 3 or differences(recorded, now, read):
        return False
    return columns_only or _same_values(recorded, now, read)


def is_fresh_as_read(recorded: Sequence[Any], now: Version, read: Read) -> bool:
    """Whether a source counts as unchanged by the value that tells its freshness, and its columns that are read are."""
    if now.fresh is None or now.definition is not None or len(recorded) < 3:
        return False
    return now.fresh.covers(list(recorded[3:])) and not differences(recorded, now, read)


def _same_values(recorded: Sequence[Any], now: Version, read: Read) -> bool:
    if recorded[0] == now.snapshot_id or recorded[0] in now.same_rows:
        # The same files: a column has the same values as long as it is the same field of them.
        old, new = ({f[0].lower(): f[2] for f in shape} for shape in (shape_then(recorded, now) or (), now.shape))
        names: Collection[str] = new if is_everything(read) else read
        return all(old.get(n) == new.get(n) for n in names)
    if recorded[1] is None:
        return False
    if recorded[2] == now.columns and recorded[1] == now.content:
        return True
    present = {f[0].lower() for f in now.shape}
    wanted = present if is_everything(read) else present & read
    return any(
        content == recorded[1] and token == recorded[2] and wanted <= set(names)
        for content, token, names in kept_contents(now.kept)
    )


def kept_contents(text: str) -> list[tuple[str, str, list[str]]]:
    """Earlier contents that a commit says its rows still have: the content, its columns, and in which of them."""
    try:
        return [(content, columns, list(names)) for content, columns, names in json.loads(text or "[]")]
    except (ValueError, TypeError):
        return []
