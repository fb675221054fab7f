"""Contracts: the columns that a model promises, held against those of its result before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqb.build.node.context import NodeContext
from sqb.errors.build import ContractBroken
from sqb.lake.port import Column
from sqb.project.models.contract import format_contract_type
from sqb.project.values import ContractColumn

_HEADER = ("column", "contract", "result")


def analyse_node(context: NodeContext, session: Any) -> tuple[Any, tuple[Column, ...]]:
    """The node's query, checked but not run, and its columns, which fit the contract."""
    from sqb.spark.data import frames

    frame = frames.analyze(session, context.render_query().sql)
    columns = frames.list_columns(frame)
    check_contract(context, columns)
    return frame, columns


def check_contract(context: NodeContext, columns: Iterable[Column]) -> None:
    """Refuse a result whose columns are not the promised ones; whether values are NULL is seen in the rows."""
    contract = context.node.contract
    if contract is None:
        return
    broken = list(iter_contract_differences(contract.columns, columns))
    if broken:
        lines = "\n".join(_align_rows([_HEADER, *broken]))
        raise ContractBroken(
            f"the columns of the result are not those of the contract\n{lines}",
            at=contract.at,
            hint="change the query, with CAST where a type differs, or the contract",
        )


def iter_contract_differences(
    promised: Iterable[ContractColumn], columns: Iterable[Column]
) -> Iterator[tuple[str, str, str]]:
    """The columns that differ: the name, what the contract says and what the result has."""
    result_columns = {c.name.lower(): c for c in columns}
    for column in promised:
        result = result_columns.pop(column.name.lower(), None)
        if result is None:
            yield column.name, str(column), "(missing)"
        elif format_contract_type(result.type) != column.type:
            yield column.name, str(column), format_contract_type(result.type)
    for extra in result_columns.values():
        yield extra.name, "(not in contract)", format_contract_type(extra.type)


def _align_rows(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        yield "   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
