"""Declared sources as the compiled project has them: what they are, and how to tell that they have new data.

Plain data; nothing here looks at files or tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from sqb.graph import find_reachable
from sqb.light_dataclass import dataclass
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
    owner: str = ""
    group: str = ""

    @property
    def is_table(self) -> bool:
        return self.path is None and self.expression is None and self.function is None

    @property
    def is_observed(self) -> bool:
        """Whether its freshness is looked at: always for tables and files, if it says so for managed ones."""
        made = self.expression is not None or self.function is not None
        return not made and (not self.managed or self.watch is not None)


def list_nested_tokens(names: Iterable[str], sources: Mapping[str, DeclaredSource]) -> list[str]:
    """What the sources are that the expressions of these sources read, by their names; tables say nothing."""
    direct = {name for name in names if name in sources}
    if not any(sources[name].expression is not None for name in direct):
        return []
    expressions = {s.name: s.expression.reads for s in sources.values() if s.expression is not None}
    nested = sorted(find_reachable(direct, expressions) - direct)
    return [f"{name} {sources[name].token}" for name in nested if name in sources and sources[name].token]
