"""Every lake offers what the port asks for, with the same parameters; so do state tables, an environment's included."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from sqb.environments.state_tables import EnvironmentStateTables
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Lake, StateTables
from sqb.lake.state.iceberg import IcebergStateTables
from support.memory_lake import MemoryLake, MemoryStateTables


def list_members(port: type) -> dict[str, Any]:
    """What a protocol asks for, with the protocols that it extends."""
    protocols = [p for p in port.__mro__ if getattr(p, "_is_protocol", False)]
    return {name: m for p in protocols for name, m in vars(p).items() if not name.startswith("_")}


def list_parameters(function: Any) -> list[tuple[str, object]]:
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(
    ("port", "offered"),
    [
        (Lake, IcebergLake),
        (Lake, MemoryLake),
        (StateTables, IcebergStateTables),
        (StateTables, MemoryStateTables),
        (StateTables, EnvironmentStateTables),
    ],
)
def test_a_lake_implements_the_port(port: type, offered: type) -> None:
    members = list_members(port)
    assert members
    assert [name for name, member in members.items() if getattr(offered, name) is member] == []
    functions = [name for name, member in members.items() if callable(member)]
    assert {n: list_parameters(getattr(offered, n)) for n in functions} == {
        n: list_parameters(members[n]) for n in functions
    }
