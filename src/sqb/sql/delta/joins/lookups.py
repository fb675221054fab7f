"""How a query joins its tables: which of them only add columns to rows that come from elsewhere.

Such a table is joined by LEFT or INNER JOIN on columns of its own that equal something of other tables, and its columns
are in select lists only, or in what another table of this sort is joined by. Types and columns of tables are not known
here: what cannot be told from the text alone is an obstacle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqb.sql.delta.joins.model import SLOT, JoinedSlot, Joins, Obstacle
from sqb.sql.delta.tree import (
    find_offset,
    has_aggregate,
    iter_block_nodes,
    iter_conjuncts,
    iter_outermost_queries,
    list_block_expressions,
)
from sqb.sql.functions.builtins import GENERATORS

Slots = frozenset[int]
_NO_SLOTS: Slots = frozenset()
# What a block may have beside its list and its source, and still give each row of the source once.
_PLAIN = frozenset({"expressions", "from_", "with_", "hint", "order", "sort"})


def read_joins(text: str, count: int) -> Joins:
    """How each of the tables of a query is joined, or what keeps it from being a lookup."""
    reader = _Reader()
    try:
        result = reader.read(sqlglot.parse_one(text, dialect="spark"), {})
    except (SqlglotError, RecursionError, KeyError, ValueError, AttributeError, TypeError):
        return Joins((Obstacle("the query is written in a way that is not understood"),) * count)
    if result.row_slot is not None:
        reader.add_obstacle({result.row_slot}, "its rows are those of the query")
    columns = {name: tuple(sorted(slots)) for name, slots in result.columns.items()}
    return Joins(tuple(reader.describe_slot(index) for index in range(count)), columns, tuple(sorted(result.rest)))


@dataclass(slots=True)
class _Source:
    """Something in a FROM clause, or the result of a query: which slots its columns come from."""

    # The slot whose rows these are, one for one, and what its columns are called there; None for an expression.
    row_slot: int | None = None
    originals: dict[str, str | None] = field(default_factory=dict)
    # The slots behind each column, and behind all others.
    columns: dict[str, Slots] = field(default_factory=dict)
    rest: Slots = _NO_SLOTS
    # Whether it may have columns that are not listed.
    is_open: bool = True

    def find_slots(self, column: str) -> Slots:
        return self.columns.get(column, self.rest if self.is_open else _NO_SLOTS)

    def find_original(self, column: str) -> str | None:
        return self.originals.get(column, column if self.is_open and column not in self.columns else None)

    @property
    def all_slots(self) -> Slots:
        return self.rest.union(*self.columns.values())


_Scope = dict[str, _Source]


class _Reader:
    """Reads one query, and records for each slot how it is joined and its first obstacle."""

    def __init__(self) -> None:
        self.joined: dict[int, JoinedSlot] = {}
        self.obstacles: dict[int, Obstacle] = {}
        # The slots that are joined by columns of a slot.
        self.joined_by: dict[int, set[int]] = {}

    def add_obstacle(self, slots: Iterable[int], why: str, node: exp.Expr | None = None) -> None:
        for slot in slots:
            self.obstacles.setdefault(slot, Obstacle(why, find_offset(node) if node is not None else None))

    def describe_slot(self, slot: int) -> JoinedSlot | Obstacle:
        if slot in self.obstacles:
            return self.obstacles[slot]
        joined_slot = self.joined.get(slot)
        if joined_slot is None:
            return Obstacle("it is not joined")
        return JoinedSlot(
            joined_slot.is_left, joined_slot.columns, tuple(sorted(self.joined_by.get(slot, ()))), joined_slot.offset
        )

    # --- queries --------------------------------------------------------------------------------------------------

    def read(self, query: exp.Expr, ctes: Mapping[str, _Source]) -> _Source:
        visible_ctes = dict(ctes)
        with_ = query.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                unsupported = with_.args.get("recursive") or cte.args["alias"].columns
                if unsupported:
                    self.add_obstacle(_find_slots_in(cte), "it is read in a CTE that is not understood", cte)
                visible_ctes[cte.alias.lower()] = _Source() if unsupported else self.read(cte.this, visible_ctes)
        match query:
            case exp.Subquery():
                return self.read(query.this, visible_ctes)
            case exp.SetOperation():
                return self._read_set_operation(query, visible_ctes)
            case exp.Select():
                return self._read_select(query, visible_ctes)
            case _:
                self.add_obstacle(_find_slots_in(query), f"{type(query).__name__.upper()} is not understood", query)
                return _Source()

    def _read_set_operation(self, query: exp.SetOperation, ctes: Mapping[str, _Source]) -> _Source:
        sides = [self.read(side, ctes) for side in (query.left, query.right)]
        for side in sides:
            if side.row_slot is not None:
                self.add_obstacle({side.row_slot}, "its rows are those of a branch", query)
        slots = sides[0].all_slots | sides[1].all_slots
        if not isinstance(query, exp.Union) or query.args.get("distinct") or query.args.get("by_name"):
            self.add_obstacle(slots, "its columns go through a set operation other than UNION ALL", query)
        if query.args.get("limit") or query.args.get("offset"):
            self.add_obstacle(slots, "its columns go through a LIMIT", query)
        # Columns are matched by their place, which is not looked at.
        return _Source(rest=slots)

    def _read_source(self, node: exp.Expr, ctes: Mapping[str, _Source]) -> tuple[str, _Source]:
        alias = node.alias_or_name.lower()
        table_alias = node.args.get("alias")
        renamed = isinstance(table_alias, exp.TableAlias) and bool(table_alias.columns)
        unsupported = node.args.get("pivots") or node.args.get("sample") or node.args.get("joins") or renamed
        if isinstance(node, exp.Subquery) and not unsupported:
            return alias, self.read(node.this, ctes)
        if isinstance(node, exp.Table) and not unsupported:
            name = node.name.lower()
            if name.startswith(SLOT):
                slot = int(name.removeprefix(SLOT))
                return alias, _Source(row_slot=slot, rest=frozenset({slot}))
            if name in ctes and not node.args.get("db"):
                return alias, ctes[name]
            return alias, _Source()
        named_ctes = [ctes[t.name.lower()] for t in node.find_all(exp.Table) if t.name.lower() in ctes]
        self.add_obstacle(
            _find_slots_in(node).union(*(s.all_slots for s in named_ctes)), "its source is not understood", node
        )
        return alias, _Source()

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _read_select(self, select: exp.Select, ctes: Mapping[str, _Source]) -> _Source:
        from_ = select.args.get("from_")
        if from_ is None:
            self.add_obstacle(_find_slots_in(select), "it is read in a subquery", select)
            return _Source(is_open=False)
        alias, first = self._read_source(from_.this, ctes)
        scope: _Scope = {alias: first}
        if _is_plain(select):
            return self._build_result(select, scope, first)
        if first.row_slot is not None:
            self.add_obstacle({first.row_slot}, "it is read in FROM", from_.this)
        merged: dict[str, Slots] = {}
        for join in select.args.get("joins") or ():
            self._read_join(join, scope, merged, ctes)
        for lateral in select.args.get("laterals") or ():
            self._record_use(lateral, scope, merged, "is used in a LATERAL VIEW")
        self._record_uses(select, scope, merged, ctes)
        return self._build_result(select, scope, None, merged)

    def _record_uses(
        self, select: exp.Select, scope: _Scope, merged: Mapping[str, Slots], ctes: Mapping[str, _Source]
    ) -> None:
        """Note what of the sources is used elsewhere than in the select list, or in it where rows are mixed."""
        for key, where in (("where", "WHERE"), ("group", "GROUP BY"), ("having", "HAVING"), ("qualify", "QUALIFY")):
            if select.args.get(key) is not None:
                self._record_use(select.args[key], scope, merged, f"is used in {where}")
        for query in iter_outermost_queries(*list_block_expressions(select), select.args.get("qualify")):
            self.add_obstacle(_find_slots_in(query), "it is read in a subquery", query)
            self._record_use(query, scope, merged, "is used in a subquery")
            named_ctes = (ctes[t.name.lower()] for t in query.find_all(exp.Table) if t.name.lower() in ctes)
            self.add_obstacle(_NO_SLOTS.union(*(s.all_slots for s in named_ctes)), "it is read in a subquery", query)
        for window in iter_block_nodes(select, exp.Window):
            self._record_use(window, scope, merged, "is used in a window function")
        items = select.expressions
        if select.args.get("group") or select.args.get("having") or any(has_aggregate(i) for i in items):
            for item in items:
                self._record_use(item, scope, merged, "is used in a list that is grouped")
        if select.args.get("distinct"):
            for item in items:
                self._record_use(item, scope, merged, "is used in a list that is DISTINCT")
        for item in items:
            if any(_is_generator(f) for f in item.find_all(exp.Func)):
                self._record_use(item, scope, merged, "is used in a function that makes rows")
        for key in ("limit", "offset", "sample", "pivots", "match", "connect"):
            if select.args.get(key):
                self.add_obstacle(_list_all_slots(scope), f"it is read below a {key.upper()}", select)

    def _build_result(
        self, select: exp.Select, scope: _Scope, first: _Source | None, merged: Mapping[str, Slots] = {}
    ) -> _Source:
        """What the block around this one sees; `first` is the source whose rows these are, one for one."""
        result = _Source(row_slot=first.row_slot if first is not None else None, is_open=False)
        for item in select.expressions:
            inner = item.unalias()
            if inner.find(exp.Star) is not None and not isinstance(inner, exp.Func):
                source = scope.get(inner.table.lower()) if isinstance(inner, exp.Column) else None
                result.is_open = True
                result.rest |= (
                    source.rest.union(*source.columns.values()) if source is not None else _list_all_slots(scope)
                )
                if first is not None:
                    result.originals = {**first.originals, **result.originals}
                    result.columns = {**first.columns, **result.columns}
                    result.is_open = first.is_open
                continue
            name = item.alias_or_name.lower()
            result.columns[name] = self._find_slots(item, scope, merged, result)
            plain = inner if isinstance(inner, exp.Column) and len(inner.parts) <= 2 else None
            result.originals[name] = first.find_original(plain.name.lower()) if first is not None and plain else None
        return result

    # --- joins ----------------------------------------------------------------------------------------------------

    def _read_join(self, join: exp.Join, scope: _Scope, merged: dict[str, Slots], ctes: Mapping[str, _Source]) -> None:
        alias, source = self._read_source(join.this, ctes)
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        join_type = side or ("INNER" if kind in ("", "INNER") else kind)
        if side and kind not in ("", "OUTER"):
            join_type = f"{side} {kind}"
        on, using = join.args.get("on"), [u.name.lower() for u in join.args.get("using") or ()]
        slot = source.row_slot
        if slot is not None and (join_type not in ("LEFT", "INNER") or not (on or using) or join.args.get("method")):
            join_name = f"{join_type} JOIN" if on or using else "join without ON or USING"
            self.add_obstacle({slot}, f"it is read by a {join.args.get('method') or join_name}", join.this)
        if slot is not None and slot in self.joined:
            self.add_obstacle({slot}, "it is joined more than once through a CTE", join.this)
        if join.args.get("method"):
            # The columns that a NATURAL JOIN compares are not known.
            self.add_obstacle(_list_all_slots(scope) | source.all_slots, "it is read beside a NATURAL JOIN", join.this)
        columns: list[str] = []
        partners: Slots = _NO_SLOTS
        for name in using:
            original = source.find_original(name)
            columns += [original] if original is not None else []
            merged[name] = merged.get(name, _NO_SLOTS).union(*(s.find_slots(name) for s in scope.values()))
            partners |= merged[name]
            if slot is None:
                self.add_obstacle(
                    source.find_slots(name), f"its column {name} is used in the condition of a join", join.this
                )
        outer = dict(scope)
        scope[alias] = source
        for conjunct in iter_conjuncts(on):
            key = _find_join_key(conjunct, alias, outer)
            if key is None or slot is None:
                self._record_use(conjunct, scope, merged, "is used in the condition of a join")
                continue
            column, partner = key
            original = source.find_original(column)
            if original is None:
                self.add_obstacle({slot}, f"its column {column} is an expression", conjunct)
            columns += [original] if original is not None else []
            partners |= self._find_slots(partner, outer, merged)
        self._record_join(slot, join_type == "LEFT", columns, partners, join)

    def _record_join(
        self, joined_slot: int | None, is_left: bool, columns: list[str], partners: Slots, join: exp.Join
    ) -> None:
        if joined_slot is not None and not columns:
            self.add_obstacle({joined_slot}, "it is not joined by the equality of a column", join.this)
        if joined_slot is not None and joined_slot not in self.obstacles:
            self.joined[joined_slot] = JoinedSlot(is_left, tuple(dict.fromkeys(columns)), (), find_offset(join.this))
            for slot in partners - {joined_slot}:
                self.joined_by.setdefault(slot, set()).add(joined_slot)
        else:
            self.add_obstacle(partners, "its columns are used in the condition of another join", join.this)

    # --- columns --------------------------------------------------------------------------------------------------

    def _find_slots(
        self, node: exp.Expr, scope: _Scope, merged: Mapping[str, Slots], aliases: _Source | None = None
    ) -> Slots:
        """The slots whose columns an expression may hold; names without a table may be of any source that is open."""
        slots: Slots = _NO_SLOTS
        for column in node.find_all(exp.Column):
            parts = [p.name.lower() for p in column.parts]
            if len(parts) > 1 and parts[0] in scope:
                source = scope[parts[0]]
                slots |= source.all_slots if isinstance(column.this, exp.Star) else source.find_slots(parts[1])
            elif parts[0] in merged:
                slots |= merged[parts[0]]
            else:
                slots |= _NO_SLOTS.union(*(s.find_slots(parts[0]) for s in scope.values()))
                slots |= aliases.columns.get(parts[0], _NO_SLOTS) if aliases is not None else _NO_SLOTS
        if any(not isinstance(s.parent, exp.Column | exp.Count) for s in node.find_all(exp.Star)):
            slots |= _list_all_slots(scope)
        return slots

    def _record_use(self, node: exp.Expr, scope: _Scope, merged: Mapping[str, Slots], where: str) -> None:
        """Record columns that decide about rows: the slots behind them are not lookups."""
        for column in node.find_all(exp.Column):
            slots = self._find_slots(column, scope, merged)
            is_certain = len(column.parts) > 1 or len(scope) == 1
            uncertainty = "" if is_certain else ", and sqb cannot tell which table it belongs to"
            self.add_obstacle(slots, f"the column {column.sql(dialect='spark')} {where}{uncertainty}", column)
        if any(not isinstance(s.parent, exp.Column | exp.Count) for s in node.find_all(exp.Star)):
            self.add_obstacle(_list_all_slots(scope), f"* {where}", node)


def _list_all_slots(scope: Mapping[str, _Source]) -> Slots:
    return _NO_SLOTS.union(*(s.all_slots for s in scope.values()))


def _find_slots_in(node: exp.Expr) -> Slots:
    names = (t.name.lower() for t in node.find_all(exp.Table))
    return frozenset(int(n.removeprefix(SLOT)) for n in names if n.startswith(SLOT))


def _is_plain(select: exp.Select) -> bool:
    """Whether a block gives each row of its source once, and only chooses and computes columns."""
    if any(value and key not in _PLAIN for key, value in select.args.items()):
        return False
    for item in select.expressions:
        mixes = has_aggregate(item) or item.find(exp.Window) or item.find(exp.Query)
        if mixes or any(_is_generator(f) for f in item.find_all(exp.Func)):
            return False
    return True


def _is_generator(function: exp.Func) -> bool:
    name = str(function.this) if isinstance(function, exp.Anonymous) else function.sql_name()
    return name.lower() in GENERATORS or isinstance(function, exp.UDTF | exp.Explode | exp.Posexplode | exp.Inline)


def _find_join_key(condition: exp.Expr, alias: str, outer: _Scope) -> tuple[str, exp.Expr] | None:
    """The column of a source that a condition makes equal to something of the sources before it, and that."""
    if not isinstance(condition, exp.EQ):
        return None
    for left_side, right_side in ((condition.left, condition.right), (condition.right, condition.left)):
        column = left_side.unnest()
        if not isinstance(column, exp.Column) or [p.name.lower() for p in column.parts[:-1]] != [alias]:
            continue
        other_columns = list(right_side.find_all(exp.Column))
        is_qualified = all(len(c.parts) > 1 and c.parts[0].name.lower() in outer for c in other_columns)
        if other_columns and is_qualified and right_side.find(exp.Query) is None:
            return column.name.lower(), right_side
    return None
