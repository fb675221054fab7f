"""Where a lake is: everything that it takes to open its catalog and its warehouse, as one value.

Made from a connection's settings at the moment of use: secrets are resolved here, so that a location is never stored
and never printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from sqb.errors.project import BadValue
from sqb.light_dataclass import dataclass
from sqb.project.config.connections.model import Connection, find_number_problem
from sqb.project.config.secrets import (
    find_address_secrets,
    hide,
    list_secret_values,
    list_variable_values,
    remember_secrets,
    resolve_address,
    resolve_variables,
)

_SQLITE = "sqlite:///"
_OBJECT_STORES = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """A catalog and a warehouse."""

    # The connection that it comes from, for messages.
    connection: str = "local"
    # jdbc, rest, hive, glue or catalog-impl.
    type: str = "jdbc"
    # The catalog's name in Spark, in pyiceberg and in the rows of a JDBC catalog.
    name: str = "lake"
    # The file of a SQLite catalog is absolute; an address may hold a password.
    uri: str = field(default="", repr=False)
    # An absolute local path or an address such as s3://bucket/path, without a slash at the end; "" is the catalog's.
    warehouse: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    # What options took from the environment: secrets, whatever the options are called.
    from_environment: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def embedded(cls, database: Path, warehouse: Path, name: str = "lake") -> LakeLocation:
        """A catalog in a SQLite file, and a folder."""
        return cls(name=name, uri=f"{_SQLITE}{database.absolute()}", warehouse=str(warehouse.absolute()))

    @property
    def database(self) -> Path | None:
        """The file of a SQLite catalog."""
        return Path(self.uri.removeprefix(_SQLITE)) if self.type == "jdbc" and self.uri.startswith(_SQLITE) else None

    @property
    def root(self) -> str:
        """Where files go. The warehouse of a REST catalog may be but a name: then the option `location` says it."""
        return self.options.get("location", self.warehouse) if self.type == "rest" else self.warehouse

    @property
    def folder(self) -> Path | None:
        """The warehouse where it is a local folder."""
        return Path(self.root) if self.root.startswith("/") else None

    @property
    def is_postgres(self) -> bool:
        """Whether the catalog is in a PostgreSQL database."""
        return self.type == "jdbc" and self.uri.startswith(("postgresql:", "postgres:"))

    def is_same_lake(self, other: LakeLocation) -> bool:
        """Whether two places are one lake, whatever their connections are called."""
        return (self.type, self.name, self.uri, self.warehouse) == (other.type, other.name, other.uri, other.warehouse)

    def hide(self, text: str) -> str:
        """A text without any secret of this place."""
        return hide(text, self.list_secrets())

    def list_secrets(self) -> tuple[str, ...]:
        """What no text may repeat."""
        return (*find_address_secrets(self.uri), *list_secret_values(self.options), *self.from_environment)


def locate_lake(connection: Connection, root: Path) -> LakeLocation:
    """The place that a connection of the project at `root` means, with its secrets."""
    settings = connection.catalog
    where = f"the connection {connection.name}"
    warehouse = _resolve_warehouse(resolve_variables(settings.warehouse, where), root, settings.type)
    options = _normalize_options(_resolve_options(connection))
    if is_object_store(warehouse) or any(key.startswith("s3.") for key in options):
        options = complete_s3_options(options)
    uri = _resolve_address(resolve_address(settings.uri, where), root)
    from_environment = tuple(
        value for key, text in settings.options.items() for value in list_variable_values(key, text)
    )
    place = LakeLocation(connection.name, settings.type, settings.name, uri, warehouse, options, from_environment)
    remember_secrets(place.list_secrets())
    return place


def is_object_store(warehouse: str) -> bool:
    """Whether a warehouse is in an object store that sqb itself can read and write."""
    return warehouse.startswith(_OBJECT_STORES)


def _resolve_options(connection: Connection) -> dict[str, str]:
    """The options of the catalog, with what the environment says in the place of `@@ENV:NAME`."""
    where = f"the connection {connection.name}"
    options = {key: resolve_variables(value, where) for key, value in connection.catalog.options.items()}
    for key, text in options.items():
        if expected := find_number_problem(key, text):
            raise BadValue(f"`{key}` of {where} must be {expected}", hint="look at the variable that it is taken from")
    return options


def _normalize_options(options: Mapping[str, str]) -> Mapping[str, str]:
    if "location" not in options:
        return options
    return {**options, "location": _normalize_location(options["location"]).rstrip("/")}


def _normalize_location(location: str) -> str:
    if location.startswith(_OBJECT_STORES):
        # Names of Hadoop's for the same store, which is called by one here.
        return f"s3://{location.partition('://')[2]}"
    return "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


def _resolve_address(uri: str, root: Path) -> str:
    if not uri.startswith("sqlite:"):
        return uri
    path = uri.removeprefix(_SQLITE).removeprefix("sqlite://")
    return f"{_SQLITE}{(root / path).absolute()}"


def _resolve_warehouse(text: str, root: Path, type: str) -> str:
    text = _normalize_location(text)
    if "://" in text or not text or type != "jdbc":
        return text.rstrip("/")
    return str((root / text).absolute())


_REGIONS = ("s3.region", "client.region")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
# Stores of one's own ignore the region, but every client wants one.
_ANY_REGION = "us-east-1"
# In seconds, and asked three times: a store that does not answer is one that is out of reach.
_PATIENCE = {"s3.connect-timeout": "5", "s3.request-timeout": "8"}


def complete_s3_options(options: Mapping[str, str]) -> dict[str, str]:
    """The settings with everything that either client needs and that follows from what is set."""
    completed = {**_PATIENCE, **options}
    region = next((completed[key] for key in _REGIONS if completed.get(key)), None)
    region = region or next((os.environ[name] for name in _REGION_VARIABLES if os.environ.get(name)), None)
    own_store = "s3.endpoint" in completed
    if region is None and own_store:
        region = _ANY_REGION
    if region is not None:
        completed = {**dict.fromkeys(_REGIONS, region), **completed}
    if own_store:
        completed.setdefault("s3.path-style-access", "true")
    if "s3.path-style-access" in completed and "s3.force-virtual-addressing" not in completed:
        completed["s3.force-virtual-addressing"] = (
            "false" if completed["s3.path-style-access"].lower() == "true" else "true"
        )
    return completed
