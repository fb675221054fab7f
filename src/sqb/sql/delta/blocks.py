"""Reading a qualified query block by block: which keys survive joins, grouping, windows and set operations.

A key survives a step when the step never mixes rows of two key values. The proof is by structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqb.sql.delta.facts import MARK, Atom, Block
from sqb.sql.delta.terms import Term, columns_in, over_table, read_term
from sqb.sql.delta.tree import (
    Column,
    block_expressions,
    conjuncts_of,
    has_aggregate,
    offset_of,
    own_nodes,
    plain_column,
    queries_in,
    where_of,
)

# The column that holds the value of an expression, or None.
Named = Callable[[exp.Expr], Column | None]

_UNDERSTOOD = frozenset(
    """
    expressions from_ joins laterals where group having distinct order limit offset with_ hint sort distribute cluster
    kind operation_modifiers
    """.split()
)


class NotProven(Exception):
    """A construct that stands in the way, and its place in the text."""

    def __init__(self, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.why, self.offset = why, offset


@dataclass(slots=True)
class _Scope:
    """The sources of a block, joined so far."""

    holes: frozenset[int]
    atoms: frozenset[Atom]
    linear: bool
    apart: tuple[tuple[frozenset[int], frozenset[int]], ...]
    aliases: set[str]
    # The last outer join: what it fills with NULL holds no key.
    outer: str = ""


class BlockReader:
    """Reads one query; keeps what it found in the way of being linear, first things first."""

    def __init__(self, hole: str, schemas: Sequence[Mapping[str, str]]) -> None:
        self.hole = hole
        self.schemas = [{n.lower(): kind for n, kind in schema.items()} for schema in schemas]
        self.reasons: list[NotProven] = []
        # The steps that left no key, in the order of reading; the last of them is why the query has none.
        self.obstacles: list[NotProven] = []
        self.read_columns: dict[int, set[str]] = {}
        self._term_types: dict[tuple[int, str], str] = {}

    def read(self, query: exp.Expr, ctes: Mapping[str, Block]) -> Block:
        """What is known of a query."""
        known = dict(ctes)
        with_ = query.args.get("with_")
        if with_ is not None:
            if with_.args.get("recursive"):
                raise NotProven("WITH RECURSIVE", offset_of(query))
            for cte in with_.expressions:
                if isinstance(cte.args.get("alias"), exp.TableAlias) and cte.args["alias"].columns:
                    raise NotProven("a CTE with a column list", offset_of(cte))
                known[cte.alias.lower()] = self.read(cte.this, known)
        match query:
            case exp.Subquery():
                return self.read(query.this, known)
            case exp.SetOperation():
                return self._set_operation(query, known)
            case exp.Select():
                return self._select(query, known)
            case _:
                raise NotProven(f"{type(query).__name__.upper()} is not understood", offset_of(query))

    # --- sources and joins ----------------------------------------------------------------------------------------

    def _source(self, node: exp.Expr, ctes: Mapping[str, Block]) -> tuple[str, Block]:
        alias = node.alias_or_name.lower()
        if node.args.get("pivots"):
            raise NotProven("PIVOT", offset_of(node))
        if node.args.get("sample"):
            raise NotProven("TABLESAMPLE", offset_of(node))
        if isinstance(node, exp.Subquery):
            columns = node.args["alias"].columns if isinstance(node.args.get("alias"), exp.TableAlias) else ()
            if columns:
                raise NotProven("a derived table with a column list", offset_of(node))
            return alias, self.read(node.this, ctes)
        if not isinstance(node, exp.Table) or node.args.get("joins"):
            raise NotProven("this source is not understood", offset_of(node))
        name = node.name.lower()
        if name.startswith(self.hole):
            return alias, self._hole(int(name.removeprefix(self.hole)))
        if name in ctes and not node.args.get("db"):
            return alias, ctes[name]
        raise NotProven(f"{node.name} is read at a version of its own", offset_of(node))

    def _hole(self, index: int) -> Block:
        self.read_columns.setdefault(index, set())
        atoms = frozenset(Atom(frozenset({(index, c)}), frozenset({("", c)})) for c in self.schemas[index])
        return Block(frozenset({index}), atoms, True, tuple(self.schemas[index]))

    def _from(self, select: exp.Select, ctes: Mapping[str, Block]) -> _Scope:
        from_ = select.args.get("from_")
        if from_ is None:
            raise NotProven("a SELECT without FROM", offset_of(select))
        alias, first = self._source(from_.this, ctes)
        scope = _Scope(first.holes, _as_seen(first, alias), first.linear, first.apart, {alias})
        for join in select.args.get("joins") or ():
            self._join(scope, join, select, ctes)
        for lateral in select.args.get("laterals") or ():
            if not isinstance(lateral.this, exp.Explode | exp.Posexplode | exp.Inline | exp.Anonymous):
                raise NotProven("this LATERAL VIEW is not understood", offset_of(lateral))
        return scope

    def _join(self, scope: _Scope, join: exp.Join, select: exp.Select, ctes: Mapping[str, Block]) -> None:
        if join.args.get("using") or join.args.get("method"):
            raise NotProven("this kind of join is not understood", offset_of(join))
        alias, right = self._source(join.this, ctes)
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        sort = side if side in ("LEFT", "RIGHT", "FULL") and kind in ("", "OUTER") else kind or "INNER"
        if side in ("LEFT",) and kind in ("SEMI", "ANTI"):
            sort = kind
        if sort not in ("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"):
            raise NotProven(f"{sort} JOIN is not understood", offset_of(join))
        on = join.args.get("on")
        pairs = list(_equal_columns(on))
        if sort in ("INNER", "CROSS"):
            # WHERE comes after all joins: `=` drops the rows that an outer join fills with NULL, `<=>` may keep them.
            pairs += list(_equal_columns(where_of(select), exp.EQ))
        inner_queries = list(queries_in(on)) if on is not None else []
        if inner_queries:
            raise NotProven("a subquery in a join's condition", offset_of(inner_queries[0]))
        seen = _as_seen(right, alias)
        atoms = self._joined(scope, seen, right.holes, sort, pairs)
        what = f"{sort} OUTER JOIN" if sort in ("LEFT", "RIGHT", "FULL") else f"{sort} JOIN"
        scope.outer = what if sort in ("LEFT", "RIGHT", "FULL") else scope.outer
        both = scope.atoms if sort != "RIGHT" else seen
        why = f"{what} by something other than equal columns of one type"
        why = "a CTE that is read twice" if scope.holes & right.holes else why
        atoms = self._lost(both and seen, atoms, why, join)
        if sort not in ("INNER", "CROSS"):
            self._remember(f"{sort} JOIN" if sort in ("SEMI", "ANTI") else f"{sort} OUTER JOIN", join)
        if scope.holes & right.holes:
            self._remember("a CTE that is read twice", join)
        scope.linear = scope.linear and right.linear and sort in ("INNER", "CROSS") and not (scope.holes & right.holes)
        scope.holes, scope.atoms = scope.holes | right.holes, atoms
        scope.apart += right.apart
        scope.aliases.add(alias)

    def _joined(
        self,
        scope: _Scope,
        right: frozenset[Atom],
        right_holes: frozenset[int],
        sort: str,
        pairs: Iterable[tuple[Column, Column]],
    ) -> frozenset[Atom]:
        found: set[Atom] = set()
        if sort != "FULL" and sort != "RIGHT":
            found |= {a for a in scope.atoms if not a.restricted & right_holes}
        if sort in ("INNER", "CROSS", "RIGHT"):
            found |= {a for a in right if not a.restricted & scope.holes}
        for one, other in pairs:
            for left_column, right_column in ((one, other), (other, one)):
                for a in scope.atoms:
                    if left_column not in a.held:
                        continue
                    for b in right:
                        if right_column in b.held and self._same_type(a, b):
                            held = _held_after(sort, a, b)
                            merged = a.merged(b, held, scope.holes & right_holes)
                            if merged is not None:
                                found.add(merged)
        if sort in ("INNER", "CROSS"):
            # After an inner join both columns of an equality hold the same value.
            kinds = {column: self._type(a) for a in scope.atoms | right for column in a.held}
            found = {_widened(a, pairs, kinds) for a in found}
        return frozenset(found)

    def _type(self, atom: Atom) -> str:
        return self._term_type(*next(iter(atom.holes)))

    def _term_type(self, hole: int, term: str) -> str:
        return self._term_types.get((hole, term)) or self.schemas[hole][term].lower()

    def _same_type(self, one: Atom, other: Atom) -> bool:
        return len({self._term_type(*hole) for hole in one.holes | other.holes}) == 1

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _select(self, select: exp.Select, ctes: Mapping[str, Block]) -> Block:
        strange = [k for k, v in select.args.items() if v and k not in _UNDERSTOOD]
        if strange:
            raise NotProven(f"{strange[0].strip('_').upper()} is not understood", offset_of(select))
        _refuse_limit(select)
        scope = self._from(select, ctes)
        self._note_columns(select, scope, ctes)
        before = scope.atoms
        tied = self._through_subqueries(select, scope, ctes)
        scope.atoms = self._lost(before, tied, "a subquery that reads a table whose rows no key ties to it", select)
        (atoms, named), linear = self._with_terms(select, scope.atoms), scope.linear
        grouped = _group_columns(select, named)
        if grouped is not None:
            linear = self._broken("GROUP BY" if select.args.get("group") else "an aggregate over all rows", select)
            atoms = self._lost(atoms, _holding(atoms, grouped), _why_grouped(select, scope.outer), select)
        for window in own_nodes(select, exp.Window):
            linear = self._broken("a window function", window)
            if window.args.get("alias"):
                raise NotProven("a named window", offset_of(window))
            parts = [named(c) for c in window.args.get("partition_by") or ()]
            why = "PARTITION BY without a key among its columns" if parts else "a window function without PARTITION BY"
            atoms = self._lost(atoms, _holding(atoms, parts), why, window)
        outputs = [item.alias_or_name.lower() for item in select.expressions]
        atoms = frozenset(_projected(a, select.expressions, named) for a in atoms)
        if select.args.get("distinct"):
            linear = self._broken("DISTINCT", select)
            held = frozenset(a for a in atoms if a.held)
            atoms = self._lost(atoms, held, "DISTINCT without a key among its columns", select)
        return Block(scope.holes, atoms, linear, tuple(outputs), scope.apart)

    def _with_terms(self, select: exp.Select, atoms: frozenset[Atom]) -> tuple[frozenset[Atom], Named]:
        """The keys together with those that the block's expressions over them are, and who holds what."""
        kinds = {column: self._type(a) for a in atoms for column in a.held}

        def term(node: exp.Expr) -> Term | None:
            return read_term(node, kinds) if plain_column(node) is None else None

        def named(node: exp.Expr) -> Column | None:
            found = term(node)
            return (MARK, found[0]) if found is not None else plain_column(node)

        expressions = [item.unalias() for item in select.expressions]
        expressions += select.args["group"].expressions if select.args.get("group") else []
        expressions += [e for w in own_nodes(select, exp.Window) for e in w.args.get("partition_by") or ()]
        found = {t for e in expressions if (t := term(e)) is not None and MARK in t[0]}
        return atoms | {a for text, kind in found for a in self._keys_of(text, kind, atoms)}, named

    def _keys_of(self, text: str, kind: str, atoms: Iterable[Atom]) -> Iterator[Atom]:
        """An expression as a key: over one column of any table that holds it, or over several of one table."""
        columns = columns_in(text)
        single: dict[int, dict[Column, str]] = {}
        for atom in sorted(atoms, key=lambda a: sorted(a.holes)):
            for column in columns & atom.held:
                if len(columns) == 1:
                    terms = {(hole, over_table(text, {column: of})) for hole, of in atom.holes}
                    self._term_types.update(dict.fromkeys(terms, kind))
                    yield Atom(frozenset(terms), frozenset({(MARK, text)}))
                elif len(atom.holes) == 1:
                    hole, of = next(iter(atom.holes))
                    single.setdefault(hole, {})[column] = of
        for hole, of_columns in single.items():
            if columns == set(of_columns):
                term = (hole, over_table(text, of_columns))
                self._term_types[term] = kind
                yield Atom(frozenset({term}), frozenset({(MARK, text)}))

    def _lost(self, before: Iterable[Atom], after: frozenset[Atom], why: str, node: exp.Expr) -> frozenset[Atom]:
        """The keys after a step, which is remembered when none is left."""
        if before and not after:
            self.obstacles.append(NotProven(why, offset_of(node)))
        return after

    def _broken(self, why: str, node: exp.Expr) -> bool:
        self._remember(why, node)
        return False

    def _remember(self, why: str, node: exp.Expr) -> None:
        self.reasons.append(NotProven(why, offset_of(node)))

    def _note_columns(self, select: exp.Select, scope: _Scope, ctes: Mapping[str, Block]) -> None:
        sources = [select.args["from_"].this, *(j.this for j in select.args.get("joins") or ())]
        holes = {
            s.alias_or_name.lower(): int(s.name.lower().removeprefix(self.hole))
            for s in sources
            if isinstance(s, exp.Table) and s.name.lower().startswith(self.hole)
        }
        for column in select.find_all(exp.Column):
            hole = holes.get(column.table.lower())
            if hole is not None:
                self.read_columns[hole].add(column.name.lower())

    def _through_subqueries(self, select: exp.Select, scope: _Scope, ctes: Mapping[str, Block]) -> frozenset[Atom]:
        """Subqueries in expressions: read whole, or restricted together with the block by what correlates them."""
        atoms = scope.atoms
        conjuncts = list(conjuncts_of(where_of(select)))
        for query in queries_in(*block_expressions(select)):
            inner = query.this if isinstance(query, exp.Subquery) else query
            if not isinstance(inner, exp.Select):
                raise NotProven("this subquery is not understood", offset_of(query))
            self._remember("a subquery", query)
            scope.linear = False
            block, links = self._inner(inner, query, conjuncts, ctes)
            whole = {a for a in atoms if not a.restricted & block.holes}
            together: set[Atom] = set()
            for outer, within in links:
                for a in atoms:
                    for b in block.atoms:
                        if outer in a.held and within in b.held and self._same_type(a, b):
                            merged = a.merged(b, a.held, scope.holes & block.holes)
                            if merged is not None:
                                together.add(merged)
            scope.holes |= block.holes
            atoms = frozenset(whole | together)
        return atoms

    def _inner(
        self, inner: exp.Select, query: exp.Expr, conjuncts: list[exp.Expr], ctes: Mapping[str, Block]
    ) -> tuple[Block, list[tuple[Column, Column]]]:
        """A subquery's sources, and the (outer, inner) columns that correlate it with the block around it."""
        known = dict(ctes)
        if inner.args.get("with_"):
            raise NotProven("WITH in a subquery", offset_of(inner))
        _refuse_limit(inner)
        scope = self._from(inner, known)
        self._note_columns(inner, scope, known)
        if any(True for _ in queries_in(*block_expressions(inner))):
            raise NotProven("a subquery in a subquery", offset_of(inner))
        links: list[tuple[Column, Column]] = []
        for one, other in _equal_columns(where_of(inner)):
            for a, b in ((one, other), (other, one)):
                if a[0] not in scope.aliases and b[0] in scope.aliases:
                    links.append((a, b))
        parent = query.parent
        if isinstance(parent, exp.In) and any(parent is c for c in conjuncts) and _is_plain(inner):
            item = inner.expressions[0]
            tested, tested_inner = plain_column(parent.this), plain_column(item.unalias())
            if tested is not None and tested_inner is not None and len(inner.expressions) == 1:
                links.append((tested, tested_inner))
        return Block(scope.holes, scope.atoms, False), links

    # --- set operations -------------------------------------------------------------------------------------------

    def _set_operation(self, query: exp.SetOperation, ctes: Mapping[str, Block]) -> Block:
        if query.args.get("by_name") or query.args.get("limit") or query.args.get("offset"):
            raise NotProven("this set operation is not understood", offset_of(query))
        left, right = self.read(query.left, ctes), self.read(query.right, ctes)
        if not left.holes or not right.holes or len(left.outputs) != len(right.outputs):
            raise NotProven("a branch that reads no table", offset_of(query))
        all_rows = isinstance(query, exp.Union) and not query.args.get("distinct")
        shared = left.holes & right.holes
        linear = left.linear and right.linear and all_rows and not shared
        if not all_rows:
            self._remember("a set operation other than UNION ALL", query)
        elif shared:
            self._remember("a CTE that is read twice", query)
        atoms: set[Atom] = set()
        for a in left.atoms:
            for b in right.atoms:
                positions = _positions(a, left.outputs) & _positions(b, right.outputs)
                if positions and self._same_type(a, b):
                    merged = a.merged(b, (("", left.outputs[p]) for p in positions), shared)
                    if merged is not None:
                        atoms.add(merged)
        why = "a set operation whose sides have no key in common"
        self._lost(left.atoms and right.atoms, frozenset(atoms), why, query)
        apart = (*left.apart, *right.apart, (left.holes, right.holes))
        return Block(left.holes | right.holes, frozenset(atoms), linear, left.outputs, apart)


