"""Declared sources linked to each other: expressions and questions about freshness read, their names resolved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqb import identity
from sqb.compile.functions.definitions import Functions
from sqb.compile.model import Node
from sqb.compile.resolve import Draft, Resolver, build_function_relation, list_slots, locate_reference
from sqb.compile.source_model import DeclaredSource, SourceQuery, TableFunction, Watch, list_nested_tokens
from sqb.errors.base import Errors
from sqb.errors.project import BadCall, BadFunction, BadSql, BadValue, Contradiction, Cycle, MissingKey, ProjectError
from sqb.graph import find_reachable, format_cycle, sort_topologically
from sqb.light_dataclass import dataclass
from sqb.names import At, Relation, parse_duration, quote
from sqb.project.values import Freshness, Setting, Source
from sqb.sql.analysis.query import Query, QueryProblem
from sqb.sql.text.calls import FUNCTION
from sqb.sql.text.expand import ExpansionContext, ExpansionProblem, expand

ReadQuery = Callable[[str, Mapping[int, str]], Query]
Explain = Callable[[ExpansionProblem, At], ProjectError]
Environment = dict[str, str]
POLICY = "run_despite_unchanged"


@dataclass(frozen=True, slots=True)
class SourceReader:
    """What is needed to read the queries in declarations of sources."""

    words: ExpansionContext
    read: ReadQuery
    explain: Explain
    resolver: Resolver
    errors: Errors
    # What of the environment their texts depended on.
    environment: Environment

    def read_sources(self, sources: Iterable[Source]) -> dict[str, DeclaredSource]:
        """All declared sources; what is wrong with them is reported."""
        declared_sources = {s.name: self._read_source(s) for s in sources}
        expressions = {s.name: s.expression.reads for s in declared_sources.values() if s.expression is not None}
        _, cycles = sort_topologically(expressions)
        for cycle in cycles:
            message = f"sources read each other in a circle: {format_cycle(cycle)}"
            self.errors.add(Cycle(message, at=declared_sources[cycle[0]].at, hint="take one of these references out"))
        return declared_sources

    def _read_source(self, source: Source) -> DeclaredSource:
        beneath: dict[str, Relation] = {}
        expression = None
        if source.expression is not None and source.expression_at is not None:
            expression = self._read_query(source.expression, source.expression_at, source, beneath)
        watch = self._build_watch(source, source.freshness, beneath) if source.freshness is not None else None
        token = ""
        if source.path is not None:
            token = identity.digest("files", source.path, source.format or "", json.dumps(dict(source.options)))
        elif expression is not None:
            token = expression.hash
        return DeclaredSource(
            source.name,
            source.relation or Relation.parse(source.name),
            source.at,
            source.description,
            source.path,
            source.format or "",
            source.options,
            source.managed,
            expression,
            watch,
            beneath,
            token,
            owner=source.owner,
            group=source.group,
        )

    def _build_watch(self, source: Source, freshness: Freshness, beneath: dict[str, Relation]) -> Watch:
        query = None
        if freshness.strategy == "sql" and freshness.sql is not None:
            query = self._read_query(freshness.sql, freshness.at, source, beneath)
        elif freshness.strategy == "column" and freshness.column is not None:
            query = self._build_maximum(source, freshness)
        policy = freshness.age_policy
        return Watch(
            freshness.strategy,
            freshness.type,
            freshness.column,
            freshness.filter,
            query,
            _parse_seconds(freshness.lag_tolerance),
            _parse_seconds(policy.warn_after),
            _parse_seconds(policy.error_after),
            identity.digest(freshness.strategy, freshness.type or "", query.hash if query else "")[:12],
            freshness.at,
        )

    def _build_maximum(self, source: Source, freshness: Freshness) -> SourceQuery | None:
        """The question for the greatest value of a column; it reads the source itself, whatever that is called."""
        assert freshness.column is not None
        where = f" WHERE {freshness.filter}\n" if freshness.filter else ""
        text = f"SELECT max({quote(*freshness.column.split('.'))}) FROM {quote(*source.name.split('.'))}{where}"
        query = self._parse_query(text, freshness.at)
        if query is None:
            return None
        own_slots = [s for s in query.slots if s.name.lower() == source.name.lower()]
        if len(own_slots) != len(query.slots):
            message = "a `filter` can only look at the source's own columns"
            self.errors.add(
                BadSql(message, at=freshness.at, hint="use the strategy `sql` for a query over several tables")
            )
            return None
        return _build_query(query, [source.name] * len(query.slots))

    def _read_query(self, text: str, at: At, source: Source, beneath: dict[str, Relation]) -> SourceQuery | None:
        query = self._parse_query(text, at)
        if query is None:
            return None
        known, self.resolver.externals = self.resolver.externals, {}
        reads = [self.resolver.resolve_in_source(slot, at, self.errors) for slot in query.slots]
        mine, self.resolver.externals = self.resolver.externals, known
        if source.expression is not None and source.name in mine:
            self.errors.add(Cycle(f"the source {source.name} reads itself", at=at))
            return None
        beneath |= {name: e.relation for name, e in mine.items() if name != source.name}
        return _build_query(query, reads) if all(reads) else None

    def _parse_query(self, text: str, at: At) -> Query | None:
        try:
            expanded = expand(text, 0, self.words)
            self.environment.update(expanded.environment)
            if expanded.python:
                message = f"a source cannot call {next(iter(expanded.python))}, which is a Python function"
                self.errors.add(BadCall(message, at=at, hint="call it in a model that reads the source"))
                return None
            return self.read(expanded.text, expanded.forced)
        except ExpansionProblem as problem:
            self.errors.add(self.explain(problem, at))
        except QueryProblem as problem:
            self.errors.add(BadSql(problem.message, at=at, hint=problem.hint))
        return None


def _build_query(query: Query, reads: list[str]) -> SourceQuery:
    by_slot = dict(zip((s.name.lower() for s in query.slots), reads, strict=True))
    logical = [by_slot[r.name.lower()].lower() for r in query.references]
    hash_ = identity.compute_query_hash(query.canonical, logical)
    # What could not be read might say anything, also what the time is.
    volatile = bool(query.volatile) or query.unread is not None
    return SourceQuery(query.runnable, query.slots, tuple(reads), hash_, volatile, query.reading)


def _parse_seconds(duration: str | None) -> float | None:
    return parse_duration(duration) if duration is not None else None


def refuse_views_of_files(nodes: Mapping[str, Node], sources: Mapping[str, DeclaredSource], errors: Errors) -> None:
    """Report views that read files: the catalog's views can name tables only."""
    for node in nodes.values():
        if node.kind != "view":
            continue
        for name in sorted(find_reachable(node.upstream, _map_expressions(sources))):
            if name in sources and sources[name].path is not None:
                message = (
                    f"{node.name} is a view and reads files (the source {name}), which views of the catalog cannot"
                )
                errors.add(Contradiction(message, at=At(node.file), hint="make the kind `table`"))


