"""Contracts: the columns that a model promises, held against those of its result before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqb.build.node.context import NodeContext
from sqb.errors.build import ContractBroken
from sqb.lake.port import Column
from sqb.project.models.contract import format_contract_type
from sqb.project.values import ContractColumn
from sqb.types.iceberg import to_stored_type
from sqb.types.spark_json import from_json_type

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
    result_types = {c.name.lower(): (c.name, from_json_type(c.type)) for c in columns}
    for column in promised:
        _, kind = result_types.pop(column.name.lower(), ("", None))
        if kind is None:
            yield column.name, str(column), "(missing)"
        # A small integer keeps the promise of an int too, as that is what the table has for it.
        elif column.type not in (format_contract_type(kind), format_contract_type(to_stored_type(kind))):
            yield column.name, str(column), format_contract_type(kind)
    for name, kind in result_types.values():
        yield name, "(not in contract)", format_contract_type(kind)


def _align_rows(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        yield "   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
