"""How to reach a catalog and a Spark: apart from the other values, as a build with nothing to do needs only these.

Values are as they were written: `@@ENV:NAME` stays until the moment of use, see `place` and `resolved_spark`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqb.names import At
from sqb.project.secrets import resolved, resolved_address


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """How to reach the Iceberg catalog."""

    # jdbc, rest, hive, glue or catalog-impl.
    type: str = "jdbc"
    uri: str = field(default="sqlite:///lake/catalog.db", repr=False)
    warehouse: str = "lake/data"
    name: str = "lake"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    at: At = At("sqlbuild_project.toml")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to get a Spark session."""

    master: str | None = None
    # A Spark Connect server, sc://host:port/;token=…
    remote: str | None = field(default=None, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Connection:
    """A catalog and a Spark that work together."""

    name: str = "local"
    catalog: CatalogSettings = CatalogSettings()
    spark: SparkSettings = SparkSettings()
    # Something of it is one person's own, secrets perhaps: it is kept nowhere but in that person's file.
    private: bool = False

    def to_cache(self) -> list[Any] | None:
        """The settings as plain values; None when they must be read from the files each time."""
        if self.private:
            return None
        catalog, spark = self.catalog, self.spark
        return [
            self.name,
            [catalog.type, catalog.uri, catalog.warehouse, catalog.name, dict(catalog.options)],
            [spark.master, spark.remote, dict(spark.conf)],
        ]

    @classmethod
    def from_cache(cls, kept: list[Any]) -> Connection:
        """What `to_cache` gave."""
        name, catalog, spark = kept
        return cls(name, CatalogSettings(*catalog), SparkSettings(*spark))


def resolved_spark(connection: Connection) -> SparkSettings:
    """How to get a Spark session, with what the environment says in the place of `@@ENV:NAME`."""
    spark, where = connection.spark, f"the connection {connection.name}"
    return replace(
        spark,
        master=None if spark.master is None else resolved(spark.master, where),
        remote=None if spark.remote is None else resolved_address(spark.remote, where),
        conf={key: resolved(value, where) for key, value in spark.conf.items()},
    )
