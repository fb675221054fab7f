"""Sums of fractions, as far as the types of columns tell: added up in another order, they come out differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqb.sql.delta.operators.column_types import SourceTypes, adds_up_exactly, find_type
from sqb.sql.delta.operators.model import Operator, OperatorTree, Select


def mark_fractions(tree: OperatorTree, schemas: Sequence[Mapping[str, str]]) -> OperatorTree:
    """The tree in which blocks that add up columns of fractions cannot be evaluated again as they were.

    Only columns that are certainly those of a table are looked at; of others, Spark tells the type when it runs.
    """
    return replace(tree, operators=tuple(_mark(tree, operator, schemas) for operator in tree.operators))


def _mark(tree: OperatorTree, operator: Operator, schemas: Sequence[Mapping[str, str]]) -> Operator:
    block = operator.block
    if block is None or block.unrepeatable or not block.summed:
        return operator
    sources = _list_source_types(tree, operator, block, schemas)
    for summed in block.summed:
        kind = find_type(summed.argument, sources)
        if kind and not adds_up_exactly(summed.call, kind):
            why = f"{summed.call} adds up values of type {kind}"
            return replace(operator, block=replace(block, unrepeatable=why, unrepeatable_at=operator.span.start))
    return operator


def _list_source_types(
    tree: OperatorTree, operator: Operator, block: Select, schemas: Sequence[Mapping[str, str]]
) -> list[SourceTypes]:
    """The alias of each source in FROM and the types of its columns; None of those that are not known."""
    read = {place.number: tree.operators[place.input] for place in operator.places if place.role == "source"}
    sources: list[SourceTypes] = []
    for number, source in enumerate(block.sources):
        table = read.get(number)
        is_known = table is not None and table.kind == "table" and not table.columns
        types = (
            {c.lower(): t.lower() for c, t in schemas[table.slot].items()} if table is not None and is_known else None
        )
        sources.append((source.alias.lower(), types))
    return sources
