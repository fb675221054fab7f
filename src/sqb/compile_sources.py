"""Declared sources linked to each other: expressions and questions about freshness read, their names resolved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqb import identity
from sqb.compiled import Node
from sqb.compiled_sources import DeclaredSource, SourceQuery, Watch
from sqb.errors import BadCall, BadSql, BadValue, Contradiction, Cycle, Errors, MissingKey, ProjectError
from sqb.graph import circle_text, closure, ordered
from sqb.names import At, Relation, duration_seconds, quote
from sqb.project.values import Freshness, Setting, Source
from sqb.resolve import Resolver
from sqb.sql.expand import ExpansionProblem, Words, expand
from sqb.sql.query import Query, QueryProblem

ReadQuery = Callable[[str, Mapping[int, str]], Query]
Explain = Callable[[ExpansionProblem, At], ProjectError]
Environment = dict[str, str]
POLICY = "run_despite_unchanged"


@dataclass(frozen=True, slots=True)
class SourceReader:
    """What is needed to read the queries in declarations of sources."""

    words: Words
    read: ReadQuery
    explain: Explain
    resolver: Resolver
    errors: Errors
    # What of the environment their texts depended on.
    environment: Environment

    def declared(self, sources: Iterable[Source]) -> dict[str, DeclaredSource]:
        """All declared sources; what is wrong with them is reported."""
        found = {s.name: self._source(s) for s in sources}
        expressions = {s.name: s.expression.reads for s in found.values() if s.expression is not None}
        _, cycles = ordered(expressions)
        for cycle in cycles:
            message = f"sources read each other in a circle: {circle_text(cycle)}"
            self.errors.add(Cycle(message, at=found[cycle[0]].at, hint="take one of these references out"))
        return found

    def _source(self, source: Source) -> DeclaredSource:
        beneath: dict[str, Relation] = {}
        expression = None
        if source.expression is not None and source.expression_at is not None:
            expression = self._query(source.expression, source.expression_at, source, beneath)
        watch = self._watch(source, source.freshness, beneath) if source.freshness is not None else None
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
        )

    def _watch(self, source: Source, said: Freshness, beneath: dict[str, Relation]) -> Watch:
        query = None
        if said.strategy == "sql" and said.sql is not None:
            query = self._query(said.sql, said.at, source, beneath)
        elif said.strategy == "column" and said.column is not None:
            query = self._maximum(source, said)
        policy = said.age_policy
        return Watch(
            said.strategy,
            said.type,
            said.column,
            said.filter,
            query,
            _seconds(said.lag_tolerance),
            _seconds(policy.warn_after),
            _seconds(policy.error_after),
            identity.digest(said.strategy, said.type or "", query.hash if query else "")[:12],
            said.at,
        )

    def _maximum(self, source: Source, said: Freshness) -> SourceQuery | None:
        """The question for the greatest value of a column; it reads the source itself, whatever that is called."""
        assert said.column is not None
        where = f" WHERE {said.filter}\n" if said.filter else ""
        text = f"SELECT max({quote(*said.column.split('.'))}) FROM {quote(*source.name.split('.'))}{where}"
        found = self._read(text, said.at)
        if found is None:
            return None
        own = [s for s in found.slots if s.name.lower() == source.name.lower()]
        if len(own) != len(found.slots):
            message = "a `filter` can only look at the source's own columns"
            self.errors.add(BadSql(message, at=said.at, hint="use the strategy `sql` for a query over several tables"))
            return None
        return _made(found, [source.name] * len(found.slots))

    def _query(self, text: str, at: At, source: Source, beneath: dict[str, Relation]) -> SourceQuery | None:
        found = self._read(text, at)
        if found is None:
            return None
        known, self.resolver.externals = self.resolver.externals, {}
        reads = [self.resolver.resolve_in_source(slot, at, self.errors) for slot in found.slots]
        mine, self.resolver.externals = self.resolver.externals, known
        if source.expression is not None and source.name in mine:
            self.errors.add(Cycle(f"the source {source.name} reads itself", at=at))
            return None
        beneath |= {name: e.relation for name, e in mine.items() if name != source.name}
        return _made(found, reads) if all(reads) else None

    def _read(self, text: str, at: At) -> Query | None:
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


def _made(found: Query, reads: list[str]) -> SourceQuery:
    by_slot = dict(zip((s.name.lower() for s in found.slots), reads, strict=True))
    logical = [by_slot[r.name.lower()].lower() for r in found.references]
    hash_ = identity.query_hash(found.canonical, logical)
    # What could not be read might say anything, also what the time is.
    volatile = bool(found.volatile) or found.unread is not None
    return SourceQuery(found.runnable, found.slots, tuple(reads), hash_, volatile, found.reading)


def _seconds(duration: str | None) -> float | None:
    return duration_seconds(duration) if duration is not None else None


def refuse_views_of_files(nodes: Mapping[str, Node], sources: Mapping[str, DeclaredSource], errors: Errors) -> None:
    """Report views that read files: the catalog's views can name tables only."""
    for node in nodes.values():
        if node.kind != "view":
            continue
        for name in sorted(closure(node.upstream, _expressions(sources))):
            if name in sources and sources[name].path is not None:
                message = (
                    f"{node.name} is a view and reads files (the source {name}), which views of the catalog cannot"
                )
                errors.add(Contradiction(message, at=At(node.file), hint="make the kind `table`"))


def _expressions(sources: Mapping[str, DeclaredSource]) -> dict[str, tuple[str, ...]]:
    return {s.name: s.expression.reads for s in sources.values() if s.expression is not None}


def refuse_untold_policies(
    nodes: Mapping[str, Node],
    settings: Callable[[str], Mapping[str, Setting]],
    sources: Mapping[str, DeclaredSource],
    errors: Errors,
) -> None:
    """Report `run_despite_unchanged` that is no duration, or one that has no source to count from."""
    for node in nodes.values():
        setting = settings(node.name).get(POLICY)
        if setting is None or setting.value == "always":
            continue
        if duration_seconds(str(setting.value)) is None:
            message = f'`{POLICY}` must be always or a duration, not "{setting.value}"'
            errors.add(BadValue(message, at=setting.at, hint="such as always, 90m, 24h or 30d"))
            continue
        upstream = {n.name: n.upstream for n in nodes.values()} | _expressions(sources)
        above = (sources.get(name) for name in closure([node.name], upstream))
        if not any(s is not None and s.watch is not None and s.watch.is_timestamp for s in above):
            message = f"`{POLICY} {setting.value}` counts from the freshness of a source, and {node.name} has none"
            hint = "give a source that it reads `freshness` with `type: timestamp` in sources/, or write `always`"
            errors.add(MissingKey(message, at=setting.at, hint=hint))


def with_tokens(node: Node, sources: Mapping[str, DeclaredSource]) -> Node:
    """The node, its version depending on what the sources are that it reads."""
    tokens = [sources[u].token for u in node.upstream if u in sources and sources[u].token]
    return replace(node, version_hash=identity.version_hash(node.version_hash, tokens)) if tokens else node
