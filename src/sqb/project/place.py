"""Where a lake is: everything that it takes to open its catalog and its warehouse, as one value.

Made from a connection's settings at the moment of use: secrets are resolved here, so that a Place is never kept
anywhere and never printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqb.project.connections import Connection, resolved_options
from sqb.project.s3_options import s3_options
from sqb.project.secrets import (
    hide,
    note_secrets,
    resolved,
    resolved_address,
    secret_values,
    secrets_in_address,
    values_of_variables,
)

_SQLITE = "sqlite:///"
_OBJECT_STORES = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, slots=True)
class Place:
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
    def embedded(cls, database: Path, warehouse: Path, name: str = "lake") -> Place:
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

    def is_same_lake(self, other: Place) -> bool:
        """Whether two places are one lake, whatever their connections are called."""
        return (self.type, self.name, self.uri, self.warehouse) == (other.type, other.name, other.uri, other.warehouse)

    def hide(self, text: str) -> str:
        """A text without any secret of this place."""
        return hide(text, self.secrets())

    def secrets(self) -> tuple[str, ...]:
        """What no text may repeat."""
        return (*secrets_in_address(self.uri), *secret_values(self.options), *self.from_environment)


def place_of(connection: Connection, root: Path) -> Place:
    """The place that a connection of the project at `root` means, with its secrets."""
    settings = connection.catalog
    where = f"the connection {connection.name}"
    warehouse = _warehouse(resolved(settings.warehouse, where), root, settings.type)
    options = _options(resolved_options(connection))
    if is_object_store(warehouse) or any(key.startswith("s3.") for key in options):
        options = s3_options(options)
    uri = _address(resolved_address(settings.uri, where), root)
    taken = tuple(value for key, text in settings.options.items() for value in values_of_variables(key, text))
    place = Place(connection.name, settings.type, settings.name, uri, warehouse, options, taken)
    note_secrets(place.secrets())
    return place


def is_object_store(warehouse: str) -> bool:
    """Whether a warehouse is in an object store that sqb itself can read and write."""
    return warehouse.startswith(_OBJECT_STORES)


def _options(options: Mapping[str, str]) -> Mapping[str, str]:
    if "location" not in options:
        return options
    return {**options, "location": _plain(options["location"]).rstrip("/")}


def _plain(location: str) -> str:
    if location.startswith(_OBJECT_STORES):
        # Names of Hadoop's for the same store, which is called by one here.
        return f"s3://{location.partition('://')[2]}"
    return "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


def _address(uri: str, root: Path) -> str:
    if not uri.startswith("sqlite:"):
        return uri
    path = uri.removeprefix(_SQLITE).removeprefix("sqlite://")
    return f"{_SQLITE}{(root / path).absolute()}"


def _warehouse(text: str, root: Path, type: str) -> str:
    text = _plain(text)
    if "://" in text or not text or type != "jdbc":
        return text.rstrip("/")
    return str((root / text).absolute())
