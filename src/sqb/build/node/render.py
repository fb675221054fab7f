"""The SQL that is run: a model's query with every reference replaced by a relation at the version of this build.

Views are read by their query and not by their name, so that what they read is pinned too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqb.compile.model import Node, Project
from sqb.compile.source_model import DeclaredSource, SourceQuery
from sqb.lake.port import ColumnState, TableState
from sqb.lake.storage.file_sources import Listing
from sqb.light_dataclass import dataclass
from sqb.names import Relation, quote
from sqb.plan.observed import build_version_relation
from sqb.project.models.cursor import HIGHEST, LOWEST, format_literal, get_cursor_type
from sqb.sql.text.cursor_calls import END, START, iter_cursor_calls
from sqb.sql.text.spans import Reference, fill_references, trace_copy
from sqb.sql.text.time_travel import TimeTravel, parse_time_travel
from sqb.types.format import format_sql_type
from sqb.types.iceberg import read_stored_type

Name = Callable[[str], str]
# A table at a version that a query asks for; None where that is left to Spark.
AtVersion = Callable[[str, TimeTravel], str | None]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A query ready to run, and the way from its offsets back to the model's own text."""

    sql: str
    copied: tuple[tuple[int, int, int], ...]

    def map_offset(self, offset: int) -> int:
        """The offset in the model's query behind an offset of the SQL that was run."""
        return trace_copy(self.copied, offset)


def render_query(
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
        if slot.is_pinned:
            slots[index], relations[index] = resolve_fixed_slot(
                node.sql, slot, name, fixed_text or relation_text, at_version
            )
        else:
            relations[index] = relation_text(name)
    for call in iter_cursor_calls(node.sql) if node.kind == "incremental" else ():
        relations[len(slots)] = (window or _build_widest_window(node))[call.name]
        slots.append(Reference((call.name,), call.start, call.end))
    sql, copied = fill_references(node.sql.rstrip().rstrip(";"), slots, relations)
    return Rendered(sql, tuple(copied))


def resolve_fixed_slot(
    sql: str, slot: Reference, name: str, fixed_text: Name, at_version: AtVersion | None
) -> tuple[Reference, str]:
    """A reference with a version of its own: where a snapshot is known for it, in the place of all that asks for it."""
    travel = parse_time_travel(sql, slot) if at_version is not None else None
    text = at_version(name, travel) if at_version is not None and travel is not None else None
    if travel is None or text is None:
        return slot, fixed_text(name)
    return replace(slot, end=travel.end), text


def _build_widest_window(node: Node) -> Mapping[str, str]:
    kind = get_cursor_type(node.settings)
    return {START: format_literal(LOWEST[kind], kind), END: format_literal(HIGHEST[kind], kind)}


def build_live_names(
    project: Project, catalog: str, externals: Mapping[str, Relation], files: Mapping[str, Listing] = {}
) -> Name:
    """References as plain relation names: what a view holds, and what `sqb compile` prints."""

    def name_of(name: str) -> str:
        node = project.nodes.get(name)
        source = project.sources.get(name) if node is None else None
        if source is not None and not source.is_table:
            return format_source(source, name_of, files)
        relation = node.relation if node else externals.get(name, project.externals[name].relation)
        return quote(catalog, relation.schema, relation.name)

    return name_of


def build_version_names(
    project: Project,
    catalog: str,
    externals: Mapping[str, Relation],
    state_of: Callable[[Relation], TableState | None],
) -> AtVersion:
    """Tables at the snapshots that a build has found behind branches, tags and times; None where it has none."""

    def text_of(name: str, travel: TimeTravel) -> str | None:
        node = project.nodes.get(name)
        relation = node.relation if node is not None else externals.get(name)
        if relation is None:
            return None
        state = state_of(
            build_version_relation(node.relation if node is not None else project.externals[name].relation, travel)
        )
        # A branch is read with the columns of today. By its snapshot's number it would be read with those of then.
        if state is None or state.snapshot_id is None or state.snapshot_columns != state.columns:
            return None
        return f"{quote(catalog, relation.schema, relation.name)} VERSION AS OF {state.snapshot_id}"

    return text_of


def build_pinned_names(
    project: Project,
    catalog: str,
    externals: Mapping[str, Relation],
    state_of: Callable[[Relation], TableState | None],
    files: Mapping[str, Listing] = {},
) -> Name:
    """References as relations at the versions that this build reads."""
    live = build_live_names(project, catalog, externals, files)
    at_version = build_version_names(project, catalog, externals, state_of)

    def text_of(name: str) -> str:
        node = project.nodes.get(name)
        source = project.sources.get(name) if node is None else None
        if source is not None and not source.is_table:
            return format_source(source, text_of, files)
        if node is not None and node.kind == "view":
            return f"({render_query(node, text_of, live, at_version=at_version).sql}\n)"
        relation = node.relation if node else externals[name]
        table = quote(catalog, relation.schema, relation.name)
        state = state_of(relation)
        return format_pinned(table, state) if state is not None else table

    return text_of


def format_source(source: DeclaredSource, text_of: Name, files: Mapping[str, Listing]) -> str:
    """A source that is not a table: its expression, the name of its function, or the Spark view of its files."""
    if source.expression is not None:
        return f"({format_source_query(source.expression, text_of)}\n)"
    if source.function is not None:
        return quote(source.name)
    listing = files.get(source.name)
    if listing is not None:
        return f"global_temp.{quote(listing.view)}"
    return f"{source.format}.{quote(source.path or '')}"


def format_source_query(query: SourceQuery, text_of: Name) -> str:
    """A query over sources with each name as `text_of` says."""
    relations = {index: text_of(name) for index, name in enumerate(query.reads)}
    return fill_references(query.sql.rstrip().rstrip(";"), query.slots, relations)[0]


def format_pinned(table: str, state: TableState) -> str:
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
    return f"(SELECT {', '.join(_format_column_as_current(c, old.get(c.id)) for c in state.columns)} FROM {at})"


def _format_column_as_current(column: ColumnState, old: ColumnState | None) -> str:
    name = quote(column.name)
    kind = format_sql_type(read_stored_type(column.type))
    if old is None:
        return f"CAST(NULL AS {kind}) AS {name}"
    if old.type != column.type:
        return f"CAST({quote(old.name)} AS {kind}) AS {name}"
    return name if old.name == column.name else f"{quote(old.name)} AS {name}"
