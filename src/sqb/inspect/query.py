"""A query of the user's own, with models, seeds and sources called as in models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqb.build.node.render import build_live_names
from sqb.compile.model import Node, Project
from sqb.errors.base import Errors, SqbError
from sqb.errors.call import CallError, NotBuilt, UnknownTable
from sqb.errors.project import BadSql
from sqb.inspect.asked_query import AskedQuery
from sqb.lake.port import Lake
from sqb.lake.storage.file_sources import Listing
from sqb.names import At, Relation, find_nearest, quote, suggest_nearest
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.text.calls import may_mention
from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.spans import Piece, Reference, fill_references, trace_copy
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.sql.analysis.query import Query

_READS = frozenset({"select", "with", "from", "values", "table", "show", "describe", "desc", "explain"})
_THROUGH_MODELS = "tables are made by models: write the SELECT into models/, and `sqb build`"
# What to do instead of what only looks as if it could be asked here.
_INSTEAD = {
    "create": _THROUGH_MODELS,
    "insert": _THROUGH_MODELS,
    "merge": f"{_THROUGH_MODELS}; `kind merge` updates by key",
    "update": _THROUGH_MODELS,
    "delete": _THROUGH_MODELS,
    "truncate": _THROUGH_MODELS,
    "alter": "columns follow the model's query, and settings its header",
    "drop": "`sqb drop` removes the tables of models that are gone",
    "set": "settings of Spark belong under the connection, in sqlbuild_project.toml",
    "use": "write the schema before the table: SELECT * FROM staging.orders",
    "call": "`sqb janitor` does what a lake needs",
    "optimize": "`sqb janitor` does what a lake needs",
    "model": "that is the file of a model: `sqb show NAME` shows its rows",
}
# Schemas that are no schemas of the catalog: files, and what Spark itself has.
_NOT_IN_CATALOG = frozenset(
    {"parquet", "csv", "json", "orc", "text", "avro", "binaryfile", "iceberg", "global_temp", "session", "system"}
)
# Tables that Iceberg has beside each table.
_METADATA_TABLES = frozenset(
    [
        "all_data_files",
        "all_delete_files",
        "all_entries",
        "all_files",
        "all_manifests",
        "data_files",
        "delete_files",
        "entries",
        "files",
        "history",
        "manifests",
        "metadata_log_entries",
        "partitions",
        "position_deletes",
        "refs",
        "snapshots",
    ]
)
# Schemas that only sqb reads.
_INTERNAL = ("_sqlbuild", "__sqb_")


def expand_functions(sql: str, project: Project, root: Path) -> Expanded:
    """The SQL with the project's SQL functions in the place of their calls."""
    from sqb.compile.functions.definitions import (
        parse_functions,  # the parser is only loaded for queries that may call something
    )
    from sqb.sql.analysis.cache import AnalysisCache

    whole = Expanded(sql, (Piece(0, 0, len(sql), True),))
    if not may_mention(sql, [f.name for f in project.functions]):
        return whole
    errors = Errors()
    words = ExpansionContext(lambda _: None, lambda _: None, lambda _: None)
    texts = {f.file: f.definition for f in project.functions}
    functions = parse_functions(
        root, texts, words, AnalysisCache(root, ""), lambda p, at: BadSql(p.message, at=at), errors
    )
    errors.raise_any()
    try:
        inlined = functions.extend_words(words).inline
        return inlined(whole) if inlined is not None else whole
    except ExpansionProblem as problem:
        raise CallError(problem.message, hint=problem.hint) from problem


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A query as Spark is to run it, the sources in it that are not tables, and all that it reads, if that is known."""

    text: str
    sources: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    # What it was made of: as it was written, as it was parsed, and which runs of the parsed text were copied.
    asked: AskedQuery | None = None
    parsed: Query | None = None
    copied: tuple[tuple[int, int, int], ...] = ()
    # How much of the text stands before the query itself.
    lead: int = 0

    def locate(self, start: int, end: int) -> tuple[At | None, tuple[str, ...]]:
        """Where in what was written a span of the text is, and the line that shows it; None in what was added."""
        if self.asked is None or start < self.lead:
            return None, ()
        offset = trace_copy(self.copied, start - self.lead) if self.copied else start
        return self.asked.locate(offset, offset + end - start)


@dataclass(frozen=True, slots=True)
class Tables:
    """What names in a query may mean: nodes and sources of a project, and what the catalog has."""

    project: Project
    catalog: str
    existing: frozenset[Relation]
    # The text that stands for a node; its relation where there is none.
    node_text: Callable[[Node], str | None] = lambda node: None
    # Names that nothing has are refused; else they are left to Spark, which may know them.
    strict: bool = True


def resolve_query(
    sql: str,
    workspace: Workspace,
    lake: Lake,
    files: Mapping[str, Listing] = {},
    strict: bool = True,
    asked: AskedQuery | None = None,
) -> ResolvedQuery:
    """The query with names of the project replaced by relations; names that nothing has are refused.

    Text that sqlglot cannot read is left to Spark.
    """
    tables = Tables(workspace.project, workspace.connection.catalog.name, frozenset(lake.list_pointers()))
    return fill_tables(sql, replace(tables, strict=strict), files, asked)


def fill_tables(
    sql: str, tables: Tables, files: Mapping[str, Listing] = {}, asked: AskedQuery | None = None
) -> ResolvedQuery:
    """The query with its names as `tables` has them; `asked` is how its author wrote it."""
    asked = asked or AskedQuery.from_text(sql)
    query = parse_reading(sql, asked)
    if query is None:
        return ResolvedQuery(sql, asked=asked)
    project = tables.project
    text_of = build_live_names(project, tables.catalog, {}, files)
    sources = {s.name.lower(): s.name for s in project.sources.values() if not s.is_table}
    relations, reads, errors = {}, [], Errors()
    for index, slot in enumerate(query.slots):
        source = sources.get(slot.name.lower())
        node = None if source else find_node(slot, tables)
        try:
            relations[index] = text_of(source) if source else _format_relation(asked, slot, node, tables)
        except SqbError as error:
            errors.add(error)
        reads.append(source or (node.name if node is not None else ".".join(slot.parts)))
    errors.raise_any()
    named = tuple(sources[s.name.lower()] for s in query.slots if s.name.lower() in sources)
    text, copied = fill_references(query.runnable, query.slots, relations)
    # What is run in another form than it was written has no places.
    places = asked if query.runnable == sql else None
    return ResolvedQuery(text, named, tuple(reads), places, query, tuple(copied))


def parse_reading(sql: str, asked: AskedQuery | None = None) -> Query | None:
    """A query that only reads; None where only Spark can tell what it is. Anything else is refused."""
    from sqb.sql.analysis.parse import read_query  # loads sqlglot, which only queries need

    first = next((t.text.lower() for t in tokenize_code(sql) if t.kind == "word"), "")
    if first and first not in _READS:
        raise _refuse_word(first)
    try:
        return read_query(sql, {})
    except QueryProblem as problem:
        if problem.kind == "empty":
            raise BadSql(problem.message, hint=problem.hint) from problem
        if problem.kind == "many":
            at, evidence = (asked or AskedQuery.from_text(sql)).locate(problem.start, problem.end)
            raise BadSql(problem.message, at=at, hint="ask one query at a time", evidence=evidence) from problem
        if problem.kind == "not a select" and first in ("with", "from"):
            raise CallError("`sqb query` only reads, and this does more", hint=problem.hint) from problem
        return None


def _refuse_word(first: str) -> CallError:
    """Why what begins with a word is not run."""
    near = None if first in _INSTEAD else next(iter(find_nearest(first, {*_READS, *_INSTEAD})), None)
    if near is not None:
        return CallError(f'no query begins with "{first}"', hint=f"did you mean {near.upper()}?")
    return CallError(
        f"`sqb query` only reads, and {first.upper()} does more",
        hint=_INSTEAD.get(first, "change tables through models; for anything else use Spark itself"),
    )


def find_node(slot: Reference, tables: Tables) -> Node | None:
    """The node that a name in a query means; what the catalog has under that very name comes first."""
    parts, project = _list_parts(slot, tables.catalog), tables.project
    name = ".".join(parts)
    if Relation.parse(name) in tables.existing and name not in project.nodes:
        return next((node for node in project if str(node.relation).lower() == name), None)
    for node in project:
        if name in (node.name.lower(), str(node.relation).lower()) or (
            len(parts) == 1 and node.name.lower().rpartition(".")[2] == name
        ):
            return node
    return None


def _format_relation(asked: AskedQuery, slot: Reference, node: Node | None, tables: Tables) -> str:
    catalog, existing = tables.catalog, tables.existing
    if node is not None:
        text = tables.node_text(node)
        if text is None and tables.strict and node.relation not in existing:
            raise NotBuilt(
                f"{node.name} is not built in the target {tables.project.target}",
                hint=f"`sqb show {node.name}` shows its rows all the same, `sqb build -s +{node.name}` builds it",
            )
        return text or quote(catalog, node.relation.schema, node.relation.name)
    parts = _list_parts(slot, catalog)
    source = next((s for s in tables.project.sources.values() if s.name.lower() == ".".join(parts)), None)
    if source is not None and source.relation in existing:
        return quote(catalog, source.relation.schema, source.relation.name)
    if Relation.parse(".".join(parts)) in existing:
        return quote(catalog, *parts)
    if tables.strict and _is_unknown(parts, existing):
        at, evidence = asked.locate(slot.start, slot.end)
        hint = suggest_nearest(".".join(parts), _list_names(tables)) or "`sqb ls` lists what the project builds"
        raise UnknownTable(f'nothing is called "{".".join(slot.parts)}"', at=at, hint=hint, evidence=evidence)
    return quote(*slot.parts)


def _is_unknown(parts: Sequence[str], existing: Collection[Relation]) -> bool:
    """Whether Spark could not find it either: it is no table of the catalog, no file, and not about another table."""
    match parts:
        case [name]:
            return Relation("default", name) not in existing
        case [schema, name]:
            return schema not in _NOT_IN_CATALOG and name not in _METADATA_TABLES
        case _:
            return False


def _list_names(tables: Tables) -> list[str]:
    """What the tables that can be read are called."""
    nodes = [n for node in tables.project for n in (node.name, node.name.rpartition(".")[2])]
    relations = [str(r) for r in tables.existing if not any(word in str(r) for word in _INTERNAL)]
    return [*nodes, *tables.project.sources, *tables.project.externals, *relations]


def _list_parts(slot: Reference, catalog: str) -> list[str]:
    parts = [p.lower() for p in slot.parts]
    return parts[1:] if len(parts) == 3 and parts[0] == catalog.lower() else parts
