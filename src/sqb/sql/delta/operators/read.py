"""Reading a query's operators from its skeleton. What no rule could look into raises `NotProven`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from sqb.names import quote
from sqb.sql.delta.aggregates.read import iter_outside_queries, read_aggregation, read_groups, strip_alias
from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.operators.column_sources import ColumnSources, is_correlated
from sqb.sql.delta.operators.links import ColumnOrigins, read_links
from sqb.sql.delta.operators.model import (
    Clause,
    JoinedSource,
    Operator,
    OperatorKind,
    OperatorTree,
    Place,
    PlaceRole,
    Select,
    Subquery,
    SubqueryUse,
    WindowCall,
)
from sqb.sql.delta.operators.windows import BY_RANK, depends_on_ties, list_windows
from sqb.sql.delta.skeleton.calls import is_aggregating, list_aggregate_calls
from sqb.sql.delta.skeleton.cross_check import Paired, check_skeleton
from sqb.sql.delta.skeleton.model import (
    Block,
    Body,
    Cte,
    Edit,
    Query,
    SetOperation,
    Source,
    Span,
    apply_edits,
)
from sqb.sql.delta.skeleton.read import fold, read_skeleton, split_tokens, tokens_within
from sqb.sql.delta.tree import is_plain_star, iter_conjuncts
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
# Where rows are sent before they are written is nothing that the rows depend on.
_HARMLESS = frozenset({"SORT", "CLUSTER", "DISTRIBUTE"})
_DIRECTIONS = frozenset("asc desc nulls first last".split())
_LIMITS = frozenset({"LIMIT", "OFFSET", "ALL"})
_JOIN_WORDS = frozenset("NATURAL LEFT RIGHT FULL INNER CROSS OUTER SEMI ANTI JOIN".split())

# Types whose values have parts that a name behind a dot can mean.
_WITH_FIELDS = ("struct", "array", "map", "variant")

Ctes = Mapping[str, int]


def read_operators(text: str, tree: exp.Expr, schemas: Sequence[Mapping[str, str]]) -> OperatorTree:
    """The operators of a query; raises `NotProven` when its structure is not understood."""
    query = read_skeleton(text)
    paired = check_skeleton(text, query, tree)
    reader = _Reader(text, paired, ColumnSources(tree, schemas), schemas)
    root = reader.read_query(query, {})
    # The root is the last one: a CTE that is read as it is may stand before others.
    if root != len(reader.operators) - 1:
        raise NotProven("a query that only repeats another one", query.span.start)
    return OperatorTree(tuple(reader.operators))


class _Reader:
    def __init__(self, text: str, paired: Paired, sources: ColumnSources, schemas: Sequence[Mapping[str, str]]) -> None:
        self.text, self.paired, self.sources, self.schemas = text, paired, sources, schemas
        self.operators: list[Operator] = []
        self._tables: dict[int, int] = {}
        # The names of the columns of operators, as far as they are known, and of those that tell their rows apart.
        self._columns: dict[int, tuple[str, ...] | None] = {}
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
        joins = tuple(self._read_join(block, i, places) for i in range(len(block.sources)))
        subqueries = []
        for number, query in enumerate(block.subqueries):
            subquery, inner = self._read_subquery(block, number, query, ctes)
            subqueries.append(subquery)
            places += inner
        select = self._read_select(block, joins, tuple(subqueries), places)
        index = self._add(Operator("block", block.span, tuple(places), block=select))
        self._note_columns(index, block, select, places)
        if not block.is_distinct:
            return index
        distinct = self._add(Operator("distinct", block.span, (Place(block.span, index, "source"),)))
        self._columns[distinct] = self._columns[index]
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

    def _read_join(self, block: Block, number: int, places: Sequence[Place]) -> JoinedSource:
        source, using = block.sources[number], block.sources[number].using
        is_natural = source.by_name and not using
        if is_natural and number == 1:
            left, right = (self._list_columns_of(block, places, i) for i in (0, 1))
            if left is not None and right is not None:
                is_natural, using = False, tuple(name for name in right if name in left)
        keys = self._list_using_keys(block, number, using, places)
        on = self._name_sources(block, number, places, source.condition) if source.condition is not None else ""
        joined = JoinedSource(source.join, source.alias, source.condition, on or "", using, keys, is_natural)
        if source.join not in ("RIGHT", "FULL"):
            return joined
        equal = self._list_equalities(block, number, using, places)
        return replace(joined, equal=equal, before=self._find_before(block, number))

    def _name_sources(self, block: Block, number: int, places: Sequence[Place], span: Span) -> str | None:
        """A part of a join's condition as it can be repeated behind all joins: the columns that a later source may
        have too are written with their source. None where it is not known which one that is."""
        known = [self._list_columns_of(block, places, i) for i in range(len(block.sources))]
        visible = [s.join not in ("SEMI", "ANTI") for s in block.sources]
        later = [columns for i, columns in enumerate(known) if i > number and visible[i]]
        aliases = {source.alias for source in block.sources}
        if self._is_alias_hidden(block, number, places, known):
            return None
        edits = []
        on = self.paired.selects[block.span].args["joins"][number - 1].args["on"]
        for first in (column.parts[0] for column in on.find_all(exp.Column)):
            name, start = first.name.lower(), first.meta.get("start")
            if start is None:
                return None
            is_named = len(first.parent.parts) > 1 and name in aliases if isinstance(first.parent, exp.Column) else True
            if is_named or not span.start <= start < span.end:
                continue
            if block.laterals is None and all(columns is not None and name not in columns for columns in later):
                continue
            before = [i for i in range(number + 1) if visible[i] or i == number]
            owners = [block.sources[i].alias for i in before if name in (known[i] or ())]
            if any(known[i] is None for i in before) or len(owners) != 1 or not owners[0]:
                return None
            edits.append(Edit(Span(start, start), f"{quote(owners[0])}."))
        return apply_edits(self.text, edits, span)

    def _is_alias_hidden(
        self, block: Block, number: int, places: Sequence[Place], known: Sequence[tuple[str, ...] | None]
    ) -> bool:
        """Whether `a.b` may mean a field of a source's column `a` where that source is read alone, and not another's
        column `b`."""
        for own in range(number + 1):
            others = {block.sources[i].alias for i in range(number + 1) if i != own}
            operator, columns = self.operators[places[own].input], known[own]
            if columns is None:
                return True
            kinds = {n.lower(): k for n, k in self.schemas[operator.slot].items()} if operator.kind == "table" else {}
            if any(kinds.get(name, "struct").lower().startswith(_WITH_FIELDS) for name in others & set(columns)):
                return True
        return False

    def _list_using_keys(
        self, block: Block, number: int, using: Sequence[str], places: Sequence[Place]
    ) -> tuple[str, ...]:
        """The columns of USING by names that mean nothing else behind all joins; none where that is not known."""
        if number == 1 and block.sources[0].alias:
            return tuple(f"{quote(block.sources[0].alias)}.{quote(c)}" for c in using)
        if block.laterals is not None:
            return ()
        for later in range(number + 1, len(block.sources)):
            source = block.sources[later]
            if source.join in ("SEMI", "ANTI") or (source.by_name and not source.using):
                continue
            columns, merged = self._list_columns_of(block, places, later), {c.lower() for c in source.using}
            if columns is None or ({c.lower() for c in using} - merged) & set(columns):
                return ()
        return tuple(quote(c) for c in using)

    def _list_equalities(
        self, block: Block, number: int, using: Sequence[str], places: Sequence[Place]
    ) -> tuple[tuple[str, str], ...]:
        """The parts `left = right` of a condition, one side over columns of sources before it, one over its own."""
        source, before = block.sources[number], {s.alias for s in block.sources[:number]}
        if source.condition is None:
            first = block.sources[0].alias
            is_plain = number == 1 and first and source.alias
            return tuple((f"{quote(first)}.{quote(c)}", f"{quote(source.alias)}.{quote(c)}") for c in using if is_plain)
        pairs = []
        for left, right in _split_equalities(self.text, source.condition):
            sides = [{alias for _, alias in self.sources.list_columns(span)} for span in (left, right)]
            if sides[0] == {source.alias} and sides[1] <= before:
                left, right, sides = right, left, sides[::-1]
            if sides[0] and sides[0] <= before and sides[1] == {source.alias}:
                one, other = (self._name_sources(block, number, places, span) for span in (left, right))
                if one is not None and other is not None:
                    pairs.append((one, other))
        return tuple(pairs)

    def _find_before(self, block: Block, number: int) -> Span | None:
        """The sources before a join, with their own joins; None where a comma, which binds less, stands among them."""
        assert block.from_clause is not None
        end = 0
        for one, other in zip(block.sources[:number], block.sources[1:], strict=False):
            tokens = tokens_within(self.text, Span(one.span.end, other.span.start))
            if tokens and tokens[-1].text == ",":
                return None
            while tokens and tokens[-1].text.upper() in _JOIN_WORDS:
                tokens.pop()
            end = tokens[-1].end if tokens else one.span.end
        return Span(block.from_clause.start, end)

    def _note_columns(self, index: int, block: Block, select: Select, places: Sequence[Place]) -> None:
        """Remember the columns of a block, and by which of them its rows differ: the groups that its list shows."""
        items = self.paired.selects[block.span].expressions
        names = tuple(node.alias_or_name.lower() for node in items)
        listed = [self._list_item_columns(block, places, node) for node in items]
        self._columns[index] = None if None in listed else tuple(n for columns in listed for n in columns or ())
        if not select.is_grouping and not select.windows:
            self._origins.note_block(index, block, items, [place.input for place in places])
        if select.is_grouping and not select.by_sets and None not in select.group_items:
            self._unique[index] = frozenset(names[i] for i in select.group_items if i is not None)

    def _list_item_columns(self, block: Block, places: Sequence[Place], node: exp.Expr) -> tuple[str, ...] | None:
        """The names of the columns that an item of a select list makes; None where they are not known."""
        if not node.is_star:
            return (node.alias_or_name.lower(),)
        if not is_plain_star(node) or block.laterals is not None:
            return None
        if isinstance(node, exp.Column):
            numbers = [i for i, source in enumerate(block.sources) if source.alias == node.table.lower()]
            return self._list_columns_of(block, places, numbers[0]) if len(numbers) == 1 else None
        names: list[str] = []
        for number, source in enumerate(block.sources):
            columns = self._list_columns_of(block, places, number)
            if columns is None or (source.by_name and not source.using):
                return None
            if source.join not in ("SEMI", "ANTI"):
                names += [c for c in columns if c not in {u.lower() for u in source.using}]
        return tuple(names)

    def _list_source_columns(self, block: Block, places: Sequence[Place]) -> tuple[str, ...] | None:
        """The names of all columns of a block's sources; None where they are not known."""
        if block.laterals is not None:
            return None
        listed = [self._list_columns_of(block, places, number) for number in range(len(block.sources))]
        return None if None in listed else tuple(name for columns in listed for name in columns or ())

    def _list_columns_of(self, block: Block, places: Sequence[Place], number: int) -> tuple[str, ...] | None:
        """The names of the columns of one source of a block; None where they are not known."""
        node = self.paired.selects[block.span]
        from_ = node.args.get("from_")
        nodes = [from_.this, *(join.this for join in node.args.get("joins") or ())] if from_ is not None else []
        if number >= len(nodes):
            return None
        alias = nodes[number].args.get("alias")
        renamed = tuple(c.name.lower() for c in alias.columns) if isinstance(alias, exp.TableAlias) else ()
        return renamed or self._columns.get(places[number].input)

    # --- subqueries ---------------------------------------------------------------------------------------------------

    def _read_subquery(self, block: Block, number: int, query: Query, ctes: Ctes) -> tuple[Subquery, list[Place]]:
        node = self.paired.subqueries[query.span]
        use, tested = _read_use(self.text, node)
        clause = _find_clause(block, query.span)
        where = self.paired.selects[block.span].args.get("where")
        holder = node.parent
        is_conjunct = clause == "where" and any(holder is c for c in iter_conjuncts(where.this if where else None))
        if not is_correlated(query, self.sources):
            place = Place(query.span, self.read_query(query, ctes), "value", number, is_query=True)
            return Subquery(query.span, use, clause, False, is_conjunct, tested), [place]
        inner = query.body
        if query.ctes or query.limit is not None or not isinstance(inner, Block):
            raise NotProven("a correlated subquery that is not a single SELECT", query.span.start)
        self._refuse_unrepeatable_subquery(inner)
        places = [self._read_correlated_source(s, number, ctes) for s in inner.sources]
        for deeper in inner.subqueries:
            places += self._read_nested(deeper, number, ctes)
        joins = tuple(s.join for s in inner.sources)
        described = Subquery(query.span, use, clause, True, is_conjunct, tested, inner.from_clause, inner.where, joins)
        return described, places

    def _read_correlated_source(self, source: Source, number: int, ctes: Ctes) -> Place:
        if isinstance(source.relation, Query) and is_correlated(source.relation, self.sources):
            raise NotProven("a derived table that reads columns of the query around it", source.span.start)
        return self._read_source(source, "correlated", number, ctes)

    def _read_nested(self, query: Query, number: int, ctes: Ctes) -> list[Place]:
        """The places of a query inside a subquery."""
        if not is_correlated(query, self.sources):
            return [Place(query.span, self.read_query(query, ctes), "nested", number, is_query=True)]
        inner = query.body
        if query.ctes or query.limit is not None or not isinstance(inner, Block):
            raise NotProven("a correlated subquery that is not a single SELECT", query.span.start)
        self._refuse_unrepeatable_subquery(inner)
        places = [replace(self._read_correlated_source(s, number, ctes), role="nested") for s in inner.sources]
        for deeper in inner.subqueries:
            places += self._read_nested(deeper, number, ctes)
        return places

    def _refuse_unrepeatable_subquery(self, block: Block) -> None:
        """A correlated subquery is evaluated again with the rows around it."""
        if list_windows(self.text, block.result_spans, block.subqueries) or set(block.others) - _HARMLESS:
            raise NotProven("a window function in a correlated subquery", block.span.start)
        for span in block.result_spans:
            for call in list_aggregate_calls(self.text, span, block.subqueries):
                name = tokens_within(self.text, call)[0].text.lower()
                if name not in _REPEATABLE | _SUMS:
                    raise NotProven(f"{name}() in a part that is read again", call.start)

    # --- what a block makes of its rows -------------------------------------------------------------------------------

    def _read_select(
        self,
        block: Block,
        joins: tuple[JoinedSource, ...],
        subqueries: tuple[Subquery, ...],
        places: Sequence[Place],
    ) -> Select:
        clauses = (block.where, block.group_clause, block.having_clause)
        node = self.paired.selects[block.span]
        has_star, links = _has_inner_star(node), read_links(block, node, [p.input for p in places], self._origins)
        select = Select(block.select_list, block.items, joins, block.from_clause, *clauses, subqueries, links, has_star)
        if unknown := set(block.others) - _HARMLESS:
            raise NotProven(f"{min(unknown)} is not understood", block.span.start)
        select = self._read_repeatability(block, select)
        if is_aggregating(self.text, block):
            columns = self._list_source_columns(block, places)
            select = self._read_grouping(block, node, select, frozenset(columns) if columns is not None else None)
        windows = tuple(list_windows(self.text, block.result_spans, block.subqueries))
        return self._read_windows(block, node, select, windows, places) if windows else select

    def _read_repeatability(self, block: Block, select: Select) -> Select:
        """What of a block may come out differently when it is evaluated again."""
        summed: list[tuple[str, str]] = []
        for span in block.result_spans:
            for call in list_aggregate_calls(self.text, span, block.subqueries):
                tokens = tokens_within(self.text, call)
                name = tokens[0].text.lower()
                if name in _SUMS:
                    summed.append((call.cut(self.text), _cut_argument(self.text, tokens)))
                elif name not in _REPEATABLE:
                    how = "depends on the order of rows" if name in ORDERED_AGGREGATES else "adds up fractions"
                    select = replace(select, unrepeatable=f"{name}() {how}", unrepeatable_at=call.start)
        return replace(select, summed=tuple(dict.fromkeys(summed)))

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
        partitions = tuple(p for p in shared if not list_aggregate_calls(p, Span(0, len(p))))
        select = replace(
            select,
            windows=windows,
            partitions=partitions,
            partition_items=self._find_items(block, node, partitions),
        )
        for window in windows:
            if why := self._find_unrepeatable_window(block, select, window, places):
                select = replace(select, unrepeatable=why, unrepeatable_at=block.span.start)
        return replace(select, summed=tuple(dict.fromkeys([*select.summed, *self._list_window_sums(block)])))

    def _find_unrepeatable_window(
        self, block: Block, select: Select, window: WindowCall, places: Sequence[Place]
    ) -> str:
        """Why a window function may come out differently when it is evaluated again; "" where it does not."""
        if depends_on_ties(window) and not self._is_total_order(block, select, window, places):
            return f"{window.function}() may choose otherwise among rows that are equal in its order"
        known = window.function in BY_RANK | _REPEATABLE | _SUMS or depends_on_ties(window)
        return "" if known else f"{window.function}() adds up fractions"

    def _list_window_sums(self, block: Block) -> list[tuple[str, str]]:
        """Sums and averages, over windows too, and what they add up: its type tells whether it can be done again."""
        sums = []
        for span in block.result_spans:
            tokens = tokens_within(self.text, span)
            for index, token in enumerate(tokens[:-1]):
                if token.kind == "word" and tokens[index + 1].text == "(" and token.text.lower() in _SUMS:
                    argument = _cut_argument(self.text, tokens[index:])
                    sums.append((f"{token.text}({argument})", argument))
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