def _refuse_limit(select: exp.Select) -> None:
    """Which rows a LIMIT leaves may differ from one evaluation to the next, even over a table that did not change."""
    found = select.args.get("limit") or select.args.get("offset")
    if found:
        raise NotProven("LIMIT", offset_of(found) or offset_of(select))


def _as_seen(block: Block, alias: str) -> frozenset[Atom]:
    """A block's keys, by the names that the block around it uses."""
    return frozenset(Atom(a.holes, frozenset((alias, name) for _, name in a.held)) for a in block.atoms)


def _held_after(sort: str, left: Atom, right: Atom) -> frozenset[Column]:
    match sort:
        case "INNER" | "CROSS":
            return left.held | right.held
        case "LEFT" | "SEMI" | "ANTI":
            return left.held
        case "RIGHT":
            return right.held
        case _:
            return frozenset()


def _widened(atom: Atom, pairs: Iterable[tuple[Column, Column]], kinds: Mapping[Column, str]) -> Atom:
    held = set(atom.held)
    for one, other in pairs:
        # Equal values of two types need not be one value: '1' and '01' both equal 1.
        same = one in kinds and kinds[one] == kinds.get(other)
        if same and (one in held or other in held):
            held |= {one, other}
    return Atom(atom.holes, frozenset(held))


