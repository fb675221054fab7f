"""Opens the lake of a project: the one place outside the janitor and clones that knows which class a lake is."""

from __future__ import annotations

from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Lake
from sqb.workspace import ProjectHome


def open_lake(home: ProjectHome) -> Lake:
    """Open the lake that a project's connection names."""
    return open_iceberg_lake(home)


def open_iceberg_lake(home: ProjectHome) -> IcebergLake:
    """Open the same lake for the janitor, which reads and removes the files that it is made of."""
    return IcebergLake(home.lake_location, cache=home.folder / "cache")
