"""Which columns of a block's sources equal each other in all rows that count: where one source changed, they tell which
rows of the others can belong to it. What is not proven here is read whole.

A link leads from a column of a table to a column of another table, by way of queries that only hand the columns on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.operators.column_sources import ColumnSources
from sqb.sql.delta.operators.model import Link, Origin, Place
from sqb.sql.delta.skeleton.model import Block, JoinType, Query, Span
from sqb.sql.delta.tree import get_where, is_plain_star, iter_conjuncts

# Their rows are never filled with NULLs, as long as no RIGHT or FULL JOIN is near.
_INNER: tuple[JoinType, ...] = ("FROM", "INNER", "CROSS")
_ONE_SIDED: tuple[JoinType, ...] = ("LEFT", "SEMI", "ANTI")
# Whole numbers of different types equal each other as numbers; of anything else, equal values have one type.
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_COMPARED = frozenset({"date", "timestamp"})


# What the columns of an operator hand on, by their names.
Origins = Mapping[str, Origin]
# A place of a block, a column that is read there, and what it hands on.
_End = tuple[int, str, Origin]
_NAMED: Origins = {}
# A link, and the column of the other source.
_Pair = tuple[Link, str]


class ColumnOrigins:
    """Which column of which table each column of an operator hands on, row by row."""

    def __init__(self, columns: ColumnSources, schemas: Sequence[Mapping[str, str]]) -> None:
        self._columns, self._schemas = columns, schemas
        self._by_operator: dict[int, Origins] = {}

    def note_table(self, index: int, slot: int) -> None:
        """Remember the columns of a table; none of a name that it has twice."""
        names = Counter(name.lower() for name in self._schemas[slot])
        self._by_operator[index] = {name: (slot, name) for name, times in names.items() if times == 1}

    def note_block(self, index: int, block: Block, items: Sequence[exp.Expr], inputs: Sequence[int]) -> None:
        """Remember what a block hands on of its sources, which are read by `inputs`."""
        sources = {i: self.get(inputs[i]) for i, s in enumerate(block.sources) if s.join in _INNER}
        if block.laterals is not None or {s.join for s in block.sources} & {"RIGHT", "FULL"}:
            return
        named: list[tuple[str, Origin | None]] = []
        for item in items:
            named += self._list_item(block, item, sources)
        times = Counter(name for name, _ in named)
        self._by_operator[index] = {name: origin for name, origin in named if origin is not None and times[name] == 1}

    def note_same(self, index: int, other: int) -> None:
        """Remember that an operator has the columns of another one."""
        self._by_operator[index] = self.get(other)

    def forget(self, index: int) -> None:
        """Columns got other names."""
        self._by_operator.pop(index, None)

    def get(self, index: int) -> Origins:
        """The origins of an operator's columns, as far as they are known."""
        return self._by_operator.get(index, _NAMED)

    def are_comparable(self, one: Origin, other: Origin) -> bool:
        """Whether equal values of two columns lie between the same bounds: with a cast between them, 1 equals '01'."""
        types = {self._get_type(one), self._get_type(other)}
        return types <= _WHOLE_NUMBERS or (len(types) == 1 and types <= _COMPARED)

    def find_column(self, block: Block, node: exp.Expr) -> tuple[int, str] | None:
        """The source and the name of a plain column; None for anything else."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        offset = node.this.meta.get("start")
        if offset is None:
            return None
        try:
            aliases = [alias for _, alias in self._columns.list_columns(Span(offset, offset + 1))]
        except NotProven:
            return None
        if self._columns.is_outer(offset):
            return None
        numbers = [i for i, source in enumerate(block.sources) if aliases == [source.alias]]
        return (numbers[0], node.name.lower()) if len(numbers) == 1 else None

    def _get_type(self, origin: Origin) -> str:
        slot, column = origin
        return next(kind.lower() for name, kind in self._schemas[slot].items() if name.lower() == column)

    def _list_item(
        self, block: Block, item: exp.Expr, sources: Mapping[int, Origins]
    ) -> list[tuple[str, Origin | None]]:
        """What an item of a select list hands on, by name."""
        if not item.is_star:
            column = self.find_column(block, item.this if isinstance(item, exp.Alias) else item)
            origin = sources.get(column[0], _NAMED).get(column[1]) if column is not None else None
            return [(item.alias_or_name.lower(), origin)]
        if not is_plain_star(item):
            return []
        wanted = item.table.lower() if isinstance(item, exp.Column) else None
        return [
            pair
            for number, origins in sources.items()
            if wanted is None or block.sources[number].alias == wanted
            for pair in origins.items()
        ]


def read_links(
    block: Block,
    nodes: Mapping[Span, exp.Select],
    places: Sequence[Place],
    origins: ColumnOrigins,
) -> tuple[Link, ...]:
    """The links between the places of a block, in FROM and in correlated subqueries."""
    joins = [source.join for source in block.sources]
    if block.laterals is not None or "RIGHT" in joins or "FULL" in joins:
        return ()
    inner = {number for number, join in enumerate(joins) if join in _INNER}
    find = origins.find_column
    links: list[_Pair] = []
    for number, condition in _list_conditions(block, nodes[block.span]):
        for one, other in _iter_equal_columns(condition, lambda node: find(block, node)):
            if pair := _compare(one, other, places, origins):
                links += _link(*pair, number, inner)
    for number, query in enumerate(block.subqueries):
        links += _link_correlated(block, query, number, nodes, places, origins, inner)
    return tuple(dict.fromkeys(link for link, _ in _follow_pairs(links)))


def _follow_pairs(pairs: Iterable[_Pair]) -> list[_Pair]:
    """Links, and those that follow from two of them: what equals a column that equals a third one equals that too.

    The link that is gone on from holds for every row: what is only asked of a row that is there tells of no other.
    """
    known = dict.fromkeys(pairs)
    steps = [pair for pair in known if not pair[0].only_matched]
    waiting = list(known)
    while waiting:
        link, by_column = waiting.pop()
        for step, through in steps:
            if (step.by, through) != (link.source, link.column) or step.source == link.by:
                continue
            further = Link(step.source, step.column, step.origin, link.by, link.by_origin, link.only_matched)
            if (further, by_column) not in known:
                known[further, by_column] = None
                waiting.append((further, by_column))
    return list(known)


def _compare(
    one: tuple[int, str], other: tuple[int, str], places: Sequence[Place], origins: ColumnOrigins
) -> tuple[_End, _End] | None:
    """Two columns that equal each other, with what they hand on; None where that is not known or not comparable."""
    own, others = (origins.get(places[place].input).get(column) for place, column in (one, other))
    if own is None or others is None or not origins.are_comparable(own, others):
        return None
    return (*one, own), (*other, others)


def _link(one: _End, other: _End, number: int | None, inner: set[int]) -> Iterator[_Pair]:
    """Both directions of an equality, as far as they hold; `number` is the one-sided join that asks for it."""
    for (source, column, own), (by, by_column, origin) in ((one, other), (other, one)):
        if by in inner and source in ({number} if number is not None else inner):
            yield Link(source, column, own, by, origin), by_column
        elif number is not None and by == number and source in inner:
            # What a one-sided join finds no row for stays: this holds only of rows that it finds one for.
            yield Link(source, column, own, by, origin, only_matched=True), by_column


def _link_correlated(
    block: Block,
    query: Query,
    number: int,
    nodes: Mapping[Span, exp.Select],
    places: Sequence[Place],
    origins: ColumnOrigins,
    inner: set[int],
) -> Iterator[_Pair]:
    """The links between a block and a subquery that compares columns of both in its conditions."""
    body = query.body
    own = [i for i, place in enumerate(places) if place.role == "correlated" and place.number == number]
    if not isinstance(body, Block) or not own or body.laterals is not None or len(own) != len(body.sources):
        return
    plain = {i for i, source in enumerate(body.sources) if source.join in _INNER}
    if {source.join for source in body.sources} & {"RIGHT", "FULL"}:
        return

    def find(node: exp.Expr) -> tuple[int, str] | None:
        # An alias of the subquery hides that of a source around it.
        if (column := origins.find_column(body, node)) is not None:
            return (own[column[0]], column[1]) if column[0] in plain else None
        column = origins.find_column(block, node)
        return column if column is not None and column[0] in inner else None

    for join, condition in _list_conditions(body, nodes[body.span]):
        for one, other in _iter_equal_columns(condition, find) if join is None else ():
            pair = _compare(one, other, places, origins) if (one[0] in own) != (other[0] in own) else None
            if pair is not None:
                (within, column, origin), (around, outer, by) = pair if one[0] in own else pair[::-1]
                yield Link(within, column, origin, around, by), outer
                yield Link(around, outer, by, within, origin, only_matched=True), column


def _list_conditions(block: Block, node: exp.Select) -> list[tuple[int | None, exp.Expr | None]]:
    """WHERE and the conditions of joins; those of one-sided joins with the number of the source that they are about."""
    conditions: list[tuple[int | None, exp.Expr | None]] = [(None, get_where(node))]
    for number, join in enumerate(node.args.get("joins") or (), start=1):
        if number < len(block.sources) and block.sources[number].join in (*_INNER, *_ONE_SIDED):
            is_one_sided = block.sources[number].join in _ONE_SIDED
            conditions.append((number if is_one_sided else None, join.args.get("on")))
    return conditions


def _iter_equal_columns(
    condition: exp.Expr | None, find: Callable[[exp.Expr], tuple[int, str] | None]
) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    for conjunct in iter_conjuncts(condition):
        if isinstance(conjunct, exp.EQ):
            one, other = find(conjunct.left), find(conjunct.right)
            if one is not None and other is not None and one[0] != other[0]:
                yield one, other
