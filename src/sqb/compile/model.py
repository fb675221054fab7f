"""The compiled project: every node with its resolved references and its identity, as plain data.

It is what planning and building work on, and what is kept in `.sqb/cache` between runs. It knows nothing of how the
files were read, nor of what is true in the lake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

from sqb.compile.python_model import PythonNode, dump_python, load_python
from sqb.compile.source_model import DeclaredSource, dump_source, load_source
from sqb.names import At, Relation, locate_offset
from sqb.project.values import ContractColumn
from sqb.sql.text.spans import Piece, Reference, find_piece, trace_offset

NodeType = Literal["model", "seed"]
When = Literal["pre", "post"]
How = Literal["clone", "copy", "defer"]


@dataclass(frozen=True, slots=True)
class External:
    """A table that the project reads and does not build."""

    name: str
    relation: Relation
    declared: bool
    # Where it is read first, for the error when it does not exist.
    at: At
    # dbt builds it; its name is the one that dbt knows it by.
    dbt: bool = False


@dataclass(frozen=True, slots=True)
class Hook:
    """A statement that runs around a model: its text, the names in it with the relations that they mean, its origin."""

    when: When
    text: str
    slots: tuple[Reference, ...]
    relations: tuple[Relation, ...]
    written: str
    at: At
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """The columns that a model promises, and where that is written."""

    columns: tuple[ContractColumn, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Lookup:
    """A table, or a view on the way to tables, that a log reads at its newest version and that drives nothing."""

    name: str
    # It is INNER JOINed: rows that find their match late are added.
    adds_late: bool = False
    # Where it is INNER JOINed: the slots of the query's template, and the table's columns that it is joined by there.
    slots: tuple[tuple[int, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """Something the project builds."""

    name: str
    type: NodeType
    kind: str
    relation: Relation
    file: str
    local_hash: str
    query_hash: str
    config_hash: str
    version_hash: str
    # Names of nodes and externals that it reads, each once, sorted.
    upstream: tuple[str, ...] = ()
    sql: str = ""
    slots: tuple[Reference, ...] = ()
    # The node or external behind each slot.
    reads: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    definition: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    volatile: tuple[str, ...] = ()
    # Its constraints, audits and warnings as plain data, and what makes them the same checks; "" for none.
    checks: tuple[Any, ...] = ()
    checks_hash: str = ""
    # Nodes and externals that only its checks read: they are built before it, and are not part of its identity.
    watches: tuple[str, ...] = ()
    # Why and where its query could not be analysed; empty when it was.
    unread: str = ""
    hooks: tuple[Hook, ...] = ()
    contract: Contract | None = None
    # What its query reads of each slot: see `sql.reading`. Empty where nothing is known.
    reading: tuple[tuple[str, ...], ...] = ()
    # Of a view: hashes of the columns that stand alone in its list, by name, and under "" of everything else.
    columns: Mapping[str, str] = field(default_factory=dict)
    # The hashes of the functions that its query uses, directly or not, and of its macros, which have an @ before them.
    functions: Mapping[str, str] = field(default_factory=dict)
    # Of the query before macros were expanded; "" when it has none.
    written_hash: str = ""
    # The table functions that it reads, and where.
    table_calls: tuple[tuple[str, At], ...] = ()
    # Of a model that is a function: where that is, what it calls what it reads, and how it is run. Else empty.
    python: Mapping[str, Any] = field(default_factory=dict)
    # Of the kind custom: the name, file, function and place of the materialisation that builds it.
    materialization: Mapping[str, Any] = field(default_factory=dict)
    # Of a log: what drives nothing, and the columns of the result that come from there; "*" for those not listed.
    lookups: tuple[Lookup, ...] = ()
    lookup_columns: tuple[str, ...] = ()

    @property
    def after(self) -> tuple[str, ...]:
        """Everything that has to be there before it: what it reads, and what its checks read."""
        return (*self.upstream, *(w for w in self.watches if w not in self.upstream))


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the project uses: what it is, and what it takes to let Spark call it."""

    name: str
    language: Literal["sql", "python"]
    file: str
    hash: str
    definition: str
    returns: str
    deterministic: bool = True
    # A model, a check or a hook uses it, directly or through another.
    used: bool = True
    # Of a Python function: what it is called in its file, and whether it makes rows: then it returns columns.
    symbol: str = ""
    is_table: bool = False