def _why_grouped(select: exp.Select, outer: str) -> str:
    """Why grouping leaves no key."""
    if not select.args.get("group"):
        return "an aggregate over all rows"
    return "GROUP BY without a key among its columns" + (f", after a {outer}" if outer else "")


def _holding(atoms: Iterable[Atom], columns: Iterable[Column | None]) -> frozenset[Atom]:
    """The keys that one of these columns holds, known from now on by those columns only."""
    wanted = {c for c in columns if c is not None}
    return frozenset(Atom(a.holes, a.held & wanted) for a in atoms if a.held & wanted)


def _projected(atom: Atom, items: Sequence[exp.Expr], named: Named) -> Atom:
    held = set()
    names = [item.alias_or_name.lower() for item in items]
    for item, name in zip(items, names, strict=True):
        column = named(item.unalias())
        # Of two columns with one name nobody can say which is meant.
        if column is not None and column in atom.held and names.count(name) == 1:
            held.add(("", name))
    return Atom(atom.holes, frozenset(held))


def _positions(atom: Atom, outputs: Sequence[str]) -> set[int]:
    names = {name for _, name in atom.held}
    return {i for i, name in enumerate(outputs) if name in names and outputs.count(name) == 1}


def _group_columns(select: exp.Select, named: Named) -> list[Column | None] | None:
    """The columns and terms that a block groups by; None when it does not group at all."""
    group = select.args.get("group")
    if group is not None:
        if any(group.args.get(k) for k in ("grouping_sets", "rollup", "cube", "totals")):
            raise NotProven("grouping sets", offset_of(group) or offset_of(select))
        if group.args.get("all"):
            return [named(i.unalias()) for i in select.expressions if not has_aggregate(i)]
        return [named(e) for e in group.expressions]
    if any(has_aggregate(e) for e in block_expressions(select)) or select.args.get("having"):
        return []
    return None


def _equal_columns(
    condition: exp.Expr | None, *kinds: type[exp.EQ] | type[exp.NullSafeEQ]
) -> Iterator[tuple[Column, Column]]:
    """Pairs of columns of two sources that a condition makes equal."""
    for one in conjuncts_of(condition):
        if isinstance(one, kinds or (exp.EQ, exp.NullSafeEQ)):
            left, right = plain_column(one.left), plain_column(one.right)
            if left is not None and right is not None and left[0] != right[0]:
                yield left, right


def _is_plain(select: exp.Select) -> bool:
    """A subquery that only filters: no grouping, limit, distinct or windows that its IN would have to look through."""
    taken = ("group", "having", "limit", "offset", "order")
    return not any(select.args.get(k) for k in taken) and not any(has_aggregate(e) for e in select.expressions)
