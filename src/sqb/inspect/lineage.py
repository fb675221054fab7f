"""The tables and columns of a project, and what each is made of. Starts no Java; the lake tells columns that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqb.compile.model import Exposure, Node, Project
from sqb.errors.call import BadSelector
from sqb.graph import find_reachable, reverse_edges
from sqb.lake.port import Lake
from sqb.names import Relation, suggest_nearest
from sqb.project.models.kinds import list_added_columns
from sqb.sql.analysis.lineage import Lineage, Origins, trace_lineage
from sqb.sql.text.spans import Reference

# A column of a node or source, by their names.
Ref = tuple[str, str]
ColumnLookup = Callable[[str], Sequence[str] | None]
# The lineage of a query by its text and slots, over the columns of what is in the slots.
Trace = Callable[[str, Sequence[Reference], Sequence[Sequence[str] | None]], Lineage]


@dataclass(frozen=True, slots=True)
class TableLineage:
    """A node or source with its columns, and what they are made of."""

    name: str
    type: str
    kind: str
    # None for an exposure, which is no table.
    relation: Relation | None
    file: str = ""
    upstream: tuple[str, ...] = ()
    # Each column with the columns that its values are made of.
    columns: Mapping[str, tuple[Ref, ...]] = field(default_factory=dict)
    # The columns by which its rows are chosen, joined and grouped.
    rows_from: tuple[Ref, ...] = ()
    # Why its columns are not known, or not all of them; empty when they are.
    unknown: str = ""
    owner: str = ""
    group: str = ""
    url: str = ""

    def find_column(self, column: str) -> str | None:
        """The name of a column as the table has it."""
        return next((c for c in self.columns if c.lower() == column.lower()), None)


@dataclass(frozen=True, slots=True)
class Focus:
    """What is asked about: the whole project, a table or a column."""

    node: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """Tables in the order in which they are built, sources first."""

    target: str
    tables: Mapping[str, TableLineage]

    def map_downstream(self) -> Mapping[str, list[str]]:
        """Who reads each table."""
        return reverse_edges({name: table.upstream for name, table in self.tables.items()})

    def get_origins(self, ref: Ref) -> tuple[Ref, ...]:
        """The columns that a column is made of."""
        name, column = ref
        return self.tables[name].columns.get(column, ()) if name in self.tables else ()

    def build_uses(self) -> Callable[[Ref], Sequence[Ref]]:
        """What each column is used for: columns, and tables (with no column) whose rows depend on it."""
        uses: dict[Ref, dict[Ref, None]] = {}
        for name, table in self.tables.items():
            for column, refs in table.columns.items():
                for ref in refs:
                    uses.setdefault(ref, {})[name, column] = None
            for ref in table.rows_from:
                uses.setdefault(ref, {})[name, ""] = None
        return lambda ref: tuple(uses.get(ref, ()))


def build_column_lookup(project: Project, lake: Lake) -> ColumnLookup:
    """Look up the columns of relations in the lake, by the names of nodes and sources."""
    pointers = lake.list_pointers()
    folded = {str(r).lower(): r for r in pointers}
    named = {n.name: n.relation for n in project} | {e.name: e.relation for e in project.externals.values()}
    relations = {name: r for name, relation in named.items() if (r := folded.get(str(relation).lower())) is not None}
    states = lake.read_tables(pointers[r] for r in set(relations.values()))
    return lambda name: [c.name for c in states[relations[name]].columns] if name in relations else None


def trace_project(
    project: Project, lookup: ColumnLookup, names: Iterable[str] | None = None, trace: Trace = trace_lineage
) -> LineageGraph:
    """The tables that are wanted with all that is above them, and what their columns are made of."""
    upstream = {n.name: n.upstream for n in project} | project.map_exposures()
    chosen = find_reachable(names, upstream) if names is not None else {*project.nodes, *project.externals}
    tables: dict[str, TableLineage] = {}
    for external in project.externals.values():
        if external.name in chosen:
            function = project.sources[external.name].function if external.name in project.sources else None
            columns = lookup(external.name) if function is None else [name for name, _ in function.columns]
            unknown = "" if columns is not None else "its columns are not known: it is not in the catalog"
            columns_made = dict.fromkeys(columns or (), ())
            tables[external.name] = TableLineage(
                external.name,
                "source",
                "source" if function is None else "table function",
                external.relation,
                function.file if function is not None else "",
                columns=columns_made,
                unknown=unknown,
                owner=project.sources[external.name].owner if external.name in project.sources else "",
                group=project.sources[external.name].group if external.name in project.sources else "",
            )
    for node in project:
        if node.name in chosen:
            traced = _trace_seed(node) if node.type == "seed" else trace_model(node, tables, lookup(node.name), trace)
            owner, group = node.settings.get("owner", ""), node.settings.get("group", "")
            tables[node.name] = replace(traced, owner=owner, group=group) if owner or group else traced
    for exposure in project.exposures.values():
        if names is None or exposure.name in chosen or any(name in chosen for name in exposure.depends_on):
            tables[exposure.name] = _trace_exposure(exposure, tables)
    return LineageGraph(project.target, tables)


def _trace_exposure(exposure: Exposure, tables: Mapping[str, TableLineage]) -> TableLineage:
    """An exposure, as if it were a table: it shows the columns that it names, and else all of what it reads."""
    read = [name for name in exposure.depends_on if name in tables]
    columns: dict[str, tuple[Ref, ...]] = {}
    for name in read:
        for column in exposure.columns.get(name) or tables[name].columns:
            spelled = tables[name].find_column(column) or column
            columns[spelled] = (*columns.get(spelled, ()), (name, spelled))
    return TableLineage(
        exposure.name,
        "exposure",
        exposure.type,
        None,
        exposure.at.file,
        tuple(read),
        columns,
        owner=exposure.owner,
        url=exposure.url,
    )


def _trace_seed(node: Node) -> TableLineage:
    columns: Mapping[str, tuple[Ref, ...]] = {name: () for name, _ in node.settings["columns"]}
    return TableLineage(node.name, node.type, node.kind, node.relation, node.file, columns=columns)


def trace_model(
    node: Node, tables: Mapping[str, TableLineage], table_columns: Sequence[str] | None, trace: Trace
) -> TableLineage:
    """A model, and what its columns are made of: `tables` has what it reads."""
    inputs = [tables[name] for name in node.reads]
    columns = [None if one.unknown else list(one.columns) for one in inputs]
    lineage = Lineage(unknown_reason=node.unread) if node.unread else trace(node.sql, node.slots, columns)

    def refs(origins: Origins) -> tuple[Ref, ...]:
        refs = {(inputs[slot].name, inputs[slot].find_column(column) or column) for slot, column in origins}
        return tuple(sorted(refs))

    names = _list_result_names(lineage, table_columns)
    traced = {name: refs(o.origins) for name, o in zip(names, lineage.outputs, strict=True)}
    opened = sorted({inputs[slot].name for slot in lineage.open_slots})
    unknown = lineage.unknown_reason or (f"the columns of {', '.join(opened)} are not known" if opened else "")
    if unknown:
        # Those that a star handed on have the names that the built table has.
        traced_names = {name.lower() for name in traced}
        more = [name for name in table_columns or () if name.lower() not in traced_names]
        traced |= {name: refs(frozenset((slot, name) for slot in lineage.open_slots)) for name in more}
    traced |= {name: () for name, _ in list_added_columns(node.kind) if name not in traced}
    return TableLineage(
        node.name,
        node.type,
        node.kind,
        node.relation,
        node.file,
        node.upstream,
        traced,
        refs(lineage.indirect),
        unknown,
    )


def _list_result_names(lineage: Lineage, table_columns: Sequence[str] | None) -> list[str]:
    """The names of a result's columns; what has none in the query has that of the built table, if there is one."""
    if lineage.open_slots or table_columns is None or len(table_columns) != len(lineage.outputs):
        return [o.name for o in lineage.outputs]
    return [
        table_name if o.is_unnamed else o.name for o, table_name in zip(lineage.outputs, table_columns, strict=True)
    ]