def _has_inner_star(select: exp.Select) -> bool:
    """Whether a block has a star in an expression, other than that of `count(*)`."""
    parts = [part for part in select.iter_expressions() if not (part.is_star and part in select.expressions)]
    stars = (star for part in parts for star in iter_outside_queries(part, exp.Star))
    return any(not isinstance(star.parent, exp.Count) for star in stars)


def _cut_argument(text: str, tokens: list[Token]) -> str:
    """The argument of a call whose name is the first token, without DISTINCT."""
    closing = find_closing(tokens, 1)
    assert closing is not None
    inner = tokens[2:closing]
    if inner and inner[0].text.upper() in ("DISTINCT", "ALL"):
        inner = inner[1:]
    return text[inner[0].start : inner[-1].end] if inner else "1"


def _read_use(text: str, node: exp.Expr) -> tuple[SubqueryUse, tuple[str, ...]]:
    """How the value of a subquery is used, and the plain columns that IN compares with it."""
    parent = node.parent
    if isinstance(parent, exp.Exists):
        return "exists", ()
    if isinstance(parent, exp.In) and parent.args.get("query") is node:
        tested = parent.this
        columns = tested.expressions if isinstance(tested, exp.Tuple) else [tested]
        return "in", tuple(_cut_column(text, c) for c in columns) if all(_is_column(c) for c in columns) else ()
    if isinstance(node, exp.Subquery) and not isinstance(parent, exp.All | exp.Any):
        return "scalar", ()
    return "other", ()


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and all("start" in i.meta for i in node.find_all(exp.Identifier))


