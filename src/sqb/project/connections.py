"""How to reach a catalog and a Spark: apart from the other values, as a build with nothing to do needs only these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqb.names import At


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """How to reach the Iceberg catalog."""

    type: str = "jdbc"
    uri: str = "sqlite:///lake/catalog.db"
    warehouse: str = "lake/data"
    name: str = "lake"
    options: Mapping[str, str] = field(default_factory=dict)
    at: At = At("sqlbuild_project.toml")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to get a Spark session."""

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connection:
    """A catalog and a Spark that work together."""

    name: str = "local"
    catalog: CatalogSettings = CatalogSettings()
    spark: SparkSettings = SparkSettings()
