"""The tables and columns of a project, and what each is made of. Starts no Java; the lake tells columns that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqb.build.kinds.scd2 import OWN
from sqb.compiled import Node, Project
from sqb.errors import BadSelector
from sqb.graph import closure, reversed_edges
from sqb.lake.iceberg import IcebergLake
from sqb.names import Relation, did_you_mean
from sqb.sql.lineage import Lineage, Origins, lineage_of

# A column of a node or source, by their names.
Ref = tuple[str, str]
Known = Callable[[str], Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class Traced:
    """A node or source with its columns, and what they are made of."""

    name: str
    type: str
    kind: str
    relation: Relation
    file: str = ""
    upstream: tuple[str, ...] = ()
    # Each column with the columns that its values are made of.
    columns: Mapping[str, tuple[Ref, ...]] = field(default_factory=dict)
    # The columns by which its rows are chosen, joined and grouped.
    rows_from: tuple[Ref, ...] = ()
    # Why its columns are not known, or not all of them; empty when they are.
    unknown: str = ""

    def spelled(self, column: str) -> str | None:
        """The name of a column as the table has it."""
        return next((c for c in self.columns if c.lower() == column.lower()), None)


@dataclass(frozen=True, slots=True)
class Focus:
    """What is asked about: the whole project, a table or a column."""

    node: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Tables in the order in which they are built, sources first."""

    target: str
    tables: Mapping[str, Traced]

    def downstream(self) -> Mapping[str, list[str]]:
        """Who reads each table."""
        return reversed_edges({name: one.upstream for name, one in self.tables.items()})

    def made_of(self, ref: Ref) -> tuple[Ref, ...]:
        """The columns that a column is made of."""
        name, column = ref
        return self.tables[name].columns.get(column, ()) if name in self.tables else ()

    def uses(self) -> Callable[[Ref], Sequence[Ref]]:
        """What each column is used for: columns, and tables (with no column) whose rows depend on it."""
        found: dict[Ref, dict[Ref, None]] = {}
        for name, one in self.tables.items():
            for column, refs in one.columns.items():
                for ref in refs:
                    found.setdefault(ref, {})[name, column] = None
            for ref in one.rows_from:
                found.setdefault(ref, {})[name, ""] = None
        return lambda ref: tuple(found.get(ref, ()))


def known_columns(project: Project, lake: IcebergLake) -> Known:
    """The columns of what stands in the lake, by the names of nodes and sources."""
    pointers = lake.pointers()
    folded = {str(r).lower(): r for r in pointers}
    named = {n.name: n.relation for n in project} | {e.name: e.relation for e in project.externals.values()}
    there = {name: r for name, relation in named.items() if (r := folded.get(str(relation).lower())) is not None}
    states = lake.tables(pointers[r] for r in set(there.values()))
    return lambda name: [c.name for c in states[there[name]].columns] if name in there else None


def trace(project: Project, known: Known, wanted: Iterable[str] | None = None) -> Graph:
    """The tables that are wanted with all that is above them, and what their columns are made of."""
    upstream = {n.name: n.upstream for n in project}
    chosen = closure(wanted, upstream) if wanted is not None else {*project.nodes, *project.externals}
    tables: dict[str, Traced] = {}
    for external in project.externals.values():
        if external.name in chosen:
            function = project.sources[external.name].function if external.name in project.sources else None
            columns = known(external.name) if function is None else [name for name, _ in function.columns]
            unknown = "" if columns is not None else "its columns are not known: it is not in the catalog"
            made = dict.fromkeys(columns or (), ())
            tables[external.name] = Traced(
                external.name,
                "source",
                "source" if function is None else "table function",
                external.relation,
                function.file if function is not None else "",
                columns=made,
                unknown=unknown,
            )
    for node in project:
        if node.name in chosen:
            tables[node.name] = _seed(node) if node.type == "seed" else _model(node, tables, known(node.name))
    return Graph(project.target, tables)


def _seed(node: Node) -> Traced:
    columns: Mapping[str, tuple[Ref, ...]] = {name: () for name, _ in node.settings["columns"]}
    return Traced(node.name, node.type, node.kind, node.relation, node.file, columns=columns)


def _model(node: Node, tables: Mapping[str, Traced], standing: Sequence[str] | None) -> Traced:
    inputs = [tables[name] for name in node.reads]
    columns = [None if one.unknown else list(one.columns) for one in inputs]
    lineage = Lineage(unknown=node.unread) if node.unread else lineage_of(node.sql, node.slots, columns)

    def refs(origins: Origins) -> tuple[Ref, ...]:
        found = {(inputs[slot].name, inputs[slot].spelled(column) or column) for slot, column in origins}
        return tuple(sorted(found))

    names = _names(lineage, standing)
    made = {name: refs(o.origins) for name, o in zip(names, lineage.outputs, strict=True)}
    opened = sorted({inputs[slot].name for slot in lineage.open})
    unknown = lineage.unknown or (f"the columns of {', '.join(opened)} are not known" if opened else "")
    if unknown:
        # Those that a star handed on have the names that the built table has.
        have = {name.lower() for name in made}
        more = [name for name in standing or () if name.lower() not in have]
        made |= {name: refs(frozenset((slot, name) for slot in lineage.open)) for name in more}
    if node.kind == "scd2":
        made |= {name: () for name in OWN if name not in made}
    return Traced(
        node.name,
        node.type,
        node.kind,
        node.relation,
        node.file,
        node.upstream,
        made,
        refs(lineage.indirect),
        unknown,
    )


def _names(lineage: Lineage, standing: Sequence[str] | None) -> list[str]:
    """The names of a result's columns; what has none in the query has that of the built table, if there is one."""
    if lineage.open or standing is None or len(standing) != len(lineage.outputs):
        return [o.name for o in lineage.outputs]
    return [there if o.unnamed else o.name for o, there in zip(lineage.outputs, standing, strict=True)]


def find_focus(text: str | None, project: Project, columns_of: Callable[[str], Traced]) -> Focus:
    """The table or column that a name means; an error with the nearest names when there is none."""
    if text is None:
        return Focus()
    whole = _named(text, project)
    if whole is not None:
        return Focus(whole)
    before, dot, column = text.rpartition(".")
    table = _named(before, project) if dot else None
    if table is None:
        names = [*project.nodes, *(n.rpartition(".")[2] for n in project.nodes), *project.externals]
        raise BadSelector(
            f'nothing is called "{text}"',
            hint=did_you_mean(text, names) or "write a model, seed or source, or one of their columns: model.column",
        )
    traced = columns_of(table)
    spelled = traced.spelled(column)
    if spelled is None:
        listed = f"columns: {', '.join(traced.columns)}" if traced.columns else None
        why = f": {traced.unknown}" if traced.unknown else ""
        hint = did_you_mean(column, traced.columns) or listed
        raise BadSelector(f'{table} has no column "{column}"{why}', hint=hint)
    return Focus(table, spelled)


def _named(text: str, project: Project) -> str | None:
    wanted = text.lower()
    everything = [*project.nodes, *project.externals]
    exact = [n for n in everything if n.lower() == wanted]
    relations = [n.name for n in (*project, *project.externals.values()) if str(n.relation).lower() == wanted]
    short = [n for n in everything if n.lower().rpartition(".")[2] == wanted]
    found = exact or relations or short
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise BadSelector(f'"{text}" could be {names}', hint=f"write the one that you mean, such as {min(found)}")
    return found[0] if found else None
