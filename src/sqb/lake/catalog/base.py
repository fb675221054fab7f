"""The catalog of a lake: which relations there are, and where the metadata of each is.

It knows no files. Planning uses `list_pointers` and `find_state_locations`, which must load neither pyiceberg
nor SQLAlchemy. Every change is conditional on what the caller has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sqb.errors.lake import LakeError
from sqb.lake.port import Base, Pointer, ViewSwap
from sqb.lake.storage.base import RunTracker
from sqb.names import Relation

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


class LakeCatalog(Protocol):
    """One Iceberg catalog; every kind of catalog implements this protocol."""

    # Whether a table can be pointed to another metadata file.
    can_replace_metadata: bool

    def exists(self) -> bool:
        """Whether there is a catalog at all; where that takes a request of its own, `list_pointers` answers it too."""

    def initialise(self) -> None:
        """Create the catalog if it does not exist yet; refused where it belongs to another warehouse."""

    def list_pointers(self) -> Mapping[Relation, Pointer]:
        """Every relation of the catalog; refused where it belongs to another warehouse."""

    def get_document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        """The metadata behind a pointer where it came along with it; None where it is read from the storage."""

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        """Load the metadata behind pointers at once, where each takes a request of its own."""

    def get_live_locations(self, pointers: Mapping[Relation, Pointer]) -> Container[str]:
        """The locations of metadata that pointers lead to, or may lead to where not all of them are known."""

    def find_state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        """Where the metadata of a state table is now, by those of the schemas that have it."""

    def open_pyiceberg(self) -> Catalog:
        """The catalog as pyiceberg sees it, for commits; made anew with each call."""

    def swap(self, target: Relation, location: str, base: Base | None) -> None:
        """Register a table in the place of the table or view at `base`, or under a free name, in one step."""

    def replace_metadata(self, relation: Relation, before: str, after: str) -> bool:
        """Point a table to another metadata file; False when `before` is no longer its current one."""

    def rename(self, pointer: Pointer, target: Relation) -> bool:
        """Give a relation another name, in one step; False when it has changed since, or when the name is taken."""

    def drop_if_current(self, pointer: Pointer) -> bool:
        """Drop a relation from the catalog; False when its metadata file has changed since."""

    def drop(self, relation: Relation) -> None:
        """Drop a relation from the catalog, whatever its metadata file is."""

    def drop_empty_schemas(self, schemas: Iterable[str]) -> None:
        """Drop those of the schemas that hold no relation and have no properties of their own."""

    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        """Replace the relation at `base` by a view that was created under another name, in one step.

        The view under the other name goes; its files are the caller's to remove.
        """

    def swap_views(self, swaps: Sequence[ViewSwap]) -> Mapping[Relation, str]:
        """Create, replace and remove views, and return the current metadata file of each.

        All changes are applied or none, where the catalog has transactions; refused when a view has changed since.
        """

    def open_run_tracker(self) -> RunTracker | None:
        """Open the tracker of runs in this catalog; None where the catalog has no sessions to track them by."""

    def explain(self, error: BaseException) -> LakeError | None:
        """What a failure of the catalog or of its driver means; None where it is not one of these."""

    def close(self) -> None:
        """Close connections."""
