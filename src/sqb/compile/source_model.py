"""Declared sources as the compiled project has them: what they are, and how to tell that they have new data.

Plain data, to and from the cache; nothing here looks at files or tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from sqb.names import At, Relation
from sqb.sql.text.spans import Reference


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """A query over sources: its text, the names in it, and the source or table of the catalog behind each."""

    sql: str
    slots: tuple[Reference, ...]
    reads: tuple[str, ...]
    # What its text means; two spellings of one query are one.
    hash: str
    # Its answer depends on when it is asked.
    volatile: bool = False
    # What it reads of each slot: see `sql.reading`. Empty where nothing is known.
    reading: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Watch:
    """How to tell whether a source has new data, and how old it may become; durations in seconds."""

    strategy: str = "adapter"
    kind: str | None = None
    column: str | None = None
    filter: str | None = None
    # What Spark is asked when nothing cheaper tells; none for the strategy `adapter`.
    query: SourceQuery | None = None
    lag: float | None = None
    warn_after: float | None = None
    error_after: float | None = None
    # What makes two values comparable: the strategy and the question asked.
    token: str = ""
    at: At = At("")

    @property
    def has_values(self) -> bool:
        """Whether values are compared, and not versions of the data themselves."""
        return self.strategy != "adapter" or self.kind == "timestamp"

    @property
    def is_timestamp(self) -> bool:
        return self.kind == "timestamp"


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A function that makes the rows of a source: its columns with their types, and whether it tells its version."""

    file: str
    # What it is called in its file.
    symbol: str
    columns: tuple[tuple[str, str], ...]
    versioned: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredSource:
    """A declared source: a table of the catalog, files, an expression, or a table function."""

    name: str
    relation: Relation
    at: At
    description: str = ""
    path: str | None = None
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    managed: bool = False
    expression: SourceQuery | None = None
    watch: Watch | None = None
    # The relations behind the names that its queries read, itself not among them.
    beneath: Mapping[str, Relation] = field(default_factory=dict)
    # What it is, beside its data; "" for a table of the catalog.
    token: str = ""
    function: TableFunction | None = None

    @property
    def is_table(self) -> bool:
        return self.path is None and self.expression is None and self.function is None

    @property
    def is_observed(self) -> bool:
        """Whether its freshness is looked at: always for tables and files, if it says so for managed ones."""
        made = self.expression is not None or self.function is not None
        return not made and (not self.managed or self.watch is not None)


def dump_source(source: DeclaredSource) -> list[Any]:
    """A declared source as plain data."""
    watch = source.watch
    return [
        source.name,
        [source.relation.schema, source.relation.name],
        astuple(source.at),
        source.description,
        source.path,
        source.format,
        dict(source.options),
        source.managed,
        _dump_query(source.expression),
        _dump_watch(watch) if watch is not None else None,
        {name: [r.schema, r.name] for name, r in source.beneath.items()},
        source.token,
        astuple(source.function) if source.function is not None else None,
    ]


def load_source(data: list[Any]) -> DeclaredSource:
    """The declared source in data that `dump_source` made."""
    name, relation, at, description, path, format_, options, managed, expression, watch, beneath, token, made = data
    return DeclaredSource(
        name,
        Relation(*relation),
        At(*at),
        description,
        path,
        format_,
        options,
        managed,
        _load_query(expression),
        _load_watch(watch) if watch is not None else None,
        {key: Relation(*r) for key, r in beneath.items()},
        token,
        _load_function(made) if made is not None else None,
    )


def _load_function(data: list[Any]) -> TableFunction:
    file, symbol, columns, versioned = data
    return TableFunction(file, symbol, tuple((name, kind) for name, kind in columns), versioned)


def _dump_watch(w: Watch) -> list[Any]:
    durations = [w.lag, w.warn_after, w.error_after]
    return [w.strategy, w.kind, w.column, w.filter, _dump_query(w.query), durations, w.token, astuple(w.at)]


def _load_watch(data: list[Any]) -> Watch:
    strategy, kind, column, filter_, query, durations, token, at = data
    lag, warn_after, error_after = durations
    return Watch(strategy, kind, column, filter_, _load_query(query), lag, warn_after, error_after, token, At(*at))


def _dump_query(q: SourceQuery | None) -> list[Any] | None:
    return None if q is None else [q.sql, [astuple(s) for s in q.slots], q.reads, q.hash, q.volatile, q.reading]


def _load_query(data: list[Any] | None) -> SourceQuery | None:
    if data is None:
        return None
    sql, slots, reads, hash_, volatile, reading = data
    columns = tuple(map(tuple, reading))
    return SourceQuery(sql, tuple(_load_reference(s) for s in slots), tuple(reads), hash_, volatile, columns)


def _load_reference(data: list[Any]) -> Reference:
    parts, start, end, alias, qualifiers, kind, fixed, whole = data
    return Reference(tuple(parts), start, end, alias, tuple(map(tuple, qualifiers)), kind, fixed, whole)
