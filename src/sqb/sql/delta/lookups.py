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

from sqb.sql.delta.joins import SLOT, JoinedSlot, Joins, Obstacle
from sqb.sql.delta.tree import block_expressions, conjuncts_of, has_aggregate, offset_of, own_nodes, queries_in
from sqb.sql.functions import GENERATORS

Slots = frozenset[int]
_NOSLOTS: Slots = frozenset()
# What a block may have beside its list and its source, and still give each row of the source once.
_PLAIN = frozenset({"expressions", "from_", "with_", "hint", "order", "sort"})


def read_joins(text: str, count: int) -> Joins:
    """How each of the tables of a query is joined, or what keeps it from being a lookup."""
    reader = _Reader()
    try:
        result = reader.read(sqlglot.parse_one(text, dialect="spark"), {})
    except (SqlglotError, RecursionError, KeyError, ValueError, AttributeError, TypeError):
        return Joins((Obstacle("the query is written in a way that is not understood"),) * count)
    if result.only is not None:
        reader.spoil({result.only}, "its rows are those of the query")
    columns = {name: tuple(sorted(slots)) for name, slots in result.columns.items()}
    return Joins(tuple(reader.judge(index) for index in range(count)), columns, tuple(sorted(result.rest)))


@dataclass(slots=True)
class _Source:
    """Something in a FROM clause, or the result of a query: which slots its columns come from."""

    # The slot whose rows these are, one for one, and what its columns are called there; None for an expression.
    only: int | None = None
    originals: dict[str, str | None] = field(default_factory=dict)
    # The slots behind each column, and behind all others.
    columns: dict[str, Slots] = field(default_factory=dict)
    rest: Slots = _NOSLOTS
    # Whether it may have columns that are not listed.
    open: bool = True

    def slots_of(self, column: str) -> Slots:
        return self.columns.get(column, self.rest if self.open else _NOSLOTS)

    def original(self, column: str) -> str | None:
        return self.originals.get(column, column if self.open and column not in self.columns else None)

    @property
    def all_slots(self) -> Slots:
        return self.rest.union(*self.columns.values())


_Scope = dict[str, _Source]


