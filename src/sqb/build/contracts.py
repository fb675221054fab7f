"""Contracts: the columns that a model promises, held against those of its result before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqb.build.turn import Turn
from sqb.errors import ContractBroken
from sqb.lake.port import Column
from sqb.project.contract import type_text
from sqb.project.values import ContractColumn

_HEADER = ("column", "contract", "result")


def analysed(turn: Turn, session: Any) -> tuple[Any, tuple[Column, ...]]:
    """The node's query, checked but not run, and its columns, which fit the contract."""
    from sqb.spark import frames

    frame = frames.analyse(session, turn.query().sql)
    columns = frames.columns_of(frame)
    check_contract(turn, columns)
    return frame, columns


def check_contract(turn: Turn, columns: Iterable[Column]) -> None:
    """Refuse a result whose columns are not the promised ones; whether values are NULL is seen in the rows."""
    contract = turn.node.contract
    if contract is None:
        return
    broken = list(differences(contract.columns, columns))
    if broken:
        lines = "\n".join(_aligned([_HEADER, *broken]))
        raise ContractBroken(
            f"the columns of the result are not those of the contract\n{lines}",
            at=contract.at,
            hint="change the query, with CAST where a type differs, or the contract",
        )


def differences(promised: Iterable[ContractColumn], columns: Iterable[Column]) -> Iterator[tuple[str, str, str]]:
    """The columns that differ: the name, what the contract says and what the result has."""
    found = {c.name.lower(): c for c in columns}
    for column in promised:
        result = found.pop(column.name.lower(), None)
        if result is None:
            yield column.name, str(column), "(missing)"
        elif type_text(result.type) != column.type:
            yield column.name, str(column), type_text(result.type)
    for extra in found.values():
        yield extra.name, "(not in contract)", type_text(extra.type)


def _aligned(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        yield "   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
