"""A query as operators: what reads what, in which role, and what each operator makes of the rows it reads.

Structure is understood, expressions are not: an operator keeps spans of the author's text, and is rendered by putting
other relations into the places where it reads. Pure values, kept in the cache of classes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from sqb.light_dataclass import dataclass
from sqb.sql.delta.aggregates.model import Aggregation
from sqb.sql.delta.skeleton.model import JoinType, Span

OperatorKind = Literal["table", "block", "union", "set", "distinct", "limit"]
# How a place is read: in FROM; as the value of an uncorrelated subquery; in FROM of a correlated subquery; or somewhere
# in a subquery of which no rule knows which rows of the block around it depend on it.
PlaceRole = Literal["source", "value", "correlated", "nested"]
SubqueryUse = Literal["exists", "in", "scalar", "other"]
Clause = Literal["where", "result", "other"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator reads another one."""

    span: Span
    # The operator that is read.
    input: int
    role: PlaceRole
    # The source's number in FROM, or the subquery's number in the block.
    number: int = 0
    # The alias to write behind what is put there; "" where the author wrote one.
    alias: str = ""
    # Whether it is a whole query, and not a source in FROM.
    is_query: bool = False
    # The number of a query inside a subquery; -1 where it is inside of another one, too.
    nested: int = -1


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """A source in FROM, and how it is joined to those before it."""

    join: JoinType
    alias: str
    condition: Span | None = None
    # The condition as WHERE can repeat it; "" where a later source may have columns of the names in it.
    on: str = ""
    using: tuple[str, ...] = ()
    # The columns of USING as WHERE can name them; none where other sources may have columns of the same names.
    using_keys: tuple[str, ...] = ()
    is_natural: bool = False
    # Equalities of its condition: an expression over the sources before it, and one over itself.
    equal: tuple[tuple[str, str], ...] = ()
    # Whether both sides of each of them are of one type: otherwise values that equal a third one may differ.
    has_one_type: bool = False
    # Of RIGHT and FULL joins: the sources before it with their joins; None where a comma stands among the sources.
    before: Span | None = None


# A column of a table, by its slot.
Origin = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Link:
    """Of a source, also in a subquery, only rows matter whose column equals that of a changed row of another source."""

    # The number of the source's place, its column, and the column of a table, by slot, that it hands on.
    source: int
    column: str
    origin: Origin
    # The place of the other source, and the column of a table that its own one hands on.
    by: int
    by_origin: Origin
    # It holds only of rows for which the other source has one: of a LEFT, SEMI or ANTI JOIN, or in a subquery.
    only_matched: bool = False


