"""Which source each column of a query comes from, by the place where the column is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.skeleton.model import SLOT, Block, Query, SetOperation, Span

# Before the number of a column without a name: no query can refer to it.
_UNNAMED = "__sqb_unnamed_"


def qualify_columns(tree: exp.Expr, schemas: Sequence[Mapping[str, str]]) -> exp.Expr:
    """The tree with the source of every column; only names matter here, types are compared where keys meet."""
    columns = ({name.lower(): "string" for name in schema} for schema in schemas)
    schema: dict[str, object] = {f"{SLOT}{i}": names for i, names in enumerate(columns)}
    tree_copy = tree.copy()
    _write_out_windows(tree_copy)
    _name_columns(tree_copy)
    return qualify(
        tree_copy,
        dialect="spark",
        schema=schema,
        quote_identifiers=False,
        identify=False,
        validate_qualify_columns=True,
    )


def _write_out_windows(tree: exp.Expr) -> None:
    """Put windows with a name where the name is written."""
    for select in list(tree.find_all(exp.Select)):
        named = {window.name.lower(): window for window in select.args.get("windows") or ()}
        for window in list(select.find_all(exp.Window)) if named else ():
            own = named.get(window.args["alias"].name.lower()) if window.args.get("alias") else None
            if own is None or window.parent_select is not select or window.args.get("partition_by"):
                continue
            window.set("alias", None)
            for key in ("partition_by", "order", "spec"):
                window.set(key, _copy(own.args.get(key)))
        select.set("windows", None)


def _copy(value: exp.Expr | list[exp.Expr] | None) -> exp.Expr | list[exp.Expr] | None:
    return [item.copy() for item in value] if isinstance(value, list) else value.copy() if value is not None else None


def _name_columns(tree: exp.Expr) -> None:
    """Give each column without a name one that no other has: the parser's own could be the name of another column."""
    unnamed = (item for s in tree.find_all(exp.Select) for item in s.expressions if not item.output_name)
    for index, item in enumerate([i for i in unnamed if not i.is_star]):
        item.replace(exp.alias_(item.copy(), f"{_UNNAMED}{index}"))


class ColumnSources:
    """The alias of the source of each column, found when the first one is asked for."""

    def __init__(self, tree: exp.Expr, schemas: Sequence[Mapping[str, str]]) -> None:
        self._tree, self._schemas = tree, schemas
        self._qualified: exp.Expr | None = None
        self._aliases: dict[int, str] | None = None
        # Where columns are written, as the tree has them.
        self._places: tuple[int, ...] | None = None
        # Where columns are written that their query's own source of that alias does not have: one around it does.
        self._outer: set[int] = set()

    def qualify(self) -> exp.Expr:
        """The tree with the source of every column: made once, and only to be read."""
        if self._qualified is None:
            self._qualified = qualify_columns(self._tree, self._schemas)
        return self._qualified

    def is_outer(self, offset: int) -> bool:
        """Whether a column is one of a source around its query that has the alias of a source of the query itself."""
        return offset in self._outer

    def list_columns(self, span: Span) -> list[tuple[int, str]]:
        """The columns that are written in a part of the text: where, and the alias of the source of each."""
        if self._aliases is None:
            self._aliases = self._find_aliases()
        known = self._aliases
        if self._places is None:
            self._places = tuple(_iter_places(self._tree, known))
        columns = []
        for offset in self._places:
            if span.start <= offset < span.end:
                if offset not in known:
                    raise NotProven("a column whose table is not known", offset)
                columns.append((offset, known[offset]))
        return columns

    def _find_aliases(self) -> dict[int, str]:
        try:
            qualified = self.qualify()
        except (SqlglotError, RecursionError, KeyError, ValueError, AttributeError, TypeError) as error:
            raise NotProven("a query whose columns are not known") from error
        aliases: dict[int, str] = {}
        for column in qualified.find_all(exp.Column):
            offset = _find_offset(column)
            if offset is not None and column.table:
                aliases[offset] = column.table.lower()
        for scope in traverse_scope(qualified):
            for column in scope.columns:
                offset, columns = _find_offset(column), self._list_columns_of(scope.sources.get(column.table))
                if offset is not None and columns is not None and column.name.lower() not in columns:
                    self._outer.add(offset)
        return aliases

    def _list_columns_of(self, source: exp.Expr | Scope | None) -> set[str] | None:
        """The names of the columns of a source of a query; None where it is not one of its sources, or not known."""
        if isinstance(source, Scope):
            query = source.expression
            return {name.lower() for name in query.named_selects} if isinstance(query, exp.Query) else None
        if isinstance(source, exp.Table) and source.name.startswith(SLOT):
            return {name.lower() for name in self._schemas[int(source.name.removeprefix(SLOT))]}
        return None


def _iter_places(tree: exp.Expr, known: Mapping[int, str]) -> Iterator[int]:
    """Where columns are written."""
    for column in tree.find_all(exp.Column):
        offset = None if isinstance(column.this, exp.Star) else _find_known_offset(column, known)
        if offset is not None:
            yield offset


def _find_offset(column: exp.Column) -> int | None:
    """Where the name of a column is written, without its qualifier, which the qualified tree may have made."""
    meta = column.this.meta if isinstance(column.this, exp.Identifier) else {}
    offset: int | None = meta.get("start")
    return offset


def _find_known_offset(column: exp.Column, known: Mapping[int, str]) -> int | None:
    """Where the name of a column is written; of `t.struct.field` that of the struct."""
    offset = _find_offset(column)
    places = (part.meta.get("start") for part in reversed(column.parts[:-1]))
    return offset if offset in known else next((place for place in places if place in known), offset)


def is_correlated(query: Query, sources: ColumnSources) -> bool:
    """Whether a subquery reads columns of the queries around it."""
    columns = sources.list_columns(query.span)
    if any(sources.is_outer(offset) for offset, _ in columns):
        raise NotProven("a column of the query around it, which has a source of the same alias", query.span.start)
    return any(alias not in _list_visible(query, offset) for offset, alias in columns)


def _list_visible(body: Query | SetOperation | Block, offset: int) -> set[str]:
    """The aliases that a query itself defines around a place in it."""
    match body:
        case Query():
            for cte in body.ctes:
                if cte.query.span.start <= offset < cte.query.span.end:
                    return _list_visible(cte.query, offset)
            return _list_visible(body.body, offset)
        case SetOperation():
            side = body.left if body.left.span.start <= offset < body.left.span.end else body.right
            return _list_visible(side, offset)
        case Block():
            if any(not source.alias for source in body.sources):
                raise NotProven("a derived table without a name", body.span.start)
            names = {source.alias for source in body.sources}
            for inner in (*(s.relation for s in body.sources if isinstance(s.relation, Query)), *body.subqueries):
                if inner.span.start <= offset < inner.span.end:
                    return names | _list_visible(inner, offset)
            return names
