"""Reading a qualified query block by block: which keys survive joins, grouping, windows and set operations.

A key survives a step when the step never mixes rows of two key values. The proof is by structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.facts import MARK, Block, KeyCandidate
from sqb.sql.delta.keys.expressions import KeyExpression, list_columns, parse_key_expression, rewrite_over_table
from sqb.sql.delta.tree import (
    Column,
    find_offset,
    get_plain_column,
    get_where,
    has_aggregate,
    iter_block_nodes,
    iter_conjuncts,
    iter_outermost_queries,
    list_block_expressions,
)

# The column that holds the value of an expression, or None.
FindColumn = Callable[[exp.Expr], Column | None]

_SUPPORTED_CLAUSES = frozenset(
    """
    expressions from_ joins laterals where group having distinct order limit offset with_ hint sort distribute cluster
    kind operation_modifiers
    """.split()
)


@dataclass(slots=True)
class _Scope:
    """The sources of a block, joined so far."""

    slots: frozenset[int]
    candidates: frozenset[KeyCandidate]
    aliases: set[str]
    # The last outer join: what it fills with NULL holds no key.
    outer_join: str = ""


class BlockReader:
    """Reads one query; records the reasons why it is not linear, in the order of reading."""

    def __init__(self, slot_prefix: str, schemas: Sequence[Mapping[str, str]]) -> None:
        self.slot_prefix = slot_prefix
        self.schemas = [{n.lower(): kind for n, kind in schema.items()} for schema in schemas]
        self.reasons: list[NotProven] = []
        # The steps that left no key, in the order of reading; the last of them is why the query has none.
        self.obstacles: list[NotProven] = []
        self.read_columns: dict[int, set[str]] = {}
        self._expression_types: dict[tuple[int, str], str] = {}

    def read(self, query: exp.Expr, ctes: Mapping[str, Block]) -> Block:
        """What is known of a query."""
        visible_ctes = dict(ctes)
        with_ = query.args.get("with_")
        if with_ is not None:
            if with_.args.get("recursive"):
                raise NotProven("WITH RECURSIVE", find_offset(query))
            for cte in with_.expressions:
                if isinstance(cte.args.get("alias"), exp.TableAlias) and cte.args["alias"].columns:
                    raise NotProven("a CTE with a column list", find_offset(cte))
                visible_ctes[cte.alias.lower()] = self.read(cte.this, visible_ctes)
        match query:
            case exp.Subquery():
                return self.read(query.this, visible_ctes)
            case exp.SetOperation():
                return self._read_set_operation(query, visible_ctes)
            case exp.Select():
                return self._read_select(query, visible_ctes)
            case _:
                raise NotProven(f"{type(query).__name__.upper()} is not understood", find_offset(query))

    # --- sources and joins ----------------------------------------------------------------------------------------

    def _read_source(self, node: exp.Expr, ctes: Mapping[str, Block]) -> tuple[str, Block]:
        alias = node.alias_or_name.lower()
        if node.args.get("pivots"):
            raise NotProven("PIVOT", find_offset(node))
        if node.args.get("sample"):
            raise NotProven("TABLESAMPLE", find_offset(node))
        if isinstance(node, exp.Subquery):
            columns = node.args["alias"].columns if isinstance(node.args.get("alias"), exp.TableAlias) else ()
            if columns:
                raise NotProven("a derived table with a column list", find_offset(node))
            return alias, self.read(node.this, ctes)
        if not isinstance(node, exp.Table) or node.args.get("joins"):
            raise NotProven("this source is not understood", find_offset(node))
        name = node.name.lower()
        if name.startswith(self.slot_prefix):
            return alias, self._read_slot(int(name.removeprefix(self.slot_prefix)))
        if name in ctes and not node.args.get("db"):
            return alias, ctes[name]
        raise NotProven(f"{node.name} is read at a version of its own", find_offset(node))

    def _read_slot(self, index: int) -> Block:
        self.read_columns.setdefault(index, set())
        candidates = frozenset(KeyCandidate(frozenset({(index, c)}), frozenset({("", c)})) for c in self.schemas[index])
        return Block(frozenset({index}), candidates, tuple(self.schemas[index]))

    def _read_from(self, select: exp.Select, ctes: Mapping[str, Block]) -> _Scope:
        from_ = select.args.get("from_")
        if from_ is None:
            raise NotProven("a SELECT without FROM", find_offset(select))
        alias, first = self._read_source(from_.this, ctes)
        scope = _Scope(first.slots, _alias_candidates(first, alias), {alias})
        for join in select.args.get("joins") or ():
            self._read_join(scope, join, select, ctes)
        for lateral in select.args.get("laterals") or ():
            if not isinstance(lateral.this, exp.Explode | exp.Posexplode | exp.Inline | exp.Anonymous):
                raise NotProven("this LATERAL VIEW is not understood", find_offset(lateral))
        return scope

    def _read_join(self, scope: _Scope, join: exp.Join, select: exp.Select, ctes: Mapping[str, Block]) -> None:
        if join.args.get("using") or join.args.get("method"):
            raise NotProven("this kind of join is not understood", find_offset(join))
        alias, right = self._read_source(join.this, ctes)
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        join_type = side if side in ("LEFT", "RIGHT", "FULL") and kind in ("", "OUTER") else kind or "INNER"
        if side in ("LEFT",) and kind in ("SEMI", "ANTI"):
            join_type = kind
        if join_type not in ("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"):
            raise NotProven(f"{join_type} JOIN is not understood", find_offset(join))
        on = join.args.get("on")
        pairs = list(_iter_equal_columns(on))
        if join_type in ("INNER", "CROSS"):
            # WHERE comes after all joins: `=` drops the rows that an outer join fills with NULL, `<=>` may keep them.
            pairs += list(_iter_equal_columns(get_where(select), exp.EQ))
        inner_queries = list(iter_outermost_queries(on)) if on is not None else []
        if inner_queries:
            raise NotProven("a subquery in a join's condition", find_offset(inner_queries[0]))
        right_candidates = _alias_candidates(right, alias)
        candidates = self._join_candidates(scope, right_candidates, right.slots, join_type, pairs)
        join_name = f"{join_type} OUTER JOIN" if join_type in ("LEFT", "RIGHT", "FULL") else f"{join_type} JOIN"
        scope.outer_join = join_name if join_type in ("LEFT", "RIGHT", "FULL") else scope.outer_join
        left_or_right = scope.candidates if join_type != "RIGHT" else right_candidates
        why = f"{join_name} by something other than equal columns of one type"
        why = "a CTE that is read twice" if scope.slots & right.slots else why
        candidates = self._record_loss(left_or_right and right_candidates, candidates, why, join)
        if join_type not in ("INNER", "CROSS"):
            self._add_reason(f"{join_type} JOIN" if join_type in ("SEMI", "ANTI") else f"{join_type} OUTER JOIN", join)
        if scope.slots & right.slots:
            self._add_reason("a CTE that is read twice", join)
        scope.slots, scope.candidates = scope.slots | right.slots, candidates
        scope.aliases.add(alias)

    def _join_candidates(
        self,
        scope: _Scope,
        right: frozenset[KeyCandidate],
        right_slots: frozenset[int],
        join_type: str,
        pairs: Iterable[tuple[Column, Column]],
    ) -> frozenset[KeyCandidate]:
        candidates: set[KeyCandidate] = set()
        if join_type != "FULL" and join_type != "RIGHT":
            candidates |= {a for a in scope.candidates if not a.restricted_slots & right_slots}
        if join_type in ("INNER", "CROSS", "RIGHT"):
            candidates |= {a for a in right if not a.restricted_slots & scope.slots}
        for left_side, right_side in pairs:
            for left_column, right_column in ((left_side, right_side), (right_side, left_side)):
                for a in scope.candidates:
                    if left_column not in a.columns:
                        continue
                    for b in right:
                        if right_column in b.columns and self._has_same_type(a, b):
                            columns = _list_surviving_columns(join_type, a, b)
                            merged = a.merge(b, columns, scope.slots & right_slots)
                            if merged is not None:
                                candidates.add(merged)
        if join_type in ("INNER", "CROSS"):
            # After an inner join both columns of an equality hold the same value.
            kinds = {column: self._get_type(a) for a in scope.candidates | right for column in a.columns}
            candidates = {_add_equal_columns(a, pairs, kinds) for a in candidates}
        return frozenset(candidates)

    def _get_type(self, candidate: KeyCandidate) -> str:
        return self._get_expression_type(*next(iter(candidate.slots)))

    def _get_expression_type(self, slot: int, expression: str) -> str:
        return self._expression_types.get((slot, expression)) or self.schemas[slot][expression].lower()

    def _has_same_type(self, one: KeyCandidate, other: KeyCandidate) -> bool:
        return len({self._get_expression_type(*slot) for slot in one.slots | other.slots}) == 1

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _read_select(self, select: exp.Select, ctes: Mapping[str, Block]) -> Block:
        unsupported = [k for k, v in select.args.items() if v and k not in _SUPPORTED_CLAUSES]
        if unsupported:
            raise NotProven(f"{unsupported[0].strip('_').upper()} is not understood", find_offset(select))
        _refuse_limit(select)
        scope = self._read_from(select, ctes)
        self._record_columns(select, scope, ctes)
        before = scope.candidates
        correlated = self._restrict_by_subqueries(select, scope, ctes)
        scope.candidates = self._record_loss(
            before, correlated, "a subquery that reads a table whose rows no key ties to it", select
        )
        candidates, find_column = self._add_key_expressions(select, scope.candidates)
        grouped = _list_group_columns(select, find_column)
        if grouped is not None:
            self._add_reason("GROUP BY" if select.args.get("group") else "an aggregate over all rows", select)
            candidates = self._record_loss(
                candidates, _select_candidates(candidates, grouped), _explain_grouping(select, scope.outer_join), select
            )
        for window in iter_block_nodes(select, exp.Window):
            self._add_reason("a window function", window)
            if window.args.get("alias"):
                raise NotProven("a named window", find_offset(window))
            parts = [find_column(c) for c in window.args.get("partition_by") or ()]
            why = "PARTITION BY without a key among its columns" if parts else "a window function without PARTITION BY"
            candidates = self._record_loss(candidates, _select_candidates(candidates, parts), why, window)
        outputs = [item.alias_or_name.lower() for item in select.expressions]
        candidates = frozenset(_project_candidate(a, select.expressions, find_column) for a in candidates)
        if select.args.get("distinct"):
            self._add_reason("DISTINCT", select)
            visible = frozenset(a for a in candidates if a.columns)
            candidates = self._record_loss(candidates, visible, "DISTINCT without a key among its columns", select)
        return Block(scope.slots, candidates, tuple(outputs))

    def _add_key_expressions(
        self, select: exp.Select, candidates: frozenset[KeyCandidate]
    ) -> tuple[frozenset[KeyCandidate], FindColumn]:
        """Add the keys that the block's expressions form, and return how to find the column of an expression."""
        kinds = {column: self._get_type(a) for a in candidates for column in a.columns}

        def parse(node: exp.Expr) -> KeyExpression | None:
            return parse_key_expression(node, kinds) if get_plain_column(node) is None else None

        def find_column(node: exp.Expr) -> Column | None:
            expression = parse(node)
            return (MARK, expression[0]) if expression is not None else get_plain_column(node)

        expressions = [item.unalias() for item in select.expressions]
        expressions += select.args["group"].expressions if select.args.get("group") else []
        expressions += [e for w in iter_block_nodes(select, exp.Window) for e in w.args.get("partition_by") or ()]
        key_expressions = {t for e in expressions if (t := parse(e)) is not None and MARK in t[0]}
        return candidates | {
            a for text, kind in key_expressions for a in self._iter_expression_keys(text, kind, candidates)
        }, find_column

    def _iter_expression_keys(self, text: str, kind: str, candidates: Iterable[KeyCandidate]) -> Iterator[KeyCandidate]:
        """An expression as a key: over one column of any table that holds it, or over several of one table."""
        columns = list_columns(text)
        single: dict[int, dict[Column, str]] = {}
        for candidate in sorted(candidates, key=lambda a: sorted(a.slots)):
            for column in columns & candidate.columns:
                if len(columns) == 1:
                    slot_expressions = {(hole, rewrite_over_table(text, {column: of})) for hole, of in candidate.slots}
                    self._expression_types.update(dict.fromkeys(slot_expressions, kind))
                    yield KeyCandidate(frozenset(slot_expressions), frozenset({(MARK, text)}))
                elif len(candidate.slots) == 1:
                    slot, source_column = next(iter(candidate.slots))
                    single.setdefault(slot, {})[column] = source_column
        for slot, source_columns in single.items():
            if columns == set(source_columns):
                slot_expression = (slot, rewrite_over_table(text, source_columns))
                self._expression_types[slot_expression] = kind
                yield KeyCandidate(frozenset({slot_expression}), frozenset({(MARK, text)}))

    def _record_loss(
        self, before: Iterable[KeyCandidate], after: frozenset[KeyCandidate], why: str, node: exp.Expr
    ) -> frozenset[KeyCandidate]:
        """The keys after a step, which is remembered when none is left."""
        if before and not after:
            self.obstacles.append(NotProven(why, find_offset(node)))
        return after

    def _add_reason(self, why: str, node: exp.Expr) -> None:
        self.reasons.append(NotProven(why, find_offset(node)))

    def _record_columns(self, select: exp.Select, scope: _Scope, ctes: Mapping[str, Block]) -> None:
        sources = [select.args["from_"].this, *(j.this for j in select.args.get("joins") or ())]
        slots = {
            s.alias_or_name.lower(): int(s.name.lower().removeprefix(self.slot_prefix))
            for s in sources
            if isinstance(s, exp.Table) and s.name.lower().startswith(self.slot_prefix)
        }
        for column in select.find_all(exp.Column):
            slot = slots.get(column.table.lower())
            if slot is not None:
                self.read_columns[slot].add(column.name.lower())

    def _restrict_by_subqueries(
        self, select: exp.Select, scope: _Scope, ctes: Mapping[str, Block]
    ) -> frozenset[KeyCandidate]:
        """Subqueries in expressions: read whole, or restricted together with the block by what correlates them."""
        candidates = scope.candidates
        conjuncts = list(iter_conjuncts(get_where(select)))
        for query in iter_outermost_queries(*list_block_expressions(select)):
            inner = query.this if isinstance(query, exp.Subquery) else query
            if not isinstance(inner, exp.Select):
                raise NotProven("this subquery is not understood", find_offset(query))
            self._add_reason("a subquery", query)
            block, links = self._read_subquery(inner, query, conjuncts, ctes)
            unrestricted = {a for a in candidates if not a.restricted_slots & block.slots}
            correlated: set[KeyCandidate] = set()
            for outer, within in links:
                for a in candidates:
                    for b in block.candidates:
                        if outer in a.columns and within in b.columns and self._has_same_type(a, b):
                            merged = a.merge(b, a.columns, scope.slots & block.slots)
                            if merged is not None:
                                correlated.add(merged)
            scope.slots |= block.slots
            candidates = frozenset(unrestricted | correlated)
        return candidates

    def _read_subquery(
        self, inner: exp.Select, query: exp.Expr, conjuncts: list[exp.Expr], ctes: Mapping[str, Block]
    ) -> tuple[Block, list[tuple[Column, Column]]]:
        """A subquery's sources, and the (outer, inner) columns that correlate it with the block around it."""
        visible_ctes = dict(ctes)
        if inner.args.get("with_"):
            raise NotProven("WITH in a subquery", find_offset(inner))
        _refuse_limit(inner)
        scope = self._read_from(inner, visible_ctes)
        self._record_columns(inner, scope, visible_ctes)
        if any(True for _ in iter_outermost_queries(*list_block_expressions(inner))):
            raise NotProven("a subquery in a subquery", find_offset(inner))
        links: list[tuple[Column, Column]] = []
        for left_side, right_side in _iter_equal_columns(get_where(inner)):
            for a, b in ((left_side, right_side), (right_side, left_side)):
                if a[0] not in scope.aliases and b[0] in scope.aliases:
                    links.append((a, b))
        parent = query.parent
        if isinstance(parent, exp.In) and any(parent is c for c in conjuncts) and _is_plain(inner):
            item = inner.expressions[0]
            tested, tested_inner = get_plain_column(parent.this), get_plain_column(item.unalias())
            if tested is not None and tested_inner is not None and len(inner.expressions) == 1:
                links.append((tested, tested_inner))
        return Block(scope.slots, scope.candidates), links

    # --- set operations -------------------------------------------------------------------------------------------

    def _read_set_operation(self, query: exp.SetOperation, ctes: Mapping[str, Block]) -> Block:
        if query.args.get("by_name") or query.args.get("limit") or query.args.get("offset"):
            raise NotProven("this set operation is not understood", find_offset(query))
        left, right = self.read(query.left, ctes), self.read(query.right, ctes)
        if not left.slots or not right.slots or len(left.outputs) != len(right.outputs):
            raise NotProven("a branch that reads no table", find_offset(query))
        all_rows = isinstance(query, exp.Union) and not query.args.get("distinct")
        shared = left.slots & right.slots
        if not all_rows:
            self._add_reason("a set operation other than UNION ALL", query)
        elif shared:
            self._add_reason("a CTE that is read twice", query)
        candidates: set[KeyCandidate] = set()
        for a in left.candidates:
            for b in right.candidates:
                positions = _find_positions(a, left.outputs) & _find_positions(b, right.outputs)
                if positions and self._has_same_type(a, b):
                    merged = a.merge(b, (("", left.outputs[p]) for p in positions), shared)
                    if merged is not None:
                        candidates.add(merged)
        why = "a set operation whose sides have no key in common"
        self._record_loss(left.candidates and right.candidates, frozenset(candidates), why, query)
        return Block(left.slots | right.slots, frozenset(candidates), left.outputs)