@dataclass(frozen=True, slots=True)
class InnerQuery:
    """A query inside a subquery: whether it reads columns of that, what it reads, and how it is filtered."""

    span: Span
    is_correlated: bool = False
    from_clause: Span | None = None
    where: Span | None = None
    sources: tuple[JoinedSource, ...] = ()


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query inside an expression of a block."""

    span: Span
    use: SubqueryUse
    clause: Clause
    is_correlated: bool = False
    # Whether WHERE holds only if the subquery's EXISTS or IN holds.
    is_conjunct: bool = False
    # The expressions before IN, as they are written; none where that is not certain.
    tested: tuple[str, ...] = ()
    # Of a correlated one: what it reads, how it is filtered, and the subqueries inside of it.
    from_clause: Span | None = None
    where: Span | None = None
    sources: tuple[JoinedSource, ...] = ()
    nested: tuple[InnerQuery, ...] = ()


@dataclass(frozen=True, slots=True)
class SummedCall:
    """A sum or an average: its text, and what it adds up, with its place."""

    call: str
    argument: str
    start: int


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function: its name, its partitions and its order, as they are written."""

    function: str
    partition: tuple[str, ...]
    order: tuple[str, ...] = ()
    # Rows before and behind are counted, so that the order of equal rows matters.
    by_rows: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a query. Operators are listed with what they read before them."""

    kind: OperatorKind
    span: Span
    places: tuple[Place, ...] = ()
    # Of a table: its slot.
    slot: int = -1
    # The names that its columns get; none where they keep their own.
    columns: tuple[str, ...] = ()
    # Of a set operation: UNION, INTERSECT or EXCEPT, and whether it keeps duplicates; of a limit: ORDER BY and LIMIT.
    operator: str = ""
    keeps_duplicates: bool = False
    block: Select | None = None

    @property
    def inputs(self) -> frozenset[int]:
        return frozenset(place.input for place in self.places)

    def is_beside_groups(self, place: Place) -> bool:
        """Whether a place is an uncorrelated subquery in the select list or in HAVING."""
        return (
            place.role == "value" and self.block is not None and self.block.subqueries[place.number].clause == "result"
        )

    def combine(self, sides: Sequence[str]) -> str:
        """A set operation, DISTINCT or LIMIT over the relations of these names."""
        if self.kind == "limit":
            return f"SELECT * FROM {sides[0]} {self.operator}"
        if self.kind == "distinct":
            return f"SELECT DISTINCT * FROM {sides[0]}"
        return f" {self.operator} {'ALL ' if self.keeps_duplicates else ''}".join(f"SELECT * FROM {s}" for s in sides)


@dataclass(frozen=True, slots=True)
class Select:
    """What a block does, without DISTINCT, which is an operator of its own."""

    select_list: Span
    items: tuple[Span, ...]
    sources: tuple[JoinedSource, ...] = ()
    from_clause: Span | None = None
    where: Span | None = None
    group_clause: Span | None = None
    having_clause: Span | None = None
    # WINDOW and what stands behind it.
    window_clause: Span | None = None
    subqueries: tuple[Subquery, ...] = ()
    # By which columns its sources are joined.
    links: tuple[Link, ...] = ()
    # Whether a star is part of an expression, as in `hash(*)`: a change has one column more.
    has_inner_star: bool = False
    is_grouping: bool = False
    # The expressions that make its groups, as SQL over its sources, and the items of the list that show each of them.
    groups: tuple[str, ...] = ()
    group_items: tuple[int | None, ...] = ()
    # The groups taken apart, or why changes cannot be added to them.
    aggregation: Aggregation | None = None
    not_additive: str = ""
    # Grouping by sets: a row is part of several groups.
    by_sets: bool = False
    windows: tuple[WindowCall, ...] = ()
    # The expressions that all window functions partition by, and the items of the list that show each of them.
    partitions: tuple[str, ...] = ()
    partition_items: tuple[int | None, ...] = ()
    # The expressions that each window function partitions by, where they have none in common; none where one has none.
    partitionings: tuple[tuple[str, ...], ...] = ()
    # What may come out differently when it is evaluated again over the same rows, and where; "" for nothing.
    unrepeatable: str = ""
    unrepeatable_at: int | None = None
    # Calls of aggregates that can be evaluated again unless they add up fractions.
    summed: tuple[SummedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorTree:
    """All operators of a query; the last one is the root."""

    operators: tuple[Operator, ...] = ()

    @property
    def root(self) -> int:
        return len(self.operators) - 1

    def find_changed(self, slots: frozenset[int]) -> frozenset[int]:
        """The operators that read one of these slots, by way of others too."""
        changed: set[int] = set()
        for index, operator in enumerate(self.operators):
            if (operator.slot in slots) if operator.kind == "table" else operator.inputs & changed:
                changed.add(index)
        return frozenset(changed)

    def is_only_change(self, index: int, slot: int, changed: Collection[int]) -> bool:
        """Whether an operator changes by nothing but the rows of one table, which it reads once."""
        while self.operators[index].kind != "table":
            inputs = [place.input for place in self.operators[index].places if place.input in changed]
            if len(inputs) != 1:
                return False
            index = inputs[0]
        return self.operators[index].slot == slot

    def iter_beneath(self, index: int) -> Iterator[int]:
        """An operator and all that it reads, each once."""
        seen: set[int] = set()
        stack = [index]
        while stack:
            current = stack.pop()
            if current not in seen:
                seen.add(current)
                yield current
                stack += self.operators[current].inputs