@dataclass(frozen=True, slots=True)
class UnitTest:
    """A test of one model: what it is, as hashes, and what it says, to be decoded by whoever runs it."""

    name: str
    model: str
    at: At
    # Of everything that the test says, and of the model with the test's own variables.
    hash: str
    local_hash: str
    # The names of nodes and externals that the model reads.
    reads: tuple[str, ...]
    body: str
    # The model as it is with the test's own variables, where that is another one.
    variant: Node | None = None


@dataclass(frozen=True, slots=True)
class OtherTarget:
    """Another target that this one looks at, how, and where each node stands there."""

    target: str
    how: How
    relations: Mapping[str, Relation]
    # The nodes that one build reads there.
    read: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Project:
    """All nodes, each after everything that it reads."""

    name: str
    target: str
    nodes: Mapping[str, Node]
    externals: Mapping[str, External]
    # Relations of nodes that are switched off or not of this target are not here.
    schemas: tuple[str, ...] = ()
    tests: tuple[UnitTest, ...] = ()
    other_target: OtherTarget | None = None
    # All declared sources, also those that nothing reads.
    sources: Mapping[str, DeclaredSource] = field(default_factory=dict)
    functions: tuple[Function, ...] = ()
    # Functions of `python/` that are run, hooks among them; they have no rows of their own.
    python: Mapping[str, PythonNode] = field(default_factory=dict)
    # The names of all nodes, Python nodes among them and hooks not, each after everything that it needs; only there
    # where the project has Python nodes.
    order: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    # The settings of Spark's sessions that can change a result: those of the connection, as it is opened.
    session: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Whether building this target runs loaders; those of a target that does not are left to others.
    loads: bool = True
    # The loader of each external that has one; plans ask for it once for every table that a node reads.
    loaders: Mapping[str, str] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        filled = {node.fills: node.name for node in self.python.values() if node.fills}
        object.__setattr__(self, "loaders", filled)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def walk(self) -> Iterator[Node | PythonNode]:
        """All nodes, Python nodes too, each after everything that it needs."""
        if not self.order:
            return iter(self.nodes.values())
        return (self.nodes.get(name) or self.python[name] for name in self.order)

    @property
    def graph(self) -> Mapping[str, Node | PythonNode]:
        """All nodes, Python nodes too; hooks stand beside the graph."""
        return {**self.nodes, **{n: p for n, p in self.python.items() if p.type != "hook"}}

    def list_edges(self) -> dict[str, tuple[str, ...]]:
        """What every node waits for: what it reads or depends on, and the loaders of sources that it sees."""
        return {name: (*node.after, *self.list_loaders_above(node.after)) for name, node in self.graph.items()}

    def list_loaders_above(self, names: Iterable[str]) -> tuple[str, ...]:
        """The loaders of the sources that are seen from here, through views and expressions."""
        loaders = self.loaders
        if not loaders:
            return ()
        loader_names: list[str] = []
        stack = list(names)
        while stack:
            name = stack.pop()
            node, source = self.nodes.get(name), self.sources.get(name)
            if name in loaders and loaders[name] not in loader_names:
                loader_names.append(loaders[name])
            if node is not None and node.kind == "view":
                stack.extend(node.upstream)
            elif source is not None and source.expression is not None:
                stack.extend(source.expression.reads)
        return tuple(loader_names)


def add_underlying_externals(
    externals: Mapping[str, External], sources: Mapping[str, DeclaredSource]
) -> dict[str, External]:
    """The externals that models read, and those that are read to know these: in expressions, and for freshness."""
    completed = dict(externals)
    stack = list(externals)
    while stack:
        source = sources.get(stack.pop())
        for name, relation in source.beneath.items() if source is not None else ():
            if name not in completed:
                assert source is not None
                completed[name] = External(name, relation, name in sources, source.at)
                stack.append(name)
    return dict(sorted(completed.items()))


def locate_source(node: Node, text: str, offset: int, length: int) -> At:
    """Where in a model's file an offset of its query came from; all of a call for what is inside of a function."""
    piece = find_piece(node.pieces, offset)
    if piece is not None and piece.within:
        length = piece.origin_end - piece.origin
    return locate_offset(text, trace_offset(node.pieces, offset), node.file, length)


def dump_project(project: Project) -> str:
    """A project as text."""
    externals = [
        [e.name, e.relation.schema, e.relation.name, e.declared, astuple(e.at), e.dbt]
        for e in project.externals.values()
    ]
    tests = [
        [t.name, t.model, astuple(t.at), t.hash, t.local_hash, t.reads, t.body, t.variant and _dump_node(t.variant)]
        for t in project.tests
    ]
    nodes = [_dump_node(n) for n in project]
    other = project.other_target
    elsewhere = other and [other.target, other.how, {n: [r.schema, r.name] for n, r in other.relations.items()}]
    sources = [dump_source(s) for s in project.sources.values()]
    functions = [astuple(f) for f in project.functions]
    python = [dump_python(p) for p in project.python.values()]
    document: list[Any] = [project.name, project.target, nodes, externals, project.schemas, tests, elsewhere, sources]
    document += [functions, python, project.order, project.variables]
    return json.dumps(document, separators=(",", ":"))


