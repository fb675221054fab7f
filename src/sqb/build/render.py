"""The SQL that is run: a model's query with every reference replaced by a relation at the version of this build.

Views are read by their query and not by their name, so that what they read is pinned too.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqb.compiled import Node, Project
from sqb.compiled_sources import DeclaredSource, SourceQuery
from sqb.lake.files import Listing
from sqb.lake.port import ColumnState, TableState
from sqb.names import Relation, quote
from sqb.plan.observed import relation_at
from sqb.project.cursors import HIGHEST, LOWEST, literal, type_of
from sqb.sql.cursor import END, START, cursor_calls
from sqb.sql.spans import Reference, fill
from sqb.sql.time_travel import Travel, travel_of

Name = Callable[[str], str]
# A table at a version that a query asks for; None where that is left to Spark.
AtVersion = Callable[[str, Travel], str | None]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A query ready to run, and the way from its offsets back to the model's own text."""

    sql: str
    copied: tuple[tuple[int, int, int], ...]

    def origin(self, offset: int) -> int:
        """The offset in the model's query behind an offset of the SQL that was run."""
        index = bisect_right([at for at, _, _ in self.copied], offset) - 1
        at, origin, length = self.copied[max(index, 0)]
        return origin + min(max(offset - at, 0), length)


def render(
    node: Node,
    relation_text: Name,
    fixed_text: Name | None = None,
    window: Mapping[str, str] | None = None,
    at_version: AtVersion | None = None,
) -> Rendered:
    """A node's query with each reference as `relation_text` says, or `fixed_text` where it names a version itself.

    `window` has the texts for the ends of an `incremental` model's window; without one, it is as wide as can be.
    `at_version` has the texts of tables at the versions that the query asks for.
    """
    relations: dict[int, str] = {}
    slots = list(node.slots)
    for index, (name, slot) in enumerate(zip(node.reads, node.slots, strict=True)):
        if slot.fixed:
            slots[index], relations[index] = fixed_slot(node.sql, slot, name, fixed_text or relation_text, at_version)
        else:
            relations[index] = relation_text(name)
    for call in cursor_calls(node.sql) if node.kind == "incremental" else ():
        relations[len(slots)] = (window or _widest(node))[call.name]
        slots.append(Reference((call.name,), call.start, call.end))
    sql, copied = fill(node.sql.rstrip().rstrip(";"), slots, relations)
    return Rendered(sql, tuple(copied))


def fixed_slot(
    sql: str, slot: Reference, name: str, fixed_text: Name, at_version: AtVersion | None
) -> tuple[Reference, str]:
    """A reference with a version of its own: where a snapshot is known for it, in the place of all that asks for it."""
    travel = travel_of(sql, slot) if at_version is not None else None
    text = at_version(name, travel) if at_version is not None and travel is not None else None
    if travel is None or text is None:
        return slot, fixed_text(name)
    return replace(slot, end=travel.end), text


def _widest(node: Node) -> Mapping[str, str]:
    kind = type_of(node.settings)
    return {START: literal(LOWEST[kind], kind), END: literal(HIGHEST[kind], kind)}


def live_names(
    project: Project, catalog: str, externals: Mapping[str, Relation], files: Mapping[str, Listing] = {}
) -> Name:
    """References as plain relation names: what a view holds, and what `sqb compile` prints."""

    def name_of(name: str) -> str:
        node = project.nodes.get(name)
        source = project.sources.get(name) if node is None else None
        if source is not None and not source.is_table:
            return source_text(source, name_of, files)
        relation = node.relation if node else externals.get(name, project.externals[name].relation)
        return quote(catalog, relation.schema, relation.name)

    return name_of


