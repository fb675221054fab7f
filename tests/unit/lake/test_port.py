"""Every lake offers what the port asks for, with the same parameters: the one on Iceberg and the one in memory."""

from __future__ import annotations

import inspect

import pytest

from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Lake
from support.memory_lake import MemoryLake

PORT = {
    name: member
    for protocol in Lake.__mro__
    if getattr(protocol, "_is_protocol", False)
    for name, member in vars(protocol).items()
    if not name.startswith("_")
}


def list_parameters(function: object) -> list[tuple[str, object]]:
    assert callable(function)
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("lake", [IcebergLake, MemoryLake])
def test_a_lake_implements_the_port(lake: type[Lake]) -> None:
    implemented = {name: getattr(lake, name) for name in PORT}
    assert [name for name, member in implemented.items() if member is PORT[name]] == []
    functions = [name for name, member in PORT.items() if callable(member)]
    assert {n: list_parameters(implemented[n]) for n in functions} == {n: list_parameters(PORT[n]) for n in functions}
