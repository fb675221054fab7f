"""Whether an input is as it was in what a node reads of it: those columns, and the rows in them.

An input that changed elsewhere has not changed for the node. What is not known counts as a change.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from sqb.compile.model import Node, Project
from sqb.compile.source_model import SourceQuery
from sqb.identity import digest
from sqb.sql.text.columns_read import ALL, ASKED, resolve_columns_read

if TYPE_CHECKING:
    from sqb.plan.observed import Version
    from sqb.plan.recorded.versions import RecordedVersion

# The name, the type as plain data in JSON, and the id of a column.
Field = tuple[str, str, int]
Read = frozenset[str]
EVERYTHING: Read = frozenset({ALL})
# Columns that Iceberg gives every table: they say where a row is stored, and compaction moves rows.
STORAGE = frozenset({"_file", "_pos", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"})


def resolve_column_reads(
    node: Node | SourceQuery, project: Project, requested: Read = EVERYTHING
) -> Mapping[str, Read]:
    """The columns that a query reads of each input, by its key, when `asked` is read of the query itself.

    Views and the expressions of sources are seen through.
    """
    reads: dict[str, Read] = {}
    # Without recursion, and each view once for the same columns: projects have chains of views, and diamonds of them.
    stack: list[tuple[Node | SourceQuery, Read]] = [(node, requested)]
    visited: set[tuple[str, Read]] = set()
    is_by_place = _is_view(node)
    while stack:
        query, asked = stack.pop()
        column_sets = query.reading if len(query.reading) == len(query.reads) else ((ALL,),) * len(query.reads)
        for name, columns in zip(query.reads, column_sets, strict=True):
            read = resolve_columns_read(frozenset(columns), asked)
            key, own, beneath = _resolve_name_read(name, project, read, is_by_place)
            reads[key] = reads.get(key, frozenset()) | own
            if beneath is not None and (name, read) not in visited:
                visited.add((name, read))
                stack.append((beneath, read))
    return reads


def _is_view(query: Node | SourceQuery) -> bool:
    return isinstance(query, Node) and query.kind == "view"


def _resolve_name_read(
    name: str, project: Project, read: Read, is_by_place: bool
) -> tuple[str, Read, Node | SourceQuery | None]:
    """The key of an input, what is read of it when these columns are read of its name, and the query that it is."""
    above = project.nodes.get(name)
    source = project.sources.get(name) if above is None else None
    if source is not None and not source.is_table:
        return f"source {name}", EVERYTHING, source.expression
    if above is not None and above.kind == "view":
        return above.get_input_key(is_by_place), read, above
    key = above.get_input_key(is_by_place) if above is not None else str(project.externals[name].relation)
    return key, read, None


def has_storage_reads(node: Node | SourceQuery, project: Project) -> bool:
    """Whether a query reads, itself or through views and expressions, where the rows of its tables are stored."""
    stack, visited = [node], {id(node)}
    while stack:
        query = stack.pop()
        if _names_storage(query.sql):
            return True
        for inlined in _list_inlined(query, project):
            if id(inlined) not in visited:
                visited.add(id(inlined))
                stack.append(inlined)
    return False


def _names_storage(sql: str) -> bool:
    text = sql.lower()
    if not any(name in text for name in STORAGE):
        return False
    from sqb.sql.text.lexer import tokenize_code  # hardly any model gets here

    return any(t.text.strip("`").lower() in STORAGE for t in tokenize_code(sql) if t.kind in ("word", "quoted"))


def _list_inlined(node: Node | SourceQuery, project: Project) -> list[Node | SourceQuery]:
    """The views and the expressions of sources whose queries are put in the places of their names."""
    nodes = [project.nodes[name] for name in node.reads if name in project.nodes]
    sources = [project.sources[name] for name in node.reads if name not in project.nodes and name in project.sources]
    views = [above for above in nodes if above.kind == "view" and above is not node]
    return [*views, *(source.expression for source in sources if source.expression is not None)]


def compute_view_identity(name: str, project: Project, requested: Read) -> str:
    """The identity of a view for a reader of these columns, views beneath it included."""
    memo, stack = project.memo, [(name, requested)]
    while stack:
        view, asked = stack[-1]
        node = project.nodes[view]
        reads = resolve_column_reads(node, project, asked)
        views = [u for u in node.upstream if u in project.nodes and project.nodes[u].kind == "view"]
        beneath = [(u, reads.get(project.nodes[u].get_input_key(is_by_place=True), EVERYTHING)) for u in views]
        unknown = [part for part in beneath if ("view as read", *part) not in memo]
        if unknown:
            stack += unknown
            continue
        stack.pop()
        memo["view as read", view, asked] = _digest_view(node, asked, [memo["view as read", *p] for p in beneath])
    identity: str = memo["view as read", name, requested]
    return identity


def _digest_view(node: Node, requested: Read, beneath: Sequence[str]) -> str:
    if not node.columns or is_everything(requested):
        return digest("view as read", node.local_hash, *beneath)
    column_texts = [
        f"{column} {text}" for column, text in sorted(node.columns.items()) if not column or column in requested
    ]
    return digest("columns of a view", *column_texts, "\0", *beneath)


def is_everything(read: Read) -> bool:
    """Whether every column counts, and their order."""
    return ALL in read or ASKED in read


def get_recorded_shape(recorded: RecordedVersion, now: Version) -> Sequence[Field] | None:
    """The columns that a table had when it was read; None when they were not recorded."""
    if not recorded.is_table:
        return None
    if recorded.schema_id is not None:
        key = f"{recorded.schema_id}:{recorded.columns}"
        if key == f"{now.schema_id}:{now.columns}":
            return now.shape
        if key in now.former:
            return now.former[key]
    if recorded.columns == now.columns:
        return now.shape
    return next((shape for key, shape in now.former.items() if key.partition(":")[2] == recorded.columns), None)


def list_column_differences(recorded: RecordedVersion, now: Version, read: Read) -> tuple[str, ...]:
    """What happened to the columns that are read, in words; empty when they are as they were."""
    then = get_recorded_shape(recorded, now)
    if then is None:
        return ("has other columns",)
    if then is now.shape:
        return ()
    old, new = ({f[0].lower(): f for f in shape} for shape in (then, now.shape))
    names = [*old, *(n for n in new if n not in old)] if is_everything(read) else sorted(read)
    texts = [text for n in names if (text := _format_difference(old.get(n), new.get(n)))]
    if not texts and is_everything(read) and [f[0] for f in then] != [f[0] for f in now.shape]:
        texts.append("has its columns in another order")
    return tuple(texts)


def _format_difference(old: Field | None, new: Field | None) -> str:
    match old, new:
        case None, (name, *_):
            return f'has a new column "{name}"'
        case (name, *_), None:
            return f'lost the column "{name}"'
        case (name, kind, _), (other, now, _) if kind != now:
            return f'changed the column "{other}" from {_format_type(kind)} to {_format_type(now)}'
        case (name, *_), (other, *_) if name != other:
            return f'renamed the column "{name}" to "{other}"'
        case _:
            return ""


def _format_type(text: str) -> str:
    """A column's type in Spark's words, as far as it is a simple one."""
    from sqb.types.iceberg import parse_stored_type  # only a plan with such a difference pays for it
    from sqb.types.model import ArrayType, MapType, StructType

    match parse_stored_type(text):
        case ArrayType():
            return "an array of another type"
        case MapType():
            return "a map of another type"
        case StructType():
            return "a struct of another type"
        case kind:
            return str(kind)


def is_same_as_read(recorded: RecordedVersion, now: Version, read: Read, columns_only: bool = False) -> bool:
    """Whether an input's columns that are read are as they were, and its rows in them."""
    if list_column_differences(recorded, now, read):
        return False
    return columns_only or _has_same_values(recorded, now, read)