def find_focus(text: str | None, project: Project, columns_of: Callable[[str], TableLineage]) -> Focus:
    """The table or column that a name means; an error with the nearest names when there is none."""
    if text is None:
        return Focus()
    whole = _find_named(text, project)
    if whole is not None:
        return Focus(whole)
    before, dot, column = text.rpartition(".")
    table = _find_named(before, project) if dot else None
    if table is None:
        names = [*project.nodes, *(n.rpartition(".")[2] for n in project.nodes), *project.externals, *project.exposures]
        raise BadSelector(
            f'nothing is called "{text}"',
            hint=suggest_nearest(text, names) or "write a model, seed or source, or one of their columns: model.column",
        )
    traced = columns_of(table)
    spelled = traced.find_column(column)
    if spelled is None:
        listed = f"columns: {', '.join(traced.columns)}" if traced.columns else None
        why = f": {traced.unknown}" if traced.unknown else ""
        hint = suggest_nearest(column, traced.columns) or listed
        raise BadSelector(f'{table} has no column "{column}"{why}', hint=hint)
    return Focus(table, spelled)


def _find_named(text: str, project: Project) -> str | None:
    """The node, source or exposure that a text names, by its name, its relation or the last part of its name."""
    lowered = text.lower()
    everything = [*project.nodes, *project.externals, *project.exposures]
    exact = [n for n in everything if n.lower() == lowered]
    relations = [n.name for n in (*project, *project.externals.values()) if str(n.relation).lower() == lowered]
    short = [n for n in everything if n.lower().rpartition(".")[2] == lowered]
    matches = exact or relations or short
    if len(matches) > 1:
        names = ", ".join(sorted(matches))
        raise BadSelector(f'"{text}" could be {names}', hint=f"write the one that you mean, such as {min(matches)}")
    return matches[0] if matches else None