def _refuse_limit(select: exp.Select) -> None:
    """Which rows a LIMIT leaves may differ from one evaluation to the next, even over a table that did not change."""
    limit = select.args.get("limit") or select.args.get("offset")
    if limit:
        raise NotProven("LIMIT", find_offset(limit) or find_offset(select))


def _alias_candidates(block: Block, alias: str) -> frozenset[KeyCandidate]:
    """A block's keys, by the names that the block around it uses."""
    return frozenset(KeyCandidate(a.slots, frozenset((alias, name) for _, name in a.columns)) for a in block.candidates)


def _list_surviving_columns(join_type: str, left: KeyCandidate, right: KeyCandidate) -> frozenset[Column]:
    match join_type:
        case "INNER" | "CROSS":
            return left.columns | right.columns
        case "LEFT" | "SEMI" | "ANTI":
            return left.columns
        case "RIGHT":
            return right.columns
        case _:
            return frozenset()


def _add_equal_columns(
    candidate: KeyCandidate, pairs: Iterable[tuple[Column, Column]], kinds: Mapping[Column, str]
) -> KeyCandidate:
    columns = set(candidate.columns)
    for left_side, right_side in pairs:
        # Equal values of two types need not be one value: '1' and '01' both equal 1.
        same = left_side in kinds and kinds[left_side] == kinds.get(right_side)
        if same and (left_side in columns or right_side in columns):
            columns |= {left_side, right_side}
    return KeyCandidate(candidate.slots, frozenset(columns))