class _Reader:
    """Reads one query, and notes for each slot how it is joined and the first thing that stands in its way."""

    def __init__(self) -> None:
        self.joined: dict[int, JoinedSlot] = {}
        self.obstacles: dict[int, Obstacle] = {}
        # The slots that are joined by columns of a slot.
        self.joining: dict[int, set[int]] = {}

    def spoil(self, slots: Iterable[int], why: str, node: exp.Expr | None = None) -> None:
        for slot in slots:
            self.obstacles.setdefault(slot, Obstacle(why, offset_of(node) if node is not None else None))

    def judge(self, slot: int) -> JoinedSlot | Obstacle:
        if slot in self.obstacles:
            return self.obstacles[slot]
        found = self.joined.get(slot)
        if found is None:
            return Obstacle("it is not joined")
        return JoinedSlot(found.is_left, found.columns, tuple(sorted(self.joining.get(slot, ()))), found.offset)

    # --- queries --------------------------------------------------------------------------------------------------

    def read(self, query: exp.Expr, ctes: Mapping[str, _Source]) -> _Source:
        known = dict(ctes)
        with_ = query.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                strange = with_.args.get("recursive") or cte.args["alias"].columns
                if strange:
                    self.spoil(_slots_in(cte), "it is read in a CTE that is not understood", cte)
                known[cte.alias.lower()] = _Source() if strange else self.read(cte.this, known)
        match query:
            case exp.Subquery():
                return self.read(query.this, known)
            case exp.SetOperation():
                return self._set_operation(query, known)
            case exp.Select():
                return self._select(query, known)
            case _:
                self.spoil(_slots_in(query), f"{type(query).__name__.upper()} is not understood", query)
                return _Source()

    def _set_operation(self, query: exp.SetOperation, ctes: Mapping[str, _Source]) -> _Source:
        sides = [self.read(side, ctes) for side in (query.left, query.right)]
        for side in sides:
            if side.only is not None:
                self.spoil({side.only}, "its rows are those of a branch", query)
        slots = sides[0].all_slots | sides[1].all_slots
        if not isinstance(query, exp.Union) or query.args.get("distinct") or query.args.get("by_name"):
            self.spoil(slots, "its columns go through a set operation other than UNION ALL", query)
        if query.args.get("limit") or query.args.get("offset"):
            self.spoil(slots, "its columns go through a LIMIT", query)
        # Columns are matched by their place, which is not looked at.
        return _Source(rest=slots)

    def _source(self, node: exp.Expr, ctes: Mapping[str, _Source]) -> tuple[str, _Source]:
        alias = node.alias_or_name.lower()
        given = node.args.get("alias")
        renamed = isinstance(given, exp.TableAlias) and bool(given.columns)
        strange = node.args.get("pivots") or node.args.get("sample") or node.args.get("joins") or renamed
        if isinstance(node, exp.Subquery) and not strange:
            return alias, self.read(node.this, ctes)
        if isinstance(node, exp.Table) and not strange:
            name = node.name.lower()
            if name.startswith(SLOT):
                slot = int(name.removeprefix(SLOT))
                return alias, _Source(only=slot, rest=frozenset({slot}))
            if name in ctes and not node.args.get("db"):
                return alias, ctes[name]
            return alias, _Source()
        named = [ctes[t.name.lower()] for t in node.find_all(exp.Table) if t.name.lower() in ctes]
        self.spoil(_slots_in(node).union(*(s.all_slots for s in named)), "its source is not understood", node)
        return alias, _Source()

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _select(self, select: exp.Select, ctes: Mapping[str, _Source]) -> _Source:
        from_ = select.args.get("from_")
        if from_ is None:
            self.spoil(_slots_in(select), "it is read in a subquery", select)
            return _Source(open=False)
        alias, first = self._source(from_.this, ctes)
        scope: _Scope = {alias: first}
        if _is_plain(select):
            return self._result(select, scope, first)
        if first.only is not None:
            self.spoil({first.only}, "it is read in FROM", from_.this)
        merged: dict[str, Slots] = {}
        for join in select.args.get("joins") or ():
            self._join(join, scope, merged, ctes)
        for lateral in select.args.get("laterals") or ():
            self._use(lateral, scope, merged, "stands in a LATERAL VIEW")
        self._uses(select, scope, merged, ctes)
        return self._result(select, scope, None, merged)

    def _uses(
        self, select: exp.Select, scope: _Scope, merged: Mapping[str, Slots], ctes: Mapping[str, _Source]
    ) -> None:
        """Note what of the sources stands elsewhere than in the select list, or in it where rows are mixed."""
        for key, where in (("where", "WHERE"), ("group", "GROUP BY"), ("having", "HAVING"), ("qualify", "QUALIFY")):
            if select.args.get(key) is not None:
                self._use(select.args[key], scope, merged, f"stands in {where}")
        for query in queries_in(*block_expressions(select), select.args.get("qualify")):
            self.spoil(_slots_in(query), "it is read in a subquery", query)
            self._use(query, scope, merged, "stands in a subquery")
            named = (ctes[t.name.lower()] for t in query.find_all(exp.Table) if t.name.lower() in ctes)
            self.spoil(_NOSLOTS.union(*(s.all_slots for s in named)), "it is read in a subquery", query)
        for window in own_nodes(select, exp.Window):
            self._use(window, scope, merged, "stands in a window function")
        items = select.expressions
        if select.args.get("group") or select.args.get("having") or any(has_aggregate(i) for i in items):
            for item in items:
                self._use(item, scope, merged, "stands in a list that is grouped")
        if select.args.get("distinct"):
            for item in items:
                self._use(item, scope, merged, "stands in a list that is DISTINCT")
        for item in items:
            if any(_is_generator(f) for f in item.find_all(exp.Func)):
                self._use(item, scope, merged, "stands in a function that makes rows")
        for key in ("limit", "offset", "sample", "pivots", "match", "connect"):
            if select.args.get(key):
                self.spoil(_all_slots(scope), f"it is read below a {key.upper()}", select)

    def _result(
        self, select: exp.Select, scope: _Scope, first: _Source | None, merged: Mapping[str, Slots] = {}
    ) -> _Source:
        """What the block around this one sees; `first` is the source whose rows these are, one for one."""
        result = _Source(only=first.only if first is not None else None, open=False)
        for item in select.expressions:
            inner = item.unalias()
            if inner.find(exp.Star) is not None and not isinstance(inner, exp.Func):
                of = scope.get(inner.table.lower()) if isinstance(inner, exp.Column) else None
                result.open = True
                result.rest |= of.rest.union(*of.columns.values()) if of is not None else _all_slots(scope)
                if first is not None:
                    result.originals = {**first.originals, **result.originals}
                    result.columns = {**first.columns, **result.columns}
                    result.open = first.open
                continue
            name = item.alias_or_name.lower()
            result.columns[name] = self._slots_of(item, scope, merged, result)
            plain = inner if isinstance(inner, exp.Column) and len(inner.parts) <= 2 else None
            result.originals[name] = first.original(plain.name.lower()) if first is not None and plain else None
        return result

    # --- joins ----------------------------------------------------------------------------------------------------

    def _join(self, join: exp.Join, scope: _Scope, merged: dict[str, Slots], ctes: Mapping[str, _Source]) -> None:
        alias, source = self._source(join.this, ctes)
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        sort = side or ("INNER" if kind in ("", "INNER") else kind)
        if side and kind not in ("", "OUTER"):
            sort = f"{side} {kind}"
        on, using = join.args.get("on"), [u.name.lower() for u in join.args.get("using") or ()]
        own = source.only
        if own is not None and (sort not in ("LEFT", "INNER") or not (on or using) or join.args.get("method")):
            how = f"{sort} JOIN" if on or using else "join without ON or USING"
            self.spoil({own}, f"it is read by a {join.args.get('method') or how}", join.this)
        if own is not None and own in self.joined:
            self.spoil({own}, "it is joined more than once through a CTE", join.this)
        if join.args.get("method"):
            # The columns that a NATURAL JOIN compares are not known.
            self.spoil(_all_slots(scope) | source.all_slots, "it is read beside a NATURAL JOIN", join.this)
        columns: list[str] = []
        partners: Slots = _NOSLOTS
        for name in using:
            original = source.original(name)
            columns += [original] if original is not None else []
            merged[name] = merged.get(name, _NOSLOTS).union(*(s.slots_of(name) for s in scope.values()))
            partners |= merged[name]
            if own is None:
                self.spoil(source.slots_of(name), f"its column {name} stands in the condition of a join", join.this)
        outer = dict(scope)
        scope[alias] = source
        for one in conjuncts_of(on):
            key = _key_of(one, alias, outer)
            if key is None or own is None:
                self._use(one, scope, merged, "stands in the condition of a join")
                continue
            column, partner = key
            original = source.original(column)
            if original is None:
                self.spoil({own}, f"its column {column} is an expression", one)
            columns += [original] if original is not None else []
            partners |= self._slots_of(partner, outer, merged)
        self._note(own, sort == "LEFT", columns, partners, join)

    def _note(self, own: int | None, is_left: bool, columns: list[str], partners: Slots, join: exp.Join) -> None:
        if own is not None and not columns:
            self.spoil({own}, "it is not joined by the equality of a column", join.this)
        if own is not None and own not in self.obstacles:
            self.joined[own] = JoinedSlot(is_left, tuple(dict.fromkeys(columns)), (), offset_of(join.this))
            for slot in partners - {own}:
                self.joining.setdefault(slot, set()).add(own)
        else:
            self.spoil(partners, "its columns stand in the condition of another join", join.this)

    # --- columns --------------------------------------------------------------------------------------------------

    def _slots_of(
        self, node: exp.Expr, scope: _Scope, merged: Mapping[str, Slots], aliases: _Source | None = None
    ) -> Slots:
        """The slots whose columns an expression may hold; names without a table may be of any source that is open."""
        found: Slots = _NOSLOTS
        for column in node.find_all(exp.Column):
            parts = [p.name.lower() for p in column.parts]
            if len(parts) > 1 and parts[0] in scope:
                of = scope[parts[0]]
                found |= of.all_slots if isinstance(column.this, exp.Star) else of.slots_of(parts[1])
            elif parts[0] in merged:
                found |= merged[parts[0]]
            else:
                found |= _NOSLOTS.union(*(s.slots_of(parts[0]) for s in scope.values()))
                found |= aliases.columns.get(parts[0], _NOSLOTS) if aliases is not None else _NOSLOTS
        if any(not isinstance(s.parent, exp.Column | exp.Count) for s in node.find_all(exp.Star)):
            found |= _all_slots(scope)
        return found

    def _use(self, node: exp.Expr, scope: _Scope, merged: Mapping[str, Slots], where: str) -> None:
        """Columns that decide about rows: the slots behind them are no lookups."""
        for column in node.find_all(exp.Column):
            slots = self._slots_of(column, scope, merged)
            is_certain = len(column.parts) > 1 or len(scope) == 1
            unsure = "" if is_certain else ", and which table it is of cannot be told"
            self.spoil(slots, f"the column {column.sql(dialect='spark')} {where}{unsure}", column)
        if any(not isinstance(s.parent, exp.Column | exp.Count) for s in node.find_all(exp.Star)):
            self.spoil(_all_slots(scope), f"* {where}", node)


def _all_slots(scope: Mapping[str, _Source]) -> Slots:
    return _NOSLOTS.union(*(s.all_slots for s in scope.values()))


def _slots_in(node: exp.Expr) -> Slots:
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


def _key_of(condition: exp.Expr, alias: str, outer: _Scope) -> tuple[str, exp.Expr] | None:
    """The column of a source that a condition makes equal to something of the sources before it, and that."""
    if not isinstance(condition, exp.EQ):
        return None
    for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
        column = one.unnest()
        if not isinstance(column, exp.Column) or [p.name.lower() for p in column.parts[:-1]] != [alias]:
            continue
        of_others = list(other.find_all(exp.Column))
        named = all(len(c.parts) > 1 and c.parts[0].name.lower() in outer for c in of_others)
        if of_others and named and other.find(exp.Query) is None:
            return column.name.lower(), other
    return None