def _cut_column(text: str, node: exp.Expr) -> str:
    places = [i.meta for i in node.find_all(exp.Identifier)]
    return text[min(p["start"] for p in places) : max(p["end"] for p in places) + 1]


def _find_clause(block: Block, span: Span) -> Clause:
    if block.where is not None and block.where.covers(span):
        return "where"
    return "result" if any(s.covers(span) for s in block.result_spans) else "other"


def _split_equalities(text: str, span: Span) -> list[tuple[Span, Span]]:
    """The two sides of each equality that a condition of the form `a = b AND …` consists of."""
    tokens = tokens_within(text, span)
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0 and token.kind == "word" and token.text.upper() == "AND":
            parts.append([])
        else:
            parts[-1].append(token)
    pairs = []
    for part in parts:
        signs = [i for i, t in enumerate(part) if t.text in ("=", "==", "<=>")]
        plain = not any(t.kind == "word" and t.text.upper() in ("OR", "NOT", "BETWEEN", "CASE") for t in part)
        if len(signs) == 1 and plain and 0 < signs[0] < len(part) - 1:
            at = signs[0]
            pairs.append((Span(part[0].start, part[at - 1].end), Span(part[at + 1].start, part[-1].end)))
    return pairs


def _normalize(text: str, span: Span, node: exp.Expr) -> str:
    """An item of a select list without its alias."""
    return fold(strip_alias(text, span, node).cut(text))


def _strip_direction(order: str) -> str:
    tokens = tokens_within(order, Span(0, len(order)))
    while tokens and tokens[-1].text.upper() in ("ASC", "DESC", "NULLS", "FIRST", "LAST"):
        tokens.pop()
    return order[: tokens[-1].end] if tokens else order