def _explain_grouping(select: exp.Select, outer: str) -> str:
    """Why grouping leaves no key."""
    if not select.args.get("group"):
        return "an aggregate over all rows"
    return "GROUP BY without a key among its columns" + (f", after a {outer}" if outer else "")


def _select_candidates(candidates: Iterable[KeyCandidate], columns: Iterable[Column | None]) -> frozenset[KeyCandidate]:
    """The keys that one of these columns holds, known from now on by those columns only."""
    wanted_columns = {c for c in columns if c is not None}
    return frozenset(
        KeyCandidate(a.slots, a.columns & wanted_columns) for a in candidates if a.columns & wanted_columns
    )


def _project_candidate(candidate: KeyCandidate, items: Sequence[exp.Expr], find_column: FindColumn) -> KeyCandidate:
    columns = set()
    names = [item.alias_or_name.lower() for item in items]
    for item, name in zip(items, names, strict=True):
        column = find_column(item.unalias())
        # Two columns with one name are ambiguous.
        if column is not None and column in candidate.columns and names.count(name) == 1:
            columns.add(("", name))
    return KeyCandidate(candidate.slots, frozenset(columns))


def _find_positions(candidate: KeyCandidate, outputs: Sequence[str]) -> set[int]:
    names = {name for _, name in candidate.columns}
    return {i for i, name in enumerate(outputs) if name in names and outputs.count(name) == 1}


