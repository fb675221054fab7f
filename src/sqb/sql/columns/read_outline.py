"""From the parser's tree to the outline of a query. Only forms that are listed here are understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from sqb.sql.columns.count_arguments import count_arguments
from sqb.sql.columns.outline import (
    Cte,
    Derived,
    Expression,
    Generated,
    Item,
    Join,
    Name,
    Opaque,
    Query,
    Select,
    SetOperation,
    Source,
    Star,
    Table,
    Unreadable,
    UnreadableQuery,
)
from sqb.sql.columns.read_expressions import ExpressionReader, find_span, list_children, read_name
from sqb.sql.text.lexer import Token

# The parts of a SELECT that are read by themselves, or that hold no expressions over its sources.
_READ_APART = frozenset(
    # A window that no function of this SELECT uses has no effect.
    "with_ expressions from_ joins laterals where group having order distinct hint limit offset kind windows".split()
)
# What a table may have without being another one.
_PLAIN_TABLE = frozenset("this db catalog alias joins".split())
_PIVOTED = frozenset(["pivots", "sample"])
_OPERATORS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def read_outline(tree: exp.Expr, text: str, tokens: Sequence[Token]) -> Query:
    """The outline of a query; what is not understood is unreadable, never an error."""
    try:
        # A query in brackets may give a name of one around them another meaning, and sqlglot makes one list of both.
        has_one_with = sum(token.text.upper() == "WITH" for token in tokens) == 1
        return _Reader(text, count_arguments(tokens), has_one_with).read_query(tree)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError):
        return UnreadableQuery()


class _Reader:
    def __init__(self, text: str, counts: Mapping[int, int], has_one_with: bool) -> None:
        self.has_one_with = has_one_with
        self.read = ExpressionReader(text, counts, self.read_query).read

    def read_query(self, node: exp.Expr) -> Query:
        """A query with everything in it."""
        if isinstance(node, exp.Select):
            return self._read_select(node)
        if isinstance(node, exp.SetOperation):
            return SetOperation(
                self._read_ctes(node),
                _OPERATORS[type(node)],
                self.read_query(node.left),
                self.read_query(node.right),
                bool(node.args.get("by_name")),
                self._read_order(node),
            )
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query) and not _is_bracket(node):
            inner = self.read_query(node.this)
            ctes = self._read_ctes(node)
            if not ctes or isinstance(inner, UnreadableQuery):
                return inner
            return inner._replace(ctes=(*ctes, *inner.ctes))
        return UnreadableQuery()

    def _read_ctes(self, node: exp.Expr) -> tuple[Cte, ...]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ()
        recursive = bool(with_.args.get("recursive"))
        return tuple(
            Cte(
                cte.alias.lower(),
                self.read_query(cte.this),
                _list_columns(cte.args["alias"]),
                recursive,
                *(_get_place(cte.args["alias"].this) if self.has_one_with else (-1, -1)),
            )
            for cte in with_.expressions
        )

    def _read_order(self, node: exp.Expr) -> tuple[Expression, ...]:
        order = node.args.get("order")
        return tuple(self.read(o.this if isinstance(o, exp.Ordered) else o) for o in order.expressions) if order else ()

    def _read_select(self, select: exp.Select) -> Query:
        args = select.args
        if any(isinstance(item, exp.QueryTransform) for item in select.expressions):
            return UnreadableQuery()
        where, having, group = args.get("where"), args.get("having"), args.get("group")
        others = [node for key, node in list_children(select) if key not in _READ_APART]
        return Select(
            self._read_ctes(select),
            tuple(self._iter_joins(select)),
            tuple(self._read_item(item) for item in select.expressions),
            self.read(where.this) if where is not None else None,
            self._read_group(group) if group is not None else None,
            group is not None and bool(group.args.get("all")),
            self.read(having.this) if having is not None else None,
            self._read_order(select),
            tuple(self.read(node) for node in others),
            args.get("distinct") is not None,
        )

    def _read_group(self, group: exp.Expr) -> tuple[Expression, ...]:
        return tuple(self.read(node) for _, node in list_children(group))

    def _read_item(self, item: exp.Expr) -> Item:
        if isinstance(item, exp.Alias):
            return Item(self.read(item.this), (item.alias,), *_get_place(item.args["alias"]))
        if isinstance(item, exp.Aliases):
            return Item(self.read(item.this), tuple(name.name for name in item.expressions), -1, -1)
        while isinstance(item, exp.Paren):
            item = item.this
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            return Item(self._read_star(item, star), (), -1, -1)
        if isinstance(item, exp.Window) and item.args.get("alias") is not None:
            return Item(Opaque(), (), -1, -1)
        return Item(self.read(item), (), -1, -1)

    def _read_star(self, item: exp.Expr, star: exp.Expr) -> Expression:
        if any(value and key != "except_" for key, value in star.args.items()):
            return Opaque()
        parts = tuple(p.name for p in item.parts[:-1]) if isinstance(item, exp.Column) else ()
        start, end = find_span(item)
        hidden = tuple(
            read_name(c) if isinstance(c, exp.Column) else Name((c.name,), *find_span(c))
            for c in star.args.get("except_") or ()
        )
        return Star(parts, hidden, start, end)

    # --- sources --------------------------------------------------------------------------------------------------

    def _iter_joins(self, select: exp.Select) -> Iterator[Join]:
        from_ = select.args.get("from_")
        if from_ is not None:
            yield from self._iter_source(from_.this, "inner", None)
        for join in select.args.get("joins") or ():
            yield from self._iter_source(join.this, (join.args.get("kind") or "inner").lower(), join)
        for lateral in select.args.get("laterals") or ():
            yield Join(self._read_lateral(lateral), "inner", None, (), False)

    def _iter_source(self, node: exp.Expr, kind: str, join: exp.Expr | None) -> Iterator[Join]:
        if isinstance(node, exp.Subquery) and _is_bracket(node):
            if node.args.get("alias") is not None or kind in ("semi", "anti"):
                yield self._build_join(Unreadable(), kind, join)
                return
            # Joined tables in brackets: the names of the tables in them stay visible.
            yield from self._iter_source(node.this, "inner", None)
            yield from self._iter_nested(node)
            if join is not None:
                yield self._build_join(Derived(UnreadableQuery(), "", (), False, False), "none", join)
            return
        yield self._build_join(self._read_source(node), kind, join)
        yield from self._iter_nested(node)

    def _iter_nested(self, node: exp.Expr) -> Iterator[Join]:
        for join in node.args.get("joins") or ():
            yield from self._iter_source(join.this, (join.args.get("kind") or "inner").lower(), join)

    def _build_join(self, source: Source, kind: str, join: exp.Expr | None) -> Join:
        if join is None:
            return Join(source, kind, None, (), False)
        if join.args.get("pivots"):
            raise ValueError("PIVOT changes all joined tables, and is not read")
        on, using = join.args.get("on"), join.args.get("using") or ()
        names = tuple(Name((u.name,), *find_span(u)) for u in using)
        if not all(isinstance(u, exp.Identifier) for u in using):
            return Join(Unreadable(), kind, None, (), False)
        natural = (join.args.get("method") or "").upper() == "NATURAL"
        keeps_source = (join.args.get("side") or "").upper() in ("RIGHT", "FULL")
        return Join(source, kind, self.read(on) if on is not None else None, names, natural, keeps_source)

    def _read_source(self, node: exp.Expr) -> Source:
        alias = node.args.get("alias")
        name, columns = _get_alias(alias), _list_columns(alias)
        if isinstance(node, exp.Subquery):
            changed = bool(node.args.get("pivots") or node.args.get("sample") is not None)
            is_pivot = changed and bool(node.args.get("pivots"))
            return Derived(self.read_query(node), name, columns, False, is_pivot, self._read_pivots(node))
        if isinstance(node, exp.Lateral | exp.Values) and node.args.get("pivots"):
            return Unreadable()
        if isinstance(node, exp.Lateral):
            return self._read_lateral(node)
        if isinstance(node, exp.Values):
            rows = tuple(
                tuple(self.read(e) for e in (row.expressions if isinstance(row, exp.Tuple) else (row,)))
                for row in node.expressions
            )
            return Generated(Opaque(), name, columns, -1, rows, False)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            parts = node.parts
            keys = {key for key, value in node.args.items() if value} - _PLAIN_TABLE
            names, pivoted = tuple(p.name for p in parts), self._read_pivots(node) if keys <= _PIVOTED else ()
            return Table(names, parts[0].meta["start"], name, columns, bool(keys - {"sample"}), pivoted)
        if isinstance(node, exp.Table):
            changed = bool(node.args.get("pivots"))
            value = self.read(node.this)
            slot = node.this.meta.get("start", -1)
            return Unreadable() if changed else Generated(value, name, columns, slot, None, False)
        return Unreadable()

    def _read_pivots(self, node: exp.Expr) -> tuple[Expression, ...]:
        """What PIVOT and UNPIVOT read of the columns before them; only of one, since another reads what that makes."""
        pivots = list(node.args.get("pivots") or ())
        if len(pivots) != 1:
            return ()
        pivot = pivots[0]
        if not pivot.args.get("unpivot"):
            parts = [*pivot.expressions, *(field.this for field in pivot.args["fields"])]
        else:
            parts = [part for field in pivot.args["fields"] for part in field.expressions]
        return tuple(self.read(part.this if isinstance(part, exp.PivotAlias) else part) for part in parts)

    def _read_lateral(self, node: exp.Expr) -> Source:
        alias = node.args.get("alias")
        name, columns = _get_alias(alias), _list_columns(alias)
        if isinstance(node.this, exp.Query):
            return Derived(self.read_query(node.this), name, columns, True, False)
        if isinstance(node.this, exp.Unnest):
            return Unreadable()
        slot = node.this.meta.get("start", -1)
        return Generated(self.read(node.this), name, columns, slot, None, bool(node.args.get("view")))


def _get_place(identifier: exp.Expr) -> tuple[int, int]:
    meta = identifier.meta
    return (meta["start"], meta["end"] + 1) if "start" in meta else (-1, -1)


def _is_bracket(node: exp.Subquery) -> bool:
    """Whether brackets are around joined tables, and not around a query."""
    inner = node.this
    is_query = isinstance(inner, exp.Query)
    return not is_query or bool(inner.args.get("joins") and not isinstance(inner, exp.Select))


def _get_alias(alias: exp.Expr | None) -> str:
    return alias.name if isinstance(alias, exp.TableAlias) and alias.this is not None else ""


def _list_columns(alias: exp.Expr | None) -> tuple[str, ...]:
    return tuple(c.name for c in alias.columns) if isinstance(alias, exp.TableAlias) else ()
