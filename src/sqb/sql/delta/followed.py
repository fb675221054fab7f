"""Which changes a query follows, table by table: those it is linear in, and those its aggregates add up.

Other than a key, which splits a whole query, this is a question of one changed table at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from sqb.sql.delta.aggregates import Aggregation, read_aggregation
from sqb.sql.delta.blocks import NotProven
from sqb.sql.delta.cross_check import check_skeleton
from sqb.sql.delta.linear import (
    Reads,
    find_body_reads,
    find_reads,
    has_window,
    is_aggregating,
    list_aggregate_calls,
)
from sqb.sql.delta.read_skeleton import read_skeleton, tokens_within
from sqb.sql.delta.skeleton import Block, Query, Source, iter_blocks, iter_queries

# Aggregates that are the same for the same rows, whatever the types of their arguments.
_REPEATABLE = frozenset("count count_if min max bool_and every bool_or some any".split())


@dataclass(frozen=True, slots=True)
class Followed:
    """The slots whose changes can be followed."""

    # The query is linear in them.
    linear: frozenset[int] = frozenset()
    # What stands beneath the groups is linear in them, and the aggregates add up.
    additive: frozenset[int] = frozenset()


def find_followed(text: str, tree: exp.Expr, schemas: Sequence[Mapping[str, str]]) -> Followed:
    """Which changes of its tables a query follows; raises `NotProven` when its structure is not understood."""
    query = read_skeleton(text)
    check_skeleton(text, query, tree)
    root = _find_root(text, query, tree)
    _refuse_unrepeatable(text, query, root[0] if root is not None else None)
    linear = find_reads(text, query).linear
    if root is None:
        return Followed(linear)
    block, select, ctes = root
    try:
        read_aggregation(text, block, select, list_source_columns(block, select, schemas))
    except NotProven:
        return Followed(linear)
    return Followed(linear, find_body_reads(text, block, ctes).linear)


def _refuse_unrepeatable(text: str, query: Query, root: Block | None) -> None:
    """Refuse what may come out differently when it is evaluated again over the same rows.

    What did not change is read anew for each row that did. A LIMIT, the order of equal rows in a window, and sums of
    fractions, which depend on the order of adding, need not give again what the rows of before were made with.
    """
    for inner in iter_queries(query):
        if inner.limit is not None and inner is not query:
            raise NotProven("LIMIT", inner.limit.start)
    for block in iter_blocks(query):
        if has_window(text, block):
            raise NotProven("a window function", block.span.start)
        calls = (call for span in block.result_spans for call in list_aggregate_calls(text, span, block.subqueries))
        for call in calls if block is not root else ():
            name = tokens_within(text, call)[0].text.lower()
            if name not in _REPEATABLE:
                raise NotProven(f"{name}() in a part that is read anew", call.start)


def read_root_aggregation(text: str, query: Query, schemas: Sequence[Mapping[str, str]]) -> Aggregation:
    """The groups of a query that `find_followed` says add up."""
    root = _find_root(text, query, sqlglot.parse_one(text, dialect="spark"))
    assert root is not None
    block, select, _ = root
    return read_aggregation(text, block, select, list_source_columns(block, select, schemas))


def _find_root(text: str, query: Query, tree: exp.Expr) -> tuple[Block, exp.Select, Mapping[str, Reads]] | None:
    """The block whose groups are the rows of a query, the same in the tree, and the CTEs that it sees."""
    ctes: dict[str, Reads] = {}
    body, node = query, tree
    while True:
        if body.limit is not None:
            return None
        for cte in body.ctes:
            ctes[cte.name] = find_reads(text, cte.query, ctes)
        if not isinstance(body.body, Query):
            break
        body, node = body.body, node.this
    if not isinstance(body.body, Block) or not isinstance(node, exp.Select) or not is_aggregating(text, body.body):
        return None
    return body.body, node, ctes


def list_source_columns(
    block: Block, select: exp.Select, schemas: Sequence[Mapping[str, str]]
) -> frozenset[str] | None:
    """The names of the columns of all sources of a block, in lower case; None where they are not known."""
    from_ = select.args.get("from_")
    nodes = [from_.this, *(join.this for join in select.args.get("joins") or ())] if from_ is not None else []
    names: set[str] = set()
    for source, node in zip(block.sources, nodes, strict=True):
        columns = _list_columns(source, node, schemas)
        if columns is None or block.laterals is not None:
            return None
        names |= columns
    return frozenset(names)


def _list_columns(source: Source, node: exp.Expr, schemas: Sequence[Mapping[str, str]]) -> set[str] | None:
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return {column.name.lower() for column in alias.columns}
    if source.slot is not None:
        return {name.lower() for name in schemas[source.slot]}
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query) and not node.this.is_star:
        return {name.lower() for name in node.this.named_selects}
    return None
