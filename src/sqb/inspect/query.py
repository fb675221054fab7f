"""A query of the user's own, with models, seeds and sources called as in models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqb.build.node.render import build_live_names
from sqb.compile.model import Node, Project
from sqb.errors.base import Errors
from sqb.errors.call import CallError
from sqb.errors.project import BadSql
from sqb.lake.port import Lake
from sqb.lake.storage.file_sources import Listing
from sqb.names import Relation, quote
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.text.calls import may_mention
from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.spans import Piece, Reference, fill_references
from sqb.workspace import Workspace

_READS = frozenset({"select", "with", "from", "values", "table", "show", "describe", "desc", "explain"})


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


def resolve_query(sql: str, workspace: Workspace, lake: Lake, files: Mapping[str, Listing] = {}) -> ResolvedQuery:
    """The query with names of the project replaced by relations.

    Text that sqlglot cannot read is left to Spark.
    """
    from sqb.sql.analysis.parse import read_query  # loads sqlglot, which only queries need

    first = next((t.text.lower() for t in tokenize_code(sql) if t.kind == "word"), "")
    if first and first not in _READS:
        raise CallError(
            f"`sqb query` only reads, and {first.upper()} does more",
            hint="change tables through models; for anything else use Spark itself",
        )
    try:
        query = read_query(sql, {})
    except QueryProblem as problem:
        if problem.kind in ("empty", "many"):
            raise BadSql(problem.message, hint=problem.hint) from problem
        if problem.kind == "not a select" and first in ("with", "from"):
            raise CallError("`sqb query` only reads, and this does more", hint=problem.hint) from problem
        return ResolvedQuery(sql)
    catalog, project = workspace.connection.catalog.name, workspace.project
    existing = set(lake.list_pointers())
    text_of = build_live_names(project, catalog, {}, files)
    sources = {s.name.lower(): s.name for s in project.sources.values() if not s.is_table}
    relations, reads = {}, []
    for index, slot in enumerate(query.slots):
        source = sources.get(slot.name.lower())
        node = None if source else _find_node(slot, project, catalog, existing)
        relations[index] = text_of(source) if source else _format_relation(slot, node, catalog, existing)
        reads.append(source or (node.name if node is not None else ".".join(slot.parts)))
    named = tuple(sources[s.name.lower()] for s in query.slots if s.name.lower() in sources)
    return ResolvedQuery(fill_references(query.runnable, query.slots, relations)[0], named, tuple(reads))


def _find_node(slot: Reference, project: Project, catalog: str, relations: set[Relation]) -> Node | None:
    """The node that a name in a query means; what the catalog has under that very name comes first."""
    parts = _list_parts(slot, catalog)
    name = ".".join(parts)
    if Relation.parse(name) in relations and name not in project.nodes:
        return next((node for node in project if str(node.relation).lower() == name), None)
    for node in project:
        if name in (node.name.lower(), str(node.relation).lower()) or (
            len(parts) == 1 and node.name.lower().rpartition(".")[2] == name
        ):
            return node
    return None


def _format_relation(slot: Reference, node: Node | None, catalog: str, relations: set[Relation]) -> str:
    if node is not None:
        return quote(catalog, node.relation.schema, node.relation.name)
    parts = _list_parts(slot, catalog)
    return quote(catalog, *parts) if Relation.parse(".".join(parts)) in relations else quote(*slot.parts)


def _list_parts(slot: Reference, catalog: str) -> list[str]:
    parts = [p.lower() for p in slot.parts]
    return parts[1:] if len(parts) == 3 and parts[0] == catalog.lower() else parts