def _map_expressions(sources: Mapping[str, DeclaredSource]) -> dict[str, tuple[str, ...]]:
    return {s.name: s.expression.reads for s in sources.values() if s.expression is not None}


def refuse_untold_policies(
    nodes: Mapping[str, Node],
    settings: Callable[[str], Mapping[str, Setting]],
    sources: Mapping[str, DeclaredSource],
    errors: Errors,
) -> None:
    """Report `run_despite_unchanged` that is not a duration, or one that has no source to count from."""
    for node in nodes.values():
        setting = settings(node.name).get(POLICY)
        if setting is None or setting.value == "always":
            continue
        if parse_duration(str(setting.value)) is None:
            message = f'`{POLICY}` must be always or a duration, not "{setting.value}"'
            errors.add(BadValue(message, at=setting.at, hint="such as always, 90m, 24h or 30d"))
            continue
        upstream = {n.name: n.upstream for n in nodes.values()} | _map_expressions(sources)
        above = (sources.get(name) for name in find_reachable([node.name], upstream))
        if not any(s is not None and s.watch is not None and s.watch.is_timestamp for s in above):
            message = f"`{POLICY} {setting.value}` counts from the freshness of a source, and {node.name} has none"
            hint = "give a source that it reads `freshness` with `type: timestamp` in sources/, or write `always`"
            errors.add(MissingKey(message, at=setting.at, hint=hint))


def add_source_tokens(node: Node, sources: Mapping[str, DeclaredSource]) -> Node:
    """The node, its version depending on what the sources are that it reads."""
    tokens = [sources[u].token for u in node.upstream if u in sources and sources[u].token]
    tokens += list_nested_tokens(node.upstream, sources)
    return replace(node, version_hash=identity.compute_version_hash(node.version_hash, tokens)) if tokens else node


def add_table_functions(
    declared: Mapping[str, DeclaredSource], sources: Iterable[Source], functions: Functions, errors: Errors
) -> dict[str, DeclaredSource]:
    """The declared sources and the table functions; one name for both is reported."""
    completed = dict(declared)
    named = {s.name.lower(): s for s in sources}
    for name, function in functions.tables.items():
        if name in named:
            message = f"the table function {name} is called like the source in {named[name].at.file}"
            errors.add(BadFunction(message, at=function.at, hint="rename one of the two"))
            continue
        made = TableFunction(function.file, function.symbol, function.columns, function.versioned)
        token = identity.digest("table function", function.returns)
        completed[name] = DeclaredSource(name, build_function_relation(name), function.at, token=token, function=made)
    return completed


def list_table_calls(draft: Draft) -> tuple[tuple[str, At], ...]:
    """The table functions that a model reads, each with the first place where it does."""
    calls: dict[str, At] = {}
    for slot in list_slots(draft):
        if slot.kind == FUNCTION and slot.name.lower() not in calls:
            calls[slot.name.lower()] = locate_reference(draft, slot)
    return tuple(calls.items())