def _list_group_columns(select: exp.Select, find_column: FindColumn) -> list[Column | None] | None:
    """List the columns and key expressions of GROUP BY; None when the block does not group."""
    group = select.args.get("group")
    if group is not None:
        if any(group.args.get(k) for k in ("grouping_sets", "rollup", "cube", "totals")):
            raise NotProven("grouping sets", find_offset(group) or find_offset(select))
        if group.args.get("all"):
            return [find_column(i.unalias()) for i in select.expressions if not has_aggregate(i)]
        return [find_column(e) for e in group.expressions]
    if any(has_aggregate(e) for e in list_block_expressions(select)) or select.args.get("having"):
        return []
    return None


def _iter_equal_columns(
    condition: exp.Expr | None, *kinds: type[exp.EQ] | type[exp.NullSafeEQ]
) -> Iterator[tuple[Column, Column]]:
    """Pairs of columns of two sources that a condition makes equal."""
    for conjunct in iter_conjuncts(condition):
        if isinstance(conjunct, kinds or (exp.EQ, exp.NullSafeEQ)):
            left, right = get_plain_column(conjunct.left), get_plain_column(conjunct.right)
            if left is not None and right is not None and left[0] != right[0]:
                yield left, right


def _is_plain(select: exp.Select) -> bool:
    """A subquery that only filters: no grouping, limit, distinct or windows that its IN would have to look through."""
    clauses = ("group", "having", "limit", "offset", "order")
    return not any(select.args.get(k) for k in clauses) and not any(has_aggregate(e) for e in select.expressions)
