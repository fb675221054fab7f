"""Reading a query's operators from its skeleton. What no rule could look into raises `NotProven`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from sqb.sql.delta.aggregates.read import iter_outside_queries, read_aggregation, read_groups, strip_alias
from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.operators.column_sources import ColumnSources, is_correlated
from sqb.sql.delta.operators.column_types import ArgumentTypes, adds_up_exactly
from sqb.sql.delta.operators.joins import BlockSources, KnownColumns
from sqb.sql.delta.operators.links import ColumnOrigins, read_links
from sqb.sql.delta.operators.model import (
    Clause,
    InnerQuery,
    JoinedSource,
    Operator,
    OperatorKind,
    OperatorTree,
    Place,
    PlaceRole,
    Select,
    Subquery,
    SummedCall,
    WindowCall,
)
from sqb.sql.delta.operators.subqueries import read_tested, read_use
from sqb.sql.delta.operators.windows import BY_RANK, depends_on_ties, list_windows
from sqb.sql.delta.skeleton.calls import has_window, is_aggregating, list_aggregate_calls
from sqb.sql.delta.skeleton.cross_check import Paired, check_skeleton
from sqb.sql.delta.skeleton.model import (
    Block,
    Body,
    Cte,
    Query,
    SetOperation,
    Source,
    Span,
)
from sqb.sql.delta.skeleton.read import fold, read_skeleton, split_tokens, tokens_within
from sqb.sql.delta.tree import iter_conjuncts
from sqb.sql.functions.builtins import ORDERED_AGGREGATES
from sqb.sql.text.lexer import Token, find_closing

# Aggregates that are the same for the same rows, whatever the types of their arguments.
_REPEATABLE = frozenset(
    """
    count count_if min max bool_and every bool_or some any bit_and bit_or bit_xor regr_count grouping grouping_id
    median percentile percentile_cont percentile_disc
    """.split()
)
# Those that are so unless they add up fractions.
_SUMS = frozenset("sum avg mean try_sum try_avg".split())
# How the names of those begin that add up fractions whatever they are given.
_FRACTIONS = ("std", "var", "covar", "corr", "regr", "skew", "kurt")
# Where rows are sent before they are written is nothing that the rows depend on.
_HARMLESS = frozenset({"SORT", "CLUSTER", "DISTRIBUTE"})
_DIRECTIONS = frozenset("asc desc nulls first last".split())
_LIMITS = frozenset({"LIMIT", "OFFSET", "ALL"})

Ctes = Mapping[str, int]


def read_operators(
    text: str, tree: exp.Expr, schemas: Sequence[Mapping[str, str]], sources: ColumnSources
) -> OperatorTree:
    """The operators of a query; raises `NotProven` when its structure is not understood."""
    query = read_skeleton(text)
    paired = check_skeleton(text, query, tree)
    reader = _Reader(text, paired, sources, schemas, ArgumentTypes(text, tree, schemas))
    root = reader.read_query(query, {})
    # The root is the last one: a CTE that is read as it is may stand before others.
    if root != len(reader.operators) - 1:
        raise NotProven("a query that only repeats another one", query.span.start)
    return OperatorTree(tuple(reader.operators))


class _Reader:
    def __init__(
        self,
        text: str,
        paired: Paired,
        sources: ColumnSources,
        schemas: Sequence[Mapping[str, str]],
        arguments: ArgumentTypes,
    ) -> None:
        self.text, self.paired, self.sources, self.schemas = text, paired, sources, schemas
        self.arguments = arguments
        self.operators: list[Operator] = []
        self._tables: dict[int, int] = {}
        # The names of the columns of operators, as far as they are known, and of those that tell their rows apart.
        self._columns: dict[int, tuple[str, ...] | None] = {}
        self._types: dict[int, Mapping[str, str]] = {}
        self._known = KnownColumns(schemas, self.operators, self._columns, self._types)
        self._unique: dict[int, frozenset[str]] = {}
        self._origins = ColumnOrigins(sources, schemas)

    def _add(self, operator: Operator) -> int:
        self.operators.append(operator)
        return len(self.operators) - 1

    # --- queries ------------------------------------------------------------------------------------------------------

    def read_query(self, query: Query, ctes: Ctes) -> int:
        visible = dict(ctes)
        for cte in query.ctes:
            visible[cte.name] = self._read_cte(cte, visible)
        index = self._read_body(query.body, visible)
        return index if query.limit is None else self._read_limit(query, index)

    def _read_limit(self, query: Query, index: int) -> int:
        """The first rows of a query, by columns that it shows: its text says the same of any relation with these."""
        assert query.limit is not None
        columns, problem = self._columns.get(index), NotProven("LIMIT", query.limit.start)
        if columns is None or len(set(columns)) < len(columns):
            raise problem
        for item in split_tokens(tokens_within(self.text, query.order)[2:] if query.order is not None else ()):
            name, *direction = (t.text.strip("`").lower() for t in item)
            is_number = name.isdecimal() and 1 <= int(name) <= len(columns)
            if not (is_number or name in columns) or set(direction) - _DIRECTIONS:
                raise problem
        if any(not (t.text.isdecimal() or t.text.upper() in _LIMITS) for t in tokens_within(self.text, query.limit)):
            raise problem
        order = f"{query.order.cut(self.text)} " if query.order is not None else ""
        place = Place(query.span, index, "source")
        limit = self._add(Operator("limit", query.limit, (place,), operator=f"{order}{query.limit.cut(self.text)}"))
        self._columns[limit] = columns
        return limit

    def _read_cte(self, cte: Cte, ctes: Ctes) -> int:
        index = self.read_query(cte.query, ctes)
        if cte.columns:
            self._rename(index, cte.columns)
        return index

    def _rename(self, index: int, columns: tuple[str, ...]) -> None:
        """Give other names to the columns of an operator that nothing else reads yet."""
        self.operators[index] = replace(self.operators[index], columns=columns)
        self._columns[index] = tuple(name.lower() for name in columns)
        self._unique.pop(index, None)
        self._origins.forget(index)
        self._types.pop(index, None)

    def _read_body(self, body: Body, ctes: Ctes) -> int:
        match body:
            case Query():
                return self.read_query(body, ctes)
            case SetOperation():
                return self._read_set_operation(body, ctes)
            case Block():
                return self._read_block(body, ctes)

    def _read_set_operation(self, body: SetOperation, ctes: Ctes) -> int:
        sides = (body.left, body.right)
        places = tuple(Place(s.span, self._read_body(s, ctes), "source", i) for i, s in enumerate(sides))
        kind: OperatorKind = "union" if body.operator == "UNION" and body.keeps_duplicates else "set"
        index = self._add(
            Operator(kind, body.span, places, operator=body.operator, keeps_duplicates=body.keeps_duplicates)
        )
        self._columns[index] = self._columns[places[0].input]
        return index

    # --- one SELECT ---------------------------------------------------------------------------------------------------

    def _read_block(self, block: Block, ctes: Ctes) -> int:
        places = [self._read_source(s, "source", i, ctes) for i, s in enumerate(block.sources)]
        sources = BlockSources(
            self.text, block, self.paired.selects[block.span], tuple(places), self._known, self.sources
        )
        joins = tuple(sources.read_join(i) for i in range(len(block.sources)))
        subqueries = []
        for number, query in enumerate(block.subqueries):
            subquery, inner = self._read_subquery(block, number, query, ctes)
            subqueries.append(subquery)
            places += inner
        select = self._read_select(block, joins, tuple(subqueries), sources)
        select = replace(select, links=read_links(block, self.paired.selects, places, self._origins))
        index = self._add(Operator("block", block.span, tuple(places), block=select))
        self._note_columns(index, block, select, sources)
        if not block.is_distinct:
            return index
        distinct = self._add(Operator("distinct", block.span, (Place(block.span, index, "source"),)))
        self._columns[distinct], self._types[distinct] = self._columns[index], self._types[index]
        self._origins.note_same(distinct, index)
        return distinct

    def _read_source(self, source: Source, role: PlaceRole, number: int, ctes: Ctes) -> Place:
        if source.columns:
            return self._read_renamed(source, role, number, ctes)
        if isinstance(source.relation, Query):
            return Place(source.span, self.read_query(source.relation, ctes), role, number)
        if source.slot is not None:
            if source.slot not in self._tables:
                self._tables[source.slot] = self._add(Operator("table", source.span, slot=source.slot))
                self._columns[self._tables[source.slot]] = tuple(n.lower() for n in self.schemas[source.slot])
                self._origins.note_table(self._tables[source.slot], source.slot)
            return Place(source.span, self._tables[source.slot], role, number)
        if source.relation not in ctes:
            raise NotProven(f"{source.relation} is read at a version of its own", source.span.start)
        alias = "" if source.has_alias else source.alias
        return Place(source.span, ctes[source.relation], role, number, alias)

    def _read_renamed(self, source: Source, role: PlaceRole, number: int, ctes: Ctes) -> Place:
        """A source whose alias names its columns: a change has one column more, and the names are given beneath it."""
        if not isinstance(source.relation, Query) or source.named_span is None:
            raise NotProven("a table whose columns get other names in FROM", source.span.start)
        index = self.read_query(source.relation, ctes)
        self._rename(index, source.columns)
        return Place(source.named_span, index, role, number, source.alias)

    def _note_columns(self, index: int, block: Block, select: Select, sources: BlockSources) -> None:
        """Remember the columns of a block, and by which of them its rows differ: the groups that its list shows."""
        items = self.paired.selects[block.span].expressions
        names = tuple(node.alias_or_name.lower() for node in items)
        listed = [sources.list_item_columns(node) for node in items]
        self._columns[index] = None if None in listed else tuple(n for columns in listed for n in columns or ())
        if not select.is_grouping and not select.windows:
            self._origins.note_block(index, block, items, [place.input for place in sources.places])
        self._types[index] = sources.list_item_types()
        if select.is_grouping and not select.by_sets and None not in select.group_items:
            self._unique[index] = frozenset(names[i] for i in select.group_items if i is not None)

    # --- subqueries ---------------------------------------------------------------------------------------------------

    def _read_subquery(self, block: Block, number: int, query: Query, ctes: Ctes) -> tuple[Subquery, list[Place]]:
        node = self.paired.subqueries[query.span]
        use, clause = read_use(node), _find_clause(block, query.span)
        tested = read_tested(self.text, node, query.span, block.where) if use == "in" else ()
        where = self.paired.selects[block.span].args.get("where")
        holder = node.parent
        is_conjunct = clause == "where" and any(holder is c for c in iter_conjuncts(where.this if where else None))
        if not is_correlated(query, self.sources):
            place = Place(query.span, self.read_query(query, ctes), "value", number, is_query=True)
            return Subquery(query.span, use, clause, False, is_conjunct, tested), [place]
        described, places = self._read_correlated(query, number, ctes)
        inner = described.where
        if inner is not None and clause == "result" and list_aggregate_calls(self.text, inner):
            raise NotProven("an aggregate of the query around it in a subquery", inner.start)
        return replace(described, use=use, clause=clause, is_conjunct=is_conjunct, tested=tested), places

    def _read_correlated(self, query: Query, number: int, ctes: Ctes) -> tuple[Subquery, list[Place]]:
        """A subquery that reads columns of the query around it, and the places in it and in those inside of it."""
        inner = query.body
        if query.ctes or query.limit is not None or not isinstance(inner, Block):
            raise NotProven("a correlated subquery that is not a single SELECT", query.span.start)
        places = [self._read_correlated_source(s, number, ctes) for s in inner.sources]
        sources = BlockSources(
            self.text, inner, self.paired.selects[inner.span], tuple(places), self._known, self.sources
        )
        self._refuse_unrepeatable_subquery(inner)
        joins = tuple(self._read_inner_join(inner, sources, i) for i in range(len(inner.sources)))
        nested = []
        for position, deeper in enumerate(inner.subqueries):
            described, beneath = self._read_nested(deeper, number, ctes)
            nested.append(InnerQuery(deeper.span, *described))
            places += [replace(p, role="nested", nested=position if p.role != "nested" else -1) for p in beneath]
        own = Subquery(query.span, "other", "where", True, False, (), inner.from_clause, inner.where, joins)
        return replace(own, nested=tuple(nested)), places

    def _read_nested(
        self, query: Query, number: int, ctes: Ctes
    ) -> tuple[tuple[bool, Span | None, Span | None, tuple[JoinedSource, ...]], list[Place]]:
        """A query inside a subquery, without its own subqueries, and its places."""
        if not is_correlated(query, self.sources):
            place = Place(query.span, self.read_query(query, ctes), "value", number, is_query=True)
            return (False, None, None, ()), [place]
        inner, places = self._read_correlated(query, number, ctes)
        return (True, inner.from_clause, inner.where, inner.sources), places

    def _read_inner_join(self, inner: Block, sources: BlockSources, number: int) -> JoinedSource:
        """How a source of a subquery is joined; by no condition where that reads columns of the query around it."""
        joined, own = sources.read_join(number), {source.alias for source in inner.sources}
        read = self.sources.list_columns(joined.condition) if joined.condition is not None else []
        return joined if {alias for _, alias in read} <= own else replace(joined, on="")

    def _read_correlated_source(self, source: Source, number: int, ctes: Ctes) -> Place:
        if isinstance(source.relation, Query) and is_correlated(source.relation, self.sources):
            raise NotProven("a derived table that reads columns of the query around it", source.span.start)
        return self._read_source(source, "correlated", number, ctes)

    def _refuse_unrepeatable_subquery(self, block: Block) -> None:
        """A correlated subquery is evaluated again with the rows around it."""
        if has_window(self.text, block) or set(block.others) - _HARMLESS:
            raise NotProven("a window function in a correlated subquery", block.span.start)
        for span in block.result_spans:
            for call in list_aggregate_calls(self.text, span, block.subqueries):
                name = tokens_within(self.text, call)[0].text.lower()
                if name not in _REPEATABLE | _SUMS:
                    raise NotProven(f"{name}() in a part that is read again", call.start)
                if name in _SUMS and (fraction := self._find_fraction(call.cut(self.text), call.start)):
                    raise NotProven(fraction, call.start)

    def _find_fraction(self, call: str, start: int) -> str:
        """Why a sum may come out differently in another order of rows; "" where it does not, or only Spark can tell."""
        kind = self.arguments.find(start)
        return f"{call} adds up values of type {kind}" if kind and not adds_up_exactly(call, kind) else ""

    # --- what a block makes of its rows -------------------------------------------------------------------------------

    def _read_select(
        self,
        block: Block,
        joins: tuple[JoinedSource, ...],
        subqueries: tuple[Subquery, ...],
        sources: BlockSources,
    ) -> Select:
        clauses = (block.where, block.group_clause, block.having_clause, block.window_clause)
        node = self.paired.selects[block.span]
        has_star = _has_inner_star(node)
        select = Select(block.select_list, block.items, joins, block.from_clause, *clauses, subqueries, (), has_star)
        if unknown := set(block.others) - _HARMLESS - {"WINDOW"}:
            raise NotProven(f"{min(unknown)} is not understood", block.span.start)
        select = self._read_repeatability(block, select)
        if is_aggregating(self.text, block):
            columns = sources.list_all_columns()
            select = self._read_grouping(block, node, select, frozenset(columns) if columns is not None else None)
        windows = tuple(list_windows(self.text, block.result_spans, block.subqueries, block.windows))
        return self._read_windows(block, node, select, windows, sources.places) if windows else select

    def _read_repeatability(self, block: Block, select: Select) -> Select:
        """What of a block may come out differently when it is evaluated again.

        Of sums of fractions only those are known whose types follow from those of tables: of others, Spark tells the
        type when it runs.
        """
        summed: list[SummedCall] = []
        fractions: list[str] = []
        for span in block.result_spans:
            for call in list_aggregate_calls(self.text, span, block.subqueries):
                tokens = tokens_within(self.text, call)
                name = tokens[0].text.lower()
                if name in _SUMS:
                    summed.append(SummedCall(call.cut(self.text), *_cut_argument(self.text, tokens)))
                    fractions.append(self._find_fraction(call.cut(self.text), call.start))
                elif name not in _REPEATABLE:
                    select = replace(
                        select, unrepeatable=f"{name}() {_explain_order(name)}", unrepeatable_at=call.start
                    )
        return replace(_note_fraction(select, block, fractions), summed=tuple(dict.fromkeys(summed)))

    def _read_grouping(self, block: Block, node: exp.Select, select: Select, columns: frozenset[str] | None) -> Select:
        by_sets = block.group_style == "sets"
        values = {
            number: s.span for number, s in enumerate(select.subqueries) if s.clause == "result" and not s.is_correlated
        }
        select = replace(select, is_grouping=True, by_sets=by_sets)
        try:
            aggregation = read_aggregation(self.text, block, node, columns, values)
        except NotProven as problem:
            select = replace(select, not_additive=problem.why)
            if by_sets:
                return select
            groups = read_groups(self.text, block, node, columns)
            return replace(select, groups=groups, group_items=self._find_items(block, node, groups))
        groups = aggregation.groups
        return replace(
            select, aggregation=aggregation, groups=groups, group_items=self._find_items(block, node, groups)
        )

    def _find_items(self, block: Block, node: exp.Select, texts: Sequence[str]) -> tuple[int | None, ...]:
        """The item of the select list that shows each of some expressions."""
        items = [_normalize(self.text, span, n) for span, n in zip(block.items, node.expressions, strict=True)]
        return tuple(next((i for i, item in enumerate(items) if item == fold(t)), None) for t in texts)

    def _read_windows(
        self, block: Block, node: exp.Select, select: Select, windows: tuple[WindowCall, ...], places: Sequence[Place]
    ) -> Select:
        shared = [p for p in windows[0].partition if all(fold(p) in map(fold, w.partition) for w in windows)]
        # What is an aggregate of the block itself is not known of its rows.
        partitions = tuple(p for p in shared if not _has_aggregate(p))
        select = replace(
            select,
            windows=windows,
            partitions=partitions,
            partition_items=self._find_items(block, node, partitions),
            partitionings=() if partitions else _list_partitionings(windows),
        )
        for window in windows:
            if why := self._find_unrepeatable_window(block, select, window, places):
                select = replace(select, unrepeatable=why, unrepeatable_at=block.span.start)
        sums = self._list_window_sums(block)
        fractions = [self._find_fraction(summed.call, start) for start, summed in sums.items()]
        summed = tuple(dict.fromkeys([*select.summed, *sums.values()]))
        return replace(_note_fraction(select, block, fractions), summed=summed)

    def _find_unrepeatable_window(
        self, block: Block, select: Select, window: WindowCall, places: Sequence[Place]
    ) -> str:
        """Why a window function may come out differently when it is evaluated again; "" where it does not."""
        if depends_on_ties(window) and not self._is_total_order(block, select, window, places):
            return f"{window.function}() may choose otherwise among rows that are equal in its order"
        known = window.function in BY_RANK | _REPEATABLE | _SUMS or depends_on_ties(window)
        return "" if known else f"{window.function}() {_explain_order(window.function)}"

    def _list_window_sums(self, block: Block) -> dict[int, SummedCall]:
        """Sums and averages, over windows too, by where they begin, and what they add up: its type tells whether it
        can be done again."""
        sums = {}
        for span in block.result_spans:
            tokens = tokens_within(self.text, span)
            for index, token in enumerate(tokens[:-1]):
                is_call = token.kind == "word" and tokens[index + 1].text == "(" and token.text.lower() in _SUMS
                if is_call and not any(query.span.start <= token.start < query.span.end for query in block.subqueries):
                    argument, start = _cut_argument(self.text, tokens[index:])
                    sums[token.start] = SummedCall(f"{token.text}({argument})", argument, start)
        return sums

    def _is_total_order(self, block: Block, select: Select, window: WindowCall, places: Sequence[Place]) -> bool:
        """Whether no two rows of a partition are equal in a window's order: they differ in what groups them beneath."""
        ordered = (*window.partition, *(_strip_direction(o) for o in window.order))
        if select.is_grouping:
            return not select.by_sets and {fold(g) for g in select.groups} <= {fold(o) for o in ordered}
        unique = self._unique.get(places[0].input) if len(block.sources) == 1 else None
        if unique is None or block.laterals is not None:
            return False
        alias = block.sources[0].alias
        names = {fold(o).removeprefix(f"{alias}.").strip("`") for o in ordered}
        return unique <= names


