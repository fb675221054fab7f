"""The register in a SQL database: the tables of Iceberg's JDBC catalog, version V1, as Spark reads and writes them.

What a change depends on is looked at first, its files are read and written outside of any transaction, and one short
transaction lets it count while everything is where it was.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqb.errors import CatalogUnreachable, CommitUnknown, Conflict, LakeError, LakeMoved, NotACatalog, SqbError
from sqb.lake.catalog_tables import (
    CATALOG_TABLES,
    TABLES,
    Session,
    add_rows,
    add_schemas,
    all_rows,
    drop_empty_schemas,
    drop_row,
    forget_rows,
    locations_of,
    replace_rows,
    row_of,
    rows_in,
    say_warehouse,
    warehouse_of,
)
from sqb.lake.documents import read_state, view_behind
from sqb.lake.port import Base, Pointer, ViewMove, conflict
from sqb.lake.storage import RunKeeper, Storage
from sqb.lake.views import remove_written, stands_as_wanted, view_document, write_view
from sqb.names import Relation
from sqb.project.place import Place

_ATTEMPTS = 8


class NoCatalogTables(Exception):
    """The database lacks a table of the catalog."""


class SqlRegister(ABC):
    """A register in a database; what differs between databases is below it."""

    exchanges = True

    def __init__(self, place: Place, storage: Storage) -> None:
        self.place, self.storage, self.name = place, storage, place.name

    # --- what databases differ in -----------------------------------------------------------------------------------

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A session for questions; raises `NoCatalogTables`."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Session]:
        """A transaction in which no other sqb changes the catalog; what is done in it counts when it ends well."""

    @abstractmethod
    def tables_there(self, session: Session) -> set[str]:
        """The names of all tables of the database that the catalog's could be among."""

    @abstractmethod
    def prepare(self) -> None:
        """See to it that there is a database."""

    @abstractmethod
    def not_a_catalog(self, why: str) -> NotACatalog:
        """The error of a database without the tables of a catalog."""

    def exists(self) -> bool:
        return True

    def runs(self) -> RunKeeper | None:
        return None

    def explain(self, error: BaseException) -> LakeError | None:
        return None

    def close(self) -> None:
        return None

    # --- reading ----------------------------------------------------------------------------------------------------

    def pointers(self) -> Mapping[Relation, Pointer]:
        try:
            with self.reading() as session:
                pointers, made_for = all_rows(session, self.name)
        except NoCatalogTables as error:
            self._refuse_unless_new(error)
            return {}
        self._refuse_if_moved(made_for)
        return pointers

    def document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        return None

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        return None

    def living(self, pointers: Mapping[Relation, Pointer]) -> Container[str]:
        return frozenset(pointer.location for pointer in pointers.values())

    def state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        try:
            with self.reading() as session:
                found = locations_of(session, self.name, table)
        except NoCatalogTables as error:
            self._refuse_unless_new(error)
            return {}
        return {schema: found[schema] for schema in schemas if schema in found}

    def _refuse_unless_new(self, error: NoCatalogTables) -> None:
        """A database that holds nothing, or what somebody has begun to make, is a catalog that holds nothing so far."""
        with self.reading() as session:
            there = self.tables_there(session)
        # Made by somebody between the two looks, it was empty at the first one.
        if self.is_new(there) or there >= CATALOG_TABLES:
            return
        raise self.not_a_catalog(str(error))

    def is_new(self, tables: set[str]) -> bool:
        """Whether a database with these tables can become a catalog, or is becoming one."""
        return not tables or tables == {"iceberg_tables"}

    def _refuse_if_moved(self, made_for: str | None) -> None:
        if made_for is not None and not self.storage.same_root(made_for):
            raise LakeMoved(
                f"this lake was made in {made_for}, but the project's warehouse is now {self.storage.root}",
                hint="Iceberg keeps absolute paths, so a lake cannot be moved or copied: move the project back, or"
                " delete the lake folder and build again",
            )

    # --- writing ----------------------------------------------------------------------------------------------------

    def initialise(self) -> None:
        self.prepare()
        self.storage.prepare()
        try:
            with self.reading() as session:
                made_for = warehouse_of(session, self.name)
        except NoCatalogTables:
            made_for = None
        if made_for is None:
            made_for = self._make()
        self._refuse_if_moved(made_for)

    def _make(self) -> str | None:
        with self.writing() as session:
            for statement in TABLES:
                session.run(statement)
            say_warehouse(session, self.name, self.storage.root)
            return warehouse_of(session, self.name)

    def swap(self, target: Relation, location: str, base: Base | None) -> None:
        self._put("TABLE", target, location, base)

    def _put(self, kind: str, target: Relation, location: str, base: Base | None, gone: Pointer | None = None) -> None:
        """Put a relation in the place of what stood at `base`, in one step with the going of another."""
        unknown: CommitUnknown | None = None
        for attempt in range(_ATTEMPTS):
            found = self._row(target, unknown)
            if found is not None and found.location == location:
                # The step was taken, and the server did not come to say so.
                return
            try:
                self._refuse_unless_at(target, found, base)
            except Conflict:
                if unknown is None:
                    raise
                # The step may have been taken before somebody else took the next one.
                raise unknown from None
            try:
                with self.writing() as session:
                    if found is None:
                        done = add_rows(session, self.name, kind, {target: location})
                    else:
                        done = replace_rows(session, self.name, kind, {found: location}, keeps=False)
                    if done and gone is not None:
                        drop_row(session, self.name, gone.relation)
                if done:
                    return
            except CommitUnknown as error:
                unknown = error
            time.sleep(0.01 * 2**attempt)
        raise unknown or conflict(target)

    def _row(self, relation: Relation, unknown: CommitUnknown | None) -> Pointer | None:
        """What stands under a name; where nobody can tell what became of a step, that is what is told."""
        try:
            with self.reading() as session:
                return row_of(session, self.name, relation)
        except CatalogUnreachable:
            if unknown is not None:
                raise unknown from None
            raise

    def _refuse_unless_at(self, target: Relation, found: Pointer | None, base: Base | None) -> None:
        if found is None and base is not None:
            raise conflict(target, "it was dropped")
        if found is not None and base is None:
            raise conflict(target, "it was created")
        if found is not None and read_state(found, self.storage).base != base:
            raise conflict(target)

    def exchange(self, relation: Relation, before: str, after: str) -> bool:
        try:
            with self.writing() as session:
                return replace_rows(session, self.name, "TABLE", {Pointer(relation, before): after})
        except CommitUnknown as unknown:
            found = self._row(relation, unknown)
            if found is None or found.location != after:
                raise
            return True

    def forget(self, pointer: Pointer) -> bool:
        with self.writing() as session:
            return forget_rows(session, self.name, [pointer])

    def drop(self, relation: Relation) -> None:
        with self.writing() as session:
            drop_row(session, self.name, relation)

    def forget_schemas(self, schemas: Iterable[str]) -> None:
        with self.writing() as session:
            drop_empty_schemas(session, self.name, schemas)

    # --- views ------------------------------------------------------------------------------------------------------

    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        document = view_behind(staged, self.storage)
        if document is None:
            raise LakeError(f"there is no view {staged.relation} to put in the place of {target}")
        folder = f"{self.storage.root}/{target.schema}/{target.name}"
        path = write_view(self.storage, folder, {**document, "location": folder})
        try:
            self._put("VIEW", target, path, base, gone=staged)
        except BaseException:
            self._take_back({target: path})
            raise

    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        self.initialise()
        written: dict[Relation, str] = {}
        try:
            for move in moves:
                if move.text is not None:
                    written[move.relation] = self._write_view(move)
            standing = self._point(moves, written)
        except BaseException:
            self._take_back(written)
            raise
        remove_written(self.storage, [at for relation, at in written.items() if standing[relation] != at])
        return standing

    def _write_view(self, move: ViewMove) -> str:
        former = self._view(Pointer(move.relation, move.before, True)) if move.before else None
        folder = f"{self.storage.root}/{move.relation.schema}/{move.relation.name}"
        return write_view(self.storage, folder, view_document(move, folder, former))

    def _point(self, moves: Sequence[ViewMove], written: Mapping[Relation, str]) -> dict[Relation, str]:
        for attempt in range(_ATTEMPTS):
            with self.reading() as session:
                standing = rows_in(session, self.name, (m.relation.schema for m in moves))
            there = {m.relation for m in moves if stands_as_wanted(m, standing.get(m.relation), self._view)}
            rest = [m for m in moves if m.relation not in there]
            if not rest or self._move(rest, standing, written):
                stood = {r: standing[r].location for r in there if r in standing}
                return {**stood, **{m.relation: written[m.relation] for m in rest if m.text is not None}}
            time.sleep(0.01 * 2**attempt)
        raise Conflict(
            "the views did not stand still long enough to be moved; no view was changed",
            hint="run the command again: it starts from what is there now",
        )

    def _move(
        self, moves: Sequence[ViewMove], standing: Mapping[Relation, Pointer], written: Mapping[Relation, str]
    ) -> bool:
        """Make all moves while every view is where it stands; False when one is not, or when that is not known."""
        made = {m.relation: written[m.relation] for m in moves if m.text is not None}
        new = {r: location for r, location in made.items() if r not in standing}
        replaced = {standing[r]: location for r, location in made.items() if r in standing}
        gone = [standing[m.relation] for m in moves if m.text is None]
        try:
            with self.writing() as session:
                add_schemas(session, self.name, (r.schema for r in made))
                done = (
                    add_rows(session, self.name, "VIEW", new)
                    and replace_rows(session, self.name, "VIEW", replaced)
                    and forget_rows(session, self.name, gone)
                )
                if not done:
                    raise _NotThereAnyMore
        except (_NotThereAnyMore, CommitUnknown):
            # Where the server did not say what became of it, the next look does.
            return False
        return True

    def _view(self, pointer: Pointer) -> Mapping[str, Any] | None:
        return view_behind(pointer, self.storage)

    def _take_back(self, written: Mapping[Relation, str]) -> None:
        """Remove what was written, unless the catalog names it: it may have been told just before this was stopped."""
        try:
            with self.reading() as session:
                named = {p.location for p in rows_in(session, self.name, (r.schema for r in written)).values()}
        except (SqbError, NoCatalogTables):
            return
        remove_written(self.storage, [at for at in written.values() if at not in named])


class _NotThereAnyMore(Exception):
    """Ends a transaction whose changes must not count."""
