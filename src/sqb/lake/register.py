"""The register of a lake: which relations there are, and where the metadata of each is.

It is the catalog without the files. Planning uses `pointers` and `state_locations`, which must load neither pyiceberg
nor SQLAlchemy. Every change is conditional on what the caller has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sqb.errors import LakeError
from sqb.lake.port import Base, Pointer, ViewMove
from sqb.lake.storage import RunKeeper, Storage
from sqb.names import Relation
from sqb.project.place import Place

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


class Register(Protocol):
    """One catalog."""

    # Whether a table's metadata can be exchanged for other metadata.
    exchanges: bool

    def exists(self) -> bool:
        """Whether there is a catalog at all; where that takes a question of its own, `pointers` tells as well."""

    def initialise(self) -> None:
        """Make the catalog if it is not there yet; refused where it belongs to another warehouse."""

    def pointers(self) -> Mapping[Relation, Pointer]:
        """Every relation of the catalog; refused where it belongs to another warehouse."""

    def document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        """The metadata behind a pointer where it came along with it; None where it is read from the storage."""

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        """Have at hand what these lead to, where each takes a question of its own."""

    def living(self, pointers: Mapping[Relation, Pointer]) -> Container[str]:
        """The locations of metadata that pointers lead to, or may lead to where not all of them are known."""

    def state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        """Where the metadata of a state table is now, by those of the schemas that have it."""

    def catalog(self) -> Catalog:
        """The catalog as pyiceberg sees it, for commits; made anew with each call."""

    def swap(self, target: Relation, location: str, base: Base | None) -> None:
        """Put a table in the place of the table or view that stood at `base`, or of nothing, in one step."""

    def exchange(self, relation: Relation, before: str, after: str) -> bool:
        """Let a table be described by another metadata file; False when `before` is not its metadata any more."""

    def forget(self, pointer: Pointer) -> bool:
        """Take a relation out of the catalog; False when it is not where it was any more."""

    def drop(self, relation: Relation) -> None:
        """Take a relation out of the catalog, wherever its metadata is."""

    def forget_schemas(self, schemas: Iterable[str]) -> None:
        """Take schemas out of the catalog that hold nothing, and of which nothing but their being there is said."""

    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        """Put a view that was made under another name in the place of what stood at `base`, in one step.

        The view under the other name goes; its files are the caller's to remove.
        """

    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        """Make, replace and remove views, and tell the metadata files of those that stand now.

        All of it happens or nothing, where the catalog has transactions; refused when one is not where it was.
        """

    def runs(self) -> RunKeeper | None:
        """The runs that are known by something in this catalog; None where it has nothing that ends with a run."""

    def explain(self, error: BaseException) -> LakeError | None:
        """What a failure of the catalog or of its driver means; None where it is not one of these."""

    def close(self) -> None:
        """Let go of connections."""


def open_register(place: Place, storage: Storage) -> Register:
    """The register of a place's catalog."""
    if place.database is not None:
        from sqb.lake.sqlite_register import SqliteRegister  # each register is loaded where it is used

        return SqliteRegister(place, storage)
    if place.type == "rest":
        from sqb.lake.rest_register import RestRegister  # each register is loaded where it is used

        return RestRegister(place, storage)
    if place.is_postgres:
        from sqb.lake.postgres_register import PostgresRegister

        return PostgresRegister(place, storage)
    from sqb.lake.given_register import GivenRegister

    return GivenRegister(place, storage)