def _note_fraction(select: Select, block: Block, fractions: Iterable[str]) -> Select:
    """A block whose sums may come out differently, for the first reason that there is, if nothing else of it does."""
    why = next(filter(None, fractions), "")
    if not why or select.unrepeatable:
        return select
    return replace(select, unrepeatable=why, unrepeatable_at=block.span.start)


def _explain_order(name: str) -> str:
    """Why an aggregate may give another value for the same rows."""
    if name in ORDERED_AGGREGATES:
        return "depends on the order of rows"
    return "adds up fractions" if name.startswith(_FRACTIONS) else "may give another value for the same rows"


def _list_partitionings(windows: Sequence[WindowCall]) -> tuple[tuple[str, ...], ...]:
    """What each window function partitions by, each once; none where one of them has all rows in one partition."""
    rows = [tuple(p for p in window.partition if not _has_aggregate(p)) for window in windows]
    distinct = {tuple(map(fold, partition)): partition for partition in rows}
    return tuple(distinct.values()) if all(rows) else ()


def _has_aggregate(expression: str) -> bool:
    return bool(list_aggregate_calls(expression, Span(0, len(expression))))


def _has_inner_star(select: exp.Select) -> bool:
    """Whether a block has a star in an expression, other than that of `count(*)`."""
    parts = [part for part in select.iter_expressions() if not (part.is_star and part in select.expressions)]
    stars = (star for part in parts for star in iter_outside_queries(part, exp.Star))
    return any(not isinstance(star.parent, exp.Count) for star in stars)


def _cut_argument(text: str, tokens: list[Token]) -> tuple[str, int]:
    """The argument of a call whose name is the first token, without DISTINCT, and where it stands."""
    closing = find_closing(tokens, 1)
    assert closing is not None
    inner = tokens[2:closing]
    if inner and inner[0].text.upper() in ("DISTINCT", "ALL"):
        inner = inner[1:]
    return (text[inner[0].start : inner[-1].end], inner[0].start) if inner else ("1", tokens[0].start)


def _find_clause(block: Block, span: Span) -> Clause:
    if block.where is not None and block.where.covers(span):
        return "where"
    return "result" if any(s.covers(span) for s in block.result_spans) else "other"


def _normalize(text: str, span: Span, node: exp.Expr) -> str:
    """An item of a select list without its alias."""
    return fold(strip_alias(text, span, node).cut(text))


def _strip_direction(order: str) -> str:
    tokens = tokens_within(order, Span(0, len(order)))
    while tokens and tokens[-1].text.upper() in ("ASC", "DESC", "NULLS", "FIRST", "LAST"):
        tokens.pop()
    return order[: tokens[-1].end] if tokens else order