def is_fresh_as_read(recorded: RecordedVersion, now: Version, read: Read) -> bool:
    """Whether a source counts as unchanged by the value that tells its freshness, and its columns that are read are."""
    if now.fresh is None or now.definition is not None:
        return False
    return now.fresh.is_covering(recorded) and not list_column_differences(recorded, now, read)


def _has_same_values(recorded: RecordedVersion, now: Version, read: Read) -> bool:
    if recorded.snapshot_id == now.snapshot_id or recorded.snapshot_id in now.same_rows:
        # The same files: a column has the same values as long as it is the same field of them.
        old, new = (
            {f[0].lower(): f[2] for f in shape} for shape in (get_recorded_shape(recorded, now) or (), now.shape)
        )
        names: Collection[str] = new if is_everything(read) else read
        return all(old.get(n) == new.get(n) for n in names)
    if recorded.content is None:
        return False
    if recorded.columns == now.columns and recorded.content == now.content:
        return True
    present = {f[0].lower() for f in now.shape}
    compared = present if is_everything(read) else present & read
    return any(
        content == recorded.content and token == recorded.columns and compared <= set(names)
        for content, token, names in parse_unchanged_columns(now.unchanged_columns)
    )


def parse_unchanged_columns(text: str) -> list[tuple[str, str, list[str]]]:
    """Earlier contents that a commit says its rows still have: the content, its columns, and in which of them."""
    try:
        return [(content, columns, list(names)) for content, columns, names in json.loads(text or "[]")]
    except (ValueError, TypeError):
        return []
