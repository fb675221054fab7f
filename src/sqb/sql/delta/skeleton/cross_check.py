"""Holding the skeleton of a query against the tree of a parser: two readings that differ prove nothing.

The skeleton comes from tokens, the tree from sqlglot. Every clause is parsed by itself once more and must be the same
part of the tree, so that a word that one of them takes for a clause and the other for a name is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.skeleton.model import Block, Body, Query, SetOperation, Source, Span
from sqb.sql.delta.tree import find_offset, iter_outermost_queries, list_block_expressions

_SET_OPERATIONS = {"UNION": exp.Union, "INTERSECT": exp.Intersect, "EXCEPT": exp.Except}


@dataclass(frozen=True, slots=True)
class Paired:
    """The parts of the tree that belong to those of the skeleton, by the spans of the latter."""

    selects: Mapping[Span, exp.Select]
    subqueries: Mapping[Span, exp.Expr]


def check_skeleton(text: str, query: Query, tree: exp.Expr) -> Paired:
    """Which part of the tree each block is; raises `NotProven` where the two readings of a query differ."""
    check = _Check(text)
    check.check_query(query, tree)
    return Paired(check.selects, check.subqueries)


class _Check:
    def __init__(self, text: str) -> None:
        self.text = text
        self.selects: dict[Span, exp.Select] = {}
        self.subqueries: dict[Span, exp.Expr] = {}

    def check_query(self, query: Query, tree: exp.Expr) -> None:
        with_ = tree.args.get("with_")
        ctes = with_.expressions if with_ is not None else []
        self._agree([c.name for c in query.ctes] == [c.alias.lower() for c in ctes], query.span)
        for cte, node in zip(query.ctes, ctes, strict=True):
            self.check_query(cte.query, node.this)
        self._agree(bool(query.order) == bool(tree.args.get("order")), query.span)
        limited = bool(tree.args.get("limit") or tree.args.get("offset"))
        self._agree(bool(query.limit) == limited, query.span)
        self._check_body(query.body, tree)

    def _check_body(self, body: Body, tree: exp.Expr) -> None:
        match body:
            case Query():
                self._agree(isinstance(tree, exp.Subquery), body.span)
                self.check_query(body, tree.this)
            case SetOperation():
                # sqlglot puts brackets around what binds stronger.
                node = tree.this if isinstance(tree, exp.Subquery) else tree
                self._agree(type(node) is _SET_OPERATIONS[body.operator], body.span)
                assert isinstance(node, exp.SetOperation)
                self._agree(body.keeps_duplicates != bool(node.args.get("distinct")), body.span)
                self._agree(not node.args.get("by_name"), body.span)
                self._check_body(body.left, node.left)
                self._check_body(body.right, node.right)
            case Block():
                self._agree(isinstance(tree, exp.Select), body.span)
                assert isinstance(tree, exp.Select)
                self._check_block(body, tree)

    def _check_block(self, block: Block, select: exp.Select) -> None:
        self._agree(block.is_distinct == bool(select.args.get("distinct")), block.span)
        self._agree(self._parse_list(block.select_list) == select.expressions, block.select_list)
        self._agree(len(block.items) == len(select.expressions), block.select_list)
        for span, key in ((block.where, "where"), (block.having, "having")):
            node = select.args.get(key)
            self._agree((span is None) == (node is None), block.span)
            if span is not None and node is not None:
                self._agree(self._parse(span) == node.this, span)
        group = select.args.get("group")
        self._agree((block.group is None) == (group is None), block.span)
        if block.group_style == "plain" and group is not None:
            self._agree([self._parse(s) for s in block.group or ()] == group.expressions, block.span)
        self._check_sources(block, select)
        self.selects[block.span] = select
        self._check_subqueries(block, select)

    def _check_subqueries(self, block: Block, select: exp.Select) -> None:
        """Queries inside of expressions, in the order in which they are written."""
        joins = [join.args.get("on") for join in select.args.get("joins") or ()]
        nodes = list(iter_outermost_queries(*list_block_expressions(select), *joins))
        self._agree(len(nodes) == len(block.subqueries), block.span)
        for query in block.subqueries:
            span = query.span
            inside = [n for n in nodes if (at := find_offset(n)) is not None and span.start <= at < span.end]
            self._agree(len(inside) == 1, query.span)
            node = inside[0]
            self.subqueries[query.span] = node
            self.check_query(query, node.this if isinstance(node, exp.Subquery) else node)

    def _check_sources(self, block: Block, select: exp.Select) -> None:
        from_, joins = select.args.get("from_"), select.args.get("joins") or []
        self._agree(len(block.sources) == (from_ is not None) + len(joins), block.span)
        self._agree(bool(block.laterals) == bool(select.args.get("laterals")), block.span)
        if from_ is None:
            return
        self._check_source(block.sources[0], from_.this)
        for source, join in zip(block.sources[1:], joins, strict=True):
            self._agree(_get_join_type(join) == source.join, source.span)
            on = join.args.get("on")
            self._agree((source.condition is None) == (on is None), source.span)
            if source.condition is not None and on is not None:
                self._agree(self._parse(source.condition) == on, source.condition)
            self._agree(source.by_name == bool(join.args.get("using") or join.args.get("method")), source.span)
            self._check_source(source, join.this)

    def _check_source(self, source: Source, node: exp.Expr) -> None:
        self._agree(not any(node.args.get(k) for k in ("pivots", "sample", "joins", "laterals")), source.span)
        self._agree(source.alias == node.alias_or_name.lower(), source.span)
        alias = node.args.get("alias")
        renamed = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
        self._agree(list(source.columns) == renamed, source.span)
        if isinstance(source.relation, Query):
            self._agree(isinstance(node, exp.Subquery), source.span)
            self.check_query(source.relation, node.this)
            return
        self._agree(isinstance(node, exp.Table), source.span)
        parts = [p.name.lower() for p in node.parts] if isinstance(node, exp.Table) else []
        self._agree(source.relation == ".".join(parts), source.span)

    def _parse(self, span: Span) -> exp.Expr:
        try:
            return sqlglot.parse_one(span.cut(self.text), dialect="spark")
        except SqlglotError as error:
            raise self._differ(span) from error

    def _parse_list(self, span: Span) -> list[exp.Expr]:
        try:
            return sqlglot.parse_one(f"SELECT {span.cut(self.text)}", dialect="spark").expressions
        except SqlglotError as error:
            raise self._differ(span) from error

    def _agree(self, holds: bool, span: Span) -> None:
        if not holds:
            raise self._differ(span)

    def _differ(self, span: Span) -> NotProven:
        return NotProven("the query is written in a way that is not understood", span.start)


def _get_join_type(join: exp.Join) -> str:
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if kind in ("SEMI", "ANTI"):
        return kind
    if side in ("LEFT", "RIGHT", "FULL"):
        return side
    # A comma is a cross join.
    is_cross = kind == "CROSS" or not any(join.args.get(k) for k in ("on", "using", "kind", "method"))
    return "CROSS" if is_cross else "INNER"
