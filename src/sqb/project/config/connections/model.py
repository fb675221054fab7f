"""How to reach a catalog and a Spark: apart from the other values, as a build with nothing to do needs only these.

Values are as they were written: `@@ENV:NAME` stays until the moment of use, see `locate_lake` and `resolve_spark`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace

from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.config.secrets import (
    find_address_secrets,
    has_variable,
    list_secret_values,
    list_variable_values,
    remember_secrets,
    resolve_address,
    resolve_variables,
)

# Whether Spark replaces `${…}` in the texts that it is given.
SUBSTITUTION = "spark.sql.variable.substitute"

# Settings that Spark must have before it runs, as arguments of its process: sizes, places and names.
_OF_THE_LAUNCH = (
    "spark.master",
    "spark.submit.",
    "spark.driver.memory",
    "spark.driver.extra",
    "spark.driver.userClassPathFirst",
    "spark.jars",
    "spark.files",
    "spark.archives",
    "spark.kerberos.",
)

# Options of a catalog that sqb itself counts with, and what they must be.
_NUMBERS = {
    "rest.client.connection-timeout-ms": (r"\d+", "a whole number of milliseconds"),
    "rest.client.socket-timeout-ms": (r"\d+", "a whole number of milliseconds"),
    "s3.connect-timeout": (r"\d+(\.\d+)?", "a number of seconds"),
    "s3.request-timeout": (r"\d+(\.\d+)?", "a number of seconds"),
}


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
    # Once it is resolved: the settings in `conf` that took something from the environment, which no text may
    # repeat whatever they are called, and what they took.
    from_environment: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def list_secrets(self) -> tuple[str, ...]:
        """What no text may repeat."""
        environment_values = (value for values in self.from_environment.values() for value in values)
        return (*list_secret_values(self.conf), *environment_values, *find_address_secrets(self.remote or ""))


@dataclass(frozen=True, slots=True)
class Connection:
    """A catalog and a Spark that work together."""

    name: str = "local"
    catalog: CatalogSettings = CatalogSettings()
    spark: SparkSettings = SparkSettings()
    # Something of it is one person's own, secrets perhaps: it is kept nowhere but in that person's file.
    private: bool = False


def find_number_problem(key: str, text: str) -> str | None:
    """What an option of a catalog must be and is not; None when nothing is wrong with it."""
    form, expected = _NUMBERS.get(key, ("", ""))
    return expected if form and not re.fullmatch(form, text) else None


def resolve_spark(connection: Connection) -> SparkSettings:
    """How to get a Spark session, with what the environment says in the place of `@@ENV:NAME`."""
    spark, where = connection.spark, f"the connection {connection.name}"
    from_environment = {
        key: list_variable_values(key, value)
        for key, value in spark.conf.items()
        if has_variable(value) and not key.startswith(_OF_THE_LAUNCH)
    }
    settings = replace(
        spark,
        master=None if spark.master is None else resolve_variables(spark.master, where),
        remote=None if spark.remote is None else resolve_address(spark.remote, where),
        conf={key: resolve_variables(value, where) for key, value in spark.conf.items()},
        from_environment={**spark.from_environment, **from_environment},
    )
    remember_secrets(settings.list_secrets())
    return settings
