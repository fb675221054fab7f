"""The compiled project: every node with its resolved references and its identity, as plain data.

It is what planning and building work on, and what is kept in `.sqb/cache` between runs. It knows nothing of how the
files were read, nor of what is true in the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from sqb.checks.node_checks import NodeChecks
from sqb.compile.python.model import PythonNode
from sqb.compile.source_model import DeclaredSource
from sqb.light_dataclass import dataclass
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
class Exposure:
    """Something that people use of the project: a dashboard, a notebook, an application; who it belongs to."""

    name: str
    type: str
    at: At
    # The nodes and externals that it reads, and the columns of each, where it says which; none for all.
    depends_on: tuple[str, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owner: str = ""
    description: str = ""
    url: str = ""


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
    # Its constraints, audits and warnings, and what makes them the same checks; "" for none.
    checks: NodeChecks = NodeChecks()
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
    # What it was called before, and where its relation was then, the newest first.
    former_names: tuple[str, ...] = ()
    former_relations: tuple[Relation, ...] = ()

    def get_input_key(self, is_by_place: bool = False) -> str:
        """What it is called in the records of its readers: by its first name, so that another one changes nothing.

        The text of a view in the catalog names places, so that views know it by the one that it has now.
        """
        if self.kind == "view":
            return f"view {self.name if is_by_place or not self.former_names else self.former_names[-1]}"
        return str(self.relation if is_by_place or not self.former_relations else self.former_relations[-1])

    @property
    def after(self) -> tuple[str, ...]:
        """Everything that has to be there before it: what it reads, and what its checks read."""
        if not self.watches:
            return self.upstream
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
    """Another target that this one reads from, how, and the relation of each node there."""

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
    # What people use of it, by name.
    exposures: Mapping[str, Exposure] = field(default_factory=dict)
    # The loader of each external that has one; plans ask for it once for every table that a node reads.
    loaders: Mapping[str, str] = field(init=False, repr=False, compare=False, default_factory=dict)
    # What was derived from the project and is asked for again and again in one plan, by the question and the name.
    memo: dict[tuple[Any, ...], Any] = field(init=False, repr=False, compare=False, default_factory=dict)

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
        """All nodes, Python nodes too; hooks are beside the graph."""
        return {**self.nodes, **{n: p for n, p in self.python.items() if p.type != "hook"}}

    def map_exposures(self) -> dict[str, tuple[str, ...]]:
        """What each exposure depends on."""
        return {name: exposure.depends_on for name, exposure in self.exposures.items()}

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
