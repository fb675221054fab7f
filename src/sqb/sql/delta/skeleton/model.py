"""The skeleton of a query: its blocks, sources and clauses, and where in the text each of them is.

Structure is understood, expressions are not: they stay the author's text, so that Spark alone gives them meaning. The
skeleton is read from tokens (see `read_skeleton`), because a parser's tree does not keep the places of clauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Literal

from sqb.light_dataclass import dataclass

JoinType = Literal["FROM", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]
GroupStyle = Literal["plain", "all", "sets"]
SLOT = "__sqb_slot_"


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open part `[start, end)` of the text."""

    start: int
    end: int

    def cut(self, text: str) -> str:
        """The text that it covers."""
        return text[self.start : self.end]

    def covers(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Source:
    """What a block reads, and how it is joined to the sources before it."""

    join: JoinType
    # Where the relation is written, without its alias.
    span: Span
    # A query in brackets, or the name of a table or CTE.
    relation: Query | str
    alias: str
    condition: Span | None = None
    # USING or NATURAL.
    by_name: bool = False
    # The columns of USING; of NATURAL the text does not tell them.
    using: tuple[str, ...] = ()
    # Whether the alias is written, and not just the name of the relation.
    has_alias: bool = False
    # The names that `AS alias(a, b)` gives to its columns, and where it is written with these.
    columns: tuple[str, ...] = ()
    named_span: Span | None = None

    @property
    def slot(self) -> int | None:
        """The table slot that it reads."""
        if isinstance(self.relation, str) and self.relation.startswith(SLOT):
            return int(self.relation.removeprefix(SLOT))
        return None


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT."""

    span: Span
    # From behind SELECT [DISTINCT] to FROM.
    select_list: Span
    items: tuple[Span, ...]
    is_distinct: bool = False
    sources: tuple[Source, ...] = ()
    # All sources with their joins, and LATERAL VIEW clauses behind them.
    from_clause: Span | None = None
    # LATERAL VIEW clauses.
    laterals: Span | None = None
    where: Span | None = None
    # The expressions of GROUP BY; None without GROUP BY, and the clause itself.
    group: tuple[Span, ...] | None = None
    group_clause: Span | None = None
    # GROUP BY ALL, or by sets.
    group_style: GroupStyle = "plain"
    having: Span | None = None
    having_clause: Span | None = None
    # Clauses that no rule looks into: QUALIFY, WINDOW, SORT BY, CLUSTER BY, DISTRIBUTE BY.
    others: tuple[str, ...] = ()
    # The names and windows of WINDOW, and the clause itself.
    windows: Span | None = None
    window_clause: Span | None = None
    # Queries inside of expressions.
    subqueries: tuple[Query, ...] = ()

    @property
    def result_spans(self) -> tuple[Span, ...]:
        """What is evaluated for the rows or groups of the result: the select list and HAVING."""
        return (*self.items, *((self.having,) if self.having is not None else ()))


@dataclass(frozen=True, slots=True)
class SetOperation:
    """Two queries combined by UNION, INTERSECT or EXCEPT."""

    span: Span
    operator: Literal["UNION", "INTERSECT", "EXCEPT"]
    keeps_duplicates: bool
    left: Body
    right: Body


@dataclass(frozen=True, slots=True)
class Cte:
    """A named query of WITH."""

    name: str
    query: Query
    # The names that it gives to its columns.
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query: WITH, its body, and what comes after it."""

    span: Span
    body: Body
    ctes: tuple[Cte, ...] = ()
    order: Span | None = None
    limit: Span | None = field(default=None)


Body = Block | SetOperation | Query


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of a part of the text; an empty part is a place where text is inserted."""

    span: Span
    text: str


def apply_edits(text: str, edits: Iterable[Edit], within: Span | None = None) -> str:
    """A part of the text with edits applied; of two that overlap the outer one counts."""
    part = within or Span(0, len(text))
    pieces: list[str] = []
    position = part.start
    # At one place an insertion comes first, and the longest replacement is the outer one.
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.start != e.span.end, -e.span.end)):
        if not part.covers(edit.span) or edit.span.start < position:
            continue
        pieces += [text[position : edit.span.start], edit.text]
        position = edit.span.end
    pieces.append(text[position : part.end])
    return "".join(pieces)


def iter_blocks(body: Body) -> Iterator[Block]:
    """Every block of a query, those in CTEs, sources and subqueries included."""
    match body:
        case Block():
            yield body
            for source in body.sources:
                if isinstance(source.relation, Query):
                    yield from iter_blocks(source.relation)
            for query in body.subqueries:
                yield from iter_blocks(query)
        case SetOperation():
            yield from iter_blocks(body.left)
            yield from iter_blocks(body.right)
        case Query():
            for cte in body.ctes:
                yield from iter_blocks(cte.query)
            yield from iter_blocks(body.body)


def iter_queries(body: Body) -> Iterator[Query]:
    """Every query with its own WITH, ORDER BY and LIMIT, from the outside in."""
    match body:
        case Query():
            yield body
            for cte in body.ctes:
                yield from iter_queries(cte.query)
            yield from iter_queries(body.body)
        case SetOperation():
            yield from iter_queries(body.left)
            yield from iter_queries(body.right)
        case Block():
            for source in body.sources:
                if isinstance(source.relation, Query):
                    yield from iter_queries(source.relation)
            for query in body.subqueries:
                yield from iter_queries(query)