def names_at_versions(
    project: Project,
    catalog: str,
    externals: Mapping[str, Relation],
    state_of: Callable[[Relation], TableState | None],
) -> AtVersion:
    """Tables at the snapshots that a build has found behind branches, tags and times; None where it has none."""

    def text_of(name: str, travel: Travel) -> str | None:
        relation = externals.get(name) if name not in project.nodes else None
        if relation is None:
            return None
        state = state_of(relation_at(project.externals[name].relation, travel))
        # A branch is read with the columns of today. By its snapshot's number it would be read with those of then.
        if state is None or state.snapshot_id is None or state.snapshot_columns != state.columns:
            return None
        return f"{quote(catalog, relation.schema, relation.name)} VERSION AS OF {state.snapshot_id}"

    return text_of


def pinned_names(
    project: Project,
    catalog: str,
    externals: Mapping[str, Relation],
    state_of: Callable[[Relation], TableState | None],
    files: Mapping[str, Listing] = {},
) -> Name:
    """References as relations at the versions that this build reads."""
    live = live_names(project, catalog, externals, files)
    at_version = names_at_versions(project, catalog, externals, state_of)

    def text_of(name: str) -> str:
        node = project.nodes.get(name)
        source = project.sources.get(name) if node is None else None
        if source is not None and not source.is_table:
            return source_text(source, text_of, files)
        if node is not None and node.kind == "view":
            return f"({render(node, text_of, live, at_version=at_version).sql}\n)"
        relation = node.relation if node else externals[name]
        table = quote(catalog, relation.schema, relation.name)
        state = state_of(relation)
        return pinned(table, state) if state is not None else table

    return text_of


def source_text(source: DeclaredSource, text_of: Name, files: Mapping[str, Listing]) -> str:
    """A source that is no table: its expression, the name of its function, or that by which Spark knows its files."""
    if source.expression is not None:
        return f"({query_text(source.expression, text_of)}\n)"
    if source.function is not None:
        return quote(source.name)
    listing = files.get(source.name)
    if listing is not None:
        return f"global_temp.{quote(listing.view)}"
    return f"{source.format}.{quote(source.path or '')}"


def query_text(query: SourceQuery, text_of: Name) -> str:
    """A query over sources with each name as `text_of` says."""
    relations = {index: text_of(name) for index, name in enumerate(query.reads)}
    return fill(query.sql.rstrip().rstrip(";"), query.slots, relations)[0]


def pinned(table: str, state: TableState) -> str:
    """A table at one snapshot, with the columns that it has now."""
    if state.is_view:
        return table
    if state.snapshot_id is None:
        return f"(SELECT * FROM {table} LIMIT 0)"
    at = f"{table} VERSION AS OF {state.snapshot_id}"
    if state.snapshot_columns == state.columns:
        return at
    # Time travel shows the columns of that snapshot; columns altered since are mapped by their ids.
    old = {c.id: c for c in state.snapshot_columns}
    return f"(SELECT {', '.join(_as_now(c, old.get(c.id)) for c in state.columns)} FROM {at})"


def _as_now(column: ColumnState, old: ColumnState | None) -> str:
    name = quote(column.name)
    kind = spark_type(json.loads(column.type))
    if old is None:
        return f"CAST(NULL AS {kind}) AS {name}"
    if old.type != column.type:
        return f"CAST({quote(old.name)} AS {kind}) AS {name}"
    return name if old.name == column.name else f"{quote(old.name)} AS {name}"


_SPARK = {"long": "BIGINT", "int": "INT", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "uuid": "STRING"}


def spark_type(kind: object) -> str:
    """An Iceberg type, in the notation of `ColumnState`, as Spark writes it."""
    match kind:
        case str() if kind.startswith("fixed"):
            return "BINARY"
        case str():
            return _SPARK.get(kind, kind.replace(" ", "").upper())
        case ["struct", list(fields)]:
            return "STRUCT<" + ", ".join(f"{quote(f[0])}: {spark_type(f[1])}" for f in fields) + ">"
        case ["list", element, *_]:
            return f"ARRAY<{spark_type(element)}>"
        case ["map", key, value, *_]:
            return f"MAP<{spark_type(key)}, {spark_type(value)}>"
        case _:
            return "STRING"
