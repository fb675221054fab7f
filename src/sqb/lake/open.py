"""Opens the lake of a project: the one place outside the janitor and clones that knows which class a lake is."""

from __future__ import annotations

from collections.abc import Callable

from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Lake, StateTables
from sqb.workspace import ProjectHome


def open_lake(home: ProjectHome, wrap_state: Callable[[StateTables], StateTables] | None = None) -> Lake:
    """Open the lake that a project's connection names; `wrap_state` gives it other state tables over its own."""
    return IcebergLake(home.lake_location, cache=home.folder / "cache", wrap_state=wrap_state)


def open_iceberg_lake(home: ProjectHome) -> IcebergLake:
    """Open the same lake for the janitor, which reads and removes the files that it is made of."""
    return IcebergLake(home.lake_location, cache=home.folder / "cache")
