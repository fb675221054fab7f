"""A catalog in a SQL database: the tables of Iceberg's JDBC catalog, version V1, as Spark reads and writes them.

What a change depends on is looked at first, its files are read and written outside of any transaction, and one short
transaction lets it count while everything is where it was.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqb.errors.base import SqbError
from sqb.errors.lake import CatalogUnreachable, CommitUnknown, Conflict, LakeError, LakeMoved, NotACatalog
from sqb.lake.catalog.jdbc_tables import (
    CATALOG_TABLES,
    TABLES,
    Session,
    add_rows,
    add_schemas,
    delete_row,
    delete_rows,
    drop_empty_schemas,
    read_locations,
    read_pointer,
    read_pointers,
    read_schema_pointers,
    read_warehouse,
    record_warehouse,
    replace_rows,
)
from sqb.lake.commit.views import build_view_document, is_swap_done, remove_unreferenced_files, write_view
from sqb.lake.metadata.files import read_state, read_view
from sqb.lake.port import Base, Pointer, ViewSwap, build_conflict
from sqb.lake.storage.base import RunTracker, Storage
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation

_ATTEMPTS = 8


class NoCatalogTables(Exception):
    """The database lacks a table of the catalog."""


class _RelationChanged(Exception):
    """A relation is not what it was when it was read: what was done in the transaction does not count."""


class SqlLakeCatalog(ABC):
    """A catalog in a database; subclasses implement what differs between databases."""

    can_replace_metadata = True

    def __init__(self, place: LakeLocation, storage: Storage) -> None:
        self.place, self.storage, self.name = place, storage, place.name

    # --- what databases differ in -----------------------------------------------------------------------------------

    @abstractmethod
    def open_read_session(self) -> AbstractContextManager[Session]:
        """Open a session for queries; raises `NoCatalogTables`."""

    @abstractmethod
    def open_write_session(self) -> AbstractContextManager[Session]:
        """A transaction in which no other sqb changes the catalog; what is done in it counts when it ends well."""

    @abstractmethod
    def list_tables(self, session: Session) -> set[str]:
        """The names of all tables of the database that the catalog's could be among."""

    @abstractmethod
    def prepare(self) -> None:
        """Create the database if it does not exist."""

    @abstractmethod
    def build_not_a_catalog_error(self, why: str) -> NotACatalog:
        """The error of a database without the tables of a catalog."""

    def exists(self) -> bool:
        return True

    def open_run_tracker(self) -> RunTracker | None:
        return None

    def explain(self, error: BaseException) -> LakeError | None:
        return None

    def close(self) -> None:
        return None

    # --- reading ----------------------------------------------------------------------------------------------------

    def list_pointers(self) -> Mapping[Relation, Pointer]:
        try:
            with self.open_read_session() as session:
                pointers, warehouse = read_pointers(session, self.name)
        except NoCatalogTables as error:
            self._refuse_unless_new(error)
            return {}
        self._refuse_if_moved(warehouse)
        return pointers

    def get_document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        return None

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        return None

    def get_live_locations(self, pointers: Mapping[Relation, Pointer]) -> Container[str]:
        return frozenset(pointer.location for pointer in pointers.values())

    def find_state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        try:
            with self.open_read_session() as session:
                locations = read_locations(session, self.name, table)
        except NoCatalogTables as error:
            self._refuse_unless_new(error)
            return {}
        return {schema: locations[schema] for schema in schemas if schema in locations}

    def _refuse_unless_new(self, error: NoCatalogTables) -> None:
        """Treat an empty database, or one that another process is initialising, as an empty catalog."""
        with self.open_read_session() as session:
            tables = self.list_tables(session)
        # Another process created it between the two queries: it was empty at the first one.
        if self.is_new(tables) or tables >= CATALOG_TABLES:
            return
        raise self.build_not_a_catalog_error(str(error))

    def is_new(self, tables: set[str]) -> bool:
        """Whether a database with these tables can become a catalog, or is becoming one."""
        return not tables or tables == {"iceberg_tables"}

    def _refuse_if_moved(self, warehouse: str | None) -> None:
        if warehouse is not None and not self.storage.is_same_root(warehouse):
            raise LakeMoved(
                f"this lake was made in {warehouse}, but the project's warehouse is now {self.storage.root}",
                hint="Iceberg keeps absolute paths, so a lake cannot be moved or copied: move the project back, or"
                " delete the lake folder and build again",
            )

    # --- writing ----------------------------------------------------------------------------------------------------

    def initialise(self) -> None:
        self.prepare()
        self.storage.prepare()
        try:
            with self.open_read_session() as session:
                warehouse = read_warehouse(session, self.name)
        except NoCatalogTables:
            warehouse = None
        if warehouse is None:
            warehouse = self._create_tables()
        self._refuse_if_moved(warehouse)

    def _create_tables(self) -> str | None:
        with self.open_write_session() as session:
            for statement in TABLES:
                session.execute(statement)
            record_warehouse(session, self.name, self.storage.root)
            return read_warehouse(session, self.name)

    def swap(self, target: Relation, location: str, base: Base | None) -> None:
        self._swap_pointer("TABLE", target, location, base)

    def _swap_pointer(
        self, kind: str, target: Relation, location: str, base: Base | None, staged: Pointer | None = None
    ) -> None:
        """Replace the relation at `base`, and drop the staged one in the same transaction."""
        unknown: CommitUnknown | None = None
        for attempt in range(_ATTEMPTS):
            current = self._read_row(target, unknown)
            if current is not None and current.location == location:
                # The change was committed, and the connection was lost before the server confirmed it.
                return
            try:
                self._refuse_unless_at(target, current, base)
            except Conflict:
                if unknown is None:
                    raise
                # The change may have been committed before another process made the next one.
                raise unknown from None
            try:
                with self.open_write_session() as session:
                    if current is None:
                        done = add_rows(session, self.name, kind, {target: location})
                    else:
                        done = replace_rows(session, self.name, kind, {current: location}, keep_previous=False)
                    if done and staged is not None:
                        delete_row(session, self.name, staged.relation)
                if done:
                    return
            except CommitUnknown as error:
                unknown = error
            time.sleep(0.01 * 2**attempt)
        raise unknown or build_conflict(target)

    def _read_row(self, relation: Relation, unknown: CommitUnknown | None) -> Pointer | None:
        """Read the current pointer of a relation; raises `unknown`, if any, when the catalog is unreachable."""
        try:
            with self.open_read_session() as session:
                return read_pointer(session, self.name, relation)
        except CatalogUnreachable:
            if unknown is not None:
                raise unknown from None
            raise

    def _refuse_unless_at(self, target: Relation, current: Pointer | None, base: Base | None) -> None:
        if current is None and base is not None:
            raise build_conflict(target, "it was dropped")
        if current is not None and base is None:
            raise build_conflict(target, "it was created")
        if current is not None and read_state(current, self.storage).base != base:
            raise build_conflict(target)

    def replace_metadata(self, relation: Relation, before: str, after: str) -> bool:
        try:
            with self.open_write_session() as session:
                return replace_rows(session, self.name, "TABLE", {Pointer(relation, before): after})
        except CommitUnknown as unknown:
            current = self._read_row(relation, unknown)
            if current is None or current.location != after:
                raise
            return True

    def rename(self, pointer: Pointer, target: Relation) -> bool:
        kind = "VIEW" if pointer.is_view else "TABLE"
        try:
            with self.open_write_session() as session:
                add_schemas(session, self.name, [target.schema])
                added = add_rows(session, self.name, kind, {target: pointer.location})
                if not added or not delete_rows(session, self.name, [pointer]):
                    raise _RelationChanged
        except _RelationChanged:
            return False
        except CommitUnknown as unknown:
            current = self._read_row(target, unknown)
            if current is None or current.location != pointer.location:
                raise
        return True

    def drop_if_current(self, pointer: Pointer) -> bool:
        with self.open_write_session() as session:
            return delete_rows(session, self.name, [pointer])

    def drop(self, relation: Relation) -> None:
        with self.open_write_session() as session:
            delete_row(session, self.name, relation)

    def drop_empty_schemas(self, schemas: Iterable[str]) -> None:
        with self.open_write_session() as session:
            drop_empty_schemas(session, self.name, schemas)

    # --- views ------------------------------------------------------------------------------------------------------

    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        document = read_view(staged, self.storage)
        if document is None:
            raise LakeError(f"there is no view {staged.relation} to put in the place of {target}")
        folder = f"{self.storage.root}/{target.schema}/{target.name}"
        path = write_view(self.storage, folder, {**document, "location": folder})
        try:
            self._swap_pointer("VIEW", target, path, base, staged=staged)
        except BaseException:
            self._remove_unreferenced({target: path})
            raise

    def swap_views(self, swaps: Sequence[ViewSwap]) -> Mapping[Relation, str]:
        self.initialise()
        written: dict[Relation, str] = {}
        try:
            for swap in swaps:
                if swap.text is not None:
                    written[swap.relation] = self._write_view(swap)
            locations = self._point_views(swaps, written)
        except BaseException:
            self._remove_unreferenced(written)
            raise
        remove_unreferenced_files(self.storage, [at for relation, at in written.items() if locations[relation] != at])
        return locations

    def _write_view(self, swap: ViewSwap) -> str:
        former = self._read_view(Pointer(swap.relation, swap.before, True)) if swap.before else None
        folder = f"{self.storage.root}/{swap.relation.schema}/{swap.relation.name}"
        return write_view(self.storage, folder, build_view_document(swap, folder, former))

    def _point_views(self, swaps: Sequence[ViewSwap], written: Mapping[Relation, str]) -> dict[Relation, str]:
        for attempt in range(_ATTEMPTS):
            with self.open_read_session() as session:
                current = read_schema_pointers(session, self.name, (m.relation.schema for m in swaps))
            done = {m.relation for m in swaps if is_swap_done(m, current.get(m.relation), self._read_view)}
            rest = [m for m in swaps if m.relation not in done]
            if not rest or self._commit_swaps(rest, current, written):
                unchanged = {r: current[r].location for r in done if r in current}
                return {**unchanged, **{m.relation: written[m.relation] for m in rest if m.text is not None}}
            time.sleep(0.01 * 2**attempt)
        raise Conflict(
            "other commands kept changing these views; no view was changed",
            hint="run the command again: it starts from what is there now",
        )

    def _commit_swaps(
        self, swaps: Sequence[ViewSwap], current: Mapping[Relation, Pointer], written: Mapping[Relation, str]
    ) -> bool:
        """Commit all swaps if no view has changed; False when one has, or when the outcome is unknown."""
        locations = {m.relation: written[m.relation] for m in swaps if m.text is not None}
        new = {r: location for r, location in locations.items() if r not in current}
        replaced = {current[r]: location for r, location in locations.items() if r in current}
        removed = [current[m.relation] for m in swaps if m.text is None]
        try:
            with self.open_write_session() as session:
                add_schemas(session, self.name, (r.schema for r in locations))
                done = (
                    add_rows(session, self.name, "VIEW", new)
                    and replace_rows(session, self.name, "VIEW", replaced)
                    and delete_rows(session, self.name, removed)
                )
                if not done:
                    raise _ViewsChanged
        except (_ViewsChanged, CommitUnknown):
            # Where the outcome is unknown, the next read of the catalog shows it.
            return False
        return True

    def _read_view(self, pointer: Pointer) -> Mapping[str, Any] | None:
        return read_view(pointer, self.storage)

    def _remove_unreferenced(self, written: Mapping[Relation, str]) -> None:
        """Remove written files that the catalog does not refer to: it may have committed before the interruption."""
        try:
            with self.open_read_session() as session:
                referenced = {
                    p.location for p in read_schema_pointers(session, self.name, (r.schema for r in written)).values()
                }
        except (SqbError, NoCatalogTables):
            return
        remove_unreferenced_files(self.storage, [at for at in written.values() if at not in referenced])


class _ViewsChanged(Exception):
    """Rolls back a transaction because a view has changed."""