def _dump_node(n: Node) -> list[Any]:
    return [
        n.name,
        n.type,
        n.kind,
        [n.relation.schema, n.relation.name],
        n.file,
        [n.local_hash, n.query_hash, n.config_hash, n.version_hash],
        n.upstream,
        n.sql,
        [astuple(s) for s in n.slots],
        n.reads,
        [astuple(p) for p in n.pieces],
        n.settings,
        n.definition,
        n.tags,
        n.description,
        n.volatile,
        n.checks,
        n.checks_hash,
        n.watches,
        n.unread,
        [_dump_hook(h) for h in n.hooks],
        [[astuple(c) for c in n.contract.columns], astuple(n.contract.at)] if n.contract else None,
        n.reading,
        n.columns,
        n.functions,
        n.written_hash,
        [[name, astuple(at)] for name, at in n.table_calls],
        n.python,
        n.materialization,
        [astuple(lookup) for lookup in n.lookups],
        n.lookup_columns,
    ]


def load_project(text: str) -> Project:
    """The project in a text that `dump` made."""
    name, target, nodes, externals, schemas, tests, elsewhere, sources, functions, python, order, variables = (
        json.loads(text)
    )
    return Project(
        name,
        target,
        {n[0]: _load_node(n) for n in nodes},
        {e[0]: External(e[0], Relation(e[1], e[2]), e[3], At(*e[4]), e[5]) for e in externals},
        tuple(schemas),
        tuple(
            UnitTest(
                name, model, At(*at), test_hash, local, tuple(reads), body, _load_node(variant) if variant else None
            )
            for name, model, at, test_hash, local, reads, body, variant in tests
        ),
        _load_other_target(elsewhere),
        {s[0]: load_source(s) for s in sources},
        tuple(Function(*f) for f in functions),
        {p[0]: load_python(p) for p in python},
        tuple(order),
        variables,
    )


def _load_other_target(data: list[Any] | None) -> OtherTarget | None:
    return OtherTarget(data[0], data[1], {n: Relation(*r) for n, r in data[2].items()}) if data else None


def _dump_hook(hook: Hook) -> list[Any]:
    return [
        hook.when,
        hook.text,
        [astuple(s) for s in hook.slots],
        [[r.schema, r.name] for r in hook.relations],
        hook.written,
        astuple(hook.at),
        [astuple(p) for p in hook.pieces],
    ]


def _load_hook(h: list[Any]) -> Hook:
    when, text, slots, relations, written, at, pieces = h
    return Hook(
        when,
        text,
        tuple(_load_reference(s) for s in slots),
        tuple(Relation(*r) for r in relations),
        written,
        At(*at),
        tuple(Piece(*p) for p in pieces),
    )


def _load_reference(data: list[Any]) -> Reference:
    parts, start, end, alias, qualifiers, kind, fixed, whole = data
    return Reference(tuple(parts), start, end, alias, tuple(map(tuple, qualifiers)), kind, fixed, whole)


def _load_node(n: list[Any]) -> Node:
    local, query, config, version = n[5]
    return Node(
        n[0],
        n[1],
        n[2],
        Relation(*n[3]),
        n[4],
        local,
        query,
        config,
        version,
        tuple(n[6]),
        n[7],
        tuple(_load_reference(s) for s in n[8]),
        tuple(n[9]),
        tuple(Piece(*p) for p in n[10]),
        n[11],
        n[12],
        tuple(n[13]),
        n[14],
        tuple(n[15]),
        tuple(n[16]),
        n[17],
        tuple(n[18]),
        n[19],
        tuple(_load_hook(h) for h in n[20]),
        Contract(tuple(ContractColumn(*c) for c in n[21][0]), At(*n[21][1])) if n[21] else None,
        tuple(map(tuple, n[22])),
        n[23],
        n[24],
        n[25],
        tuple((name, At(*at)) for name, at in n[26]),
        n[27],
        n[28],
        tuple(Lookup(name, late, tuple((i, tuple(c)) for i, c in slots)) for name, late, slots in n[29]),
        tuple(n[30]),
    )
