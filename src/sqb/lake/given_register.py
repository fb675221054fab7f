"""The register behind any catalog that pyiceberg can open by itself: Hive, Glue, or a class of somebody's own.

Such catalogs list tables and load them one by one, have no views that pyiceberg knows, and no exchange of a table's
metadata. What takes the place of something is dropped and registered anew: readers may find nothing there for a moment,
and what stood is put back where that fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqb.errors import CatalogUnreachable, LakeError, LakeMoved, SqbError
from sqb.lake.at_once import at_once
from sqb.lake.catalog_tables import WAREHOUSE
from sqb.lake.documents import read_state
from sqb.lake.port import STAGE_SCHEMA, Base, Pointer, ViewMove, conflict
from sqb.lake.storage import RunKeeper, Storage
from sqb.names import Relation
from sqb.project.place import Place

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_MOST = 16


class GivenRegister:
    """One catalog, by the settings that pyiceberg itself takes."""

    exchanges = False

    def __init__(self, place: Place, storage: Storage) -> None:
        self.place, self.storage = place, storage

    def exists(self) -> bool:
        return True

    @cached_property
    def _catalog(self) -> Catalog:
        return self.catalog()

    def catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog  # there is no other way to such a catalog

        given = {**self.storage.io_options(), **self.place.options, "warehouse": self.storage.root}
        if self.place.uri:
            given["uri"] = self.place.uri
        if self.place.type != "catalog-impl":
            given["type"] = self.place.type
        try:
            return load_catalog(self.place.name, **given)
        except Exception as error:
            raise self._unreachable(error) from error

    # --- reading ----------------------------------------------------------------------------------------------------

    def pointers(self) -> Mapping[Relation, Pointer]:
        self._refuse_if_moved()
        relations = [r for found in at_once(self._listed, self._schemas(), _MOST) for r in found]
        pointers = at_once(self._pointer, relations, _MOST)
        return {pointer.relation: pointer for pointer in pointers if pointer is not None}

    def _schemas(self) -> list[tuple[str, ...]]:
        try:
            return list(self._catalog.list_namespaces())
        except SqbError:
            raise
        except Exception as error:
            raise self._unreachable(error) from error

    def _listed(self, schema: tuple[str, ...]) -> list[Relation]:
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            found = self._catalog.list_tables(schema)
        except NoSuchNamespaceError:
            return []
        return [Relation(".".join(below), name) for *below, name in found]

    def _pointer(self, relation: Relation) -> Pointer | None:
        from pyiceberg.exceptions import NoSuchPropertyException, NoSuchTableError

        try:
            return Pointer(relation, self._catalog.load_table(_identifier(relation)).metadata_location)
        except (NoSuchTableError, NoSuchPropertyException):
            # It went, or it is a table of another kind.
            return None

    def document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        return None

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        return None

    def living(self, pointers: Mapping[Relation, Pointer]) -> Collection[str]:
        return {pointer.location for pointer in pointers.values()}

    def state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        found = at_once(self._pointer, [Relation(schema, table) for schema in schemas], _MOST)
        return {pointer.relation.schema: pointer.location for pointer in found if pointer is not None}

    # --- writing ----------------------------------------------------------------------------------------------------

    def initialise(self) -> None:
        from pyiceberg.exceptions import NamespaceAlreadyExistsError

        self.storage.prepare()
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(STAGE_SCHEMA, {WAREHOUSE: self.storage.root})
        self._refuse_if_moved()

    def _refuse_if_moved(self) -> None:
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            made_for = self._catalog.load_namespace_properties(STAGE_SCHEMA).get(WAREHOUSE)
        except NoSuchNamespaceError:
            return
        except SqbError:
            raise
        except Exception as error:
            raise self._unreachable(error) from error
        if made_for is not None and not self.storage.same_root(made_for):
            raise LakeMoved(
                f"this lake was made in {made_for}, but the project's warehouse is now {self.storage.root}",
                hint="Iceberg keeps absolute paths: set `warehouse` to what it was, or give this lake another catalog",
            )

    def swap(self, target: Relation, location: str, base: Base | None) -> None:
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        found = self._pointer(target)
        if found is None and base is not None:
            raise conflict(target, "it was dropped")
        if found is not None and base is None:
            raise conflict(target, "it was created")
        if found is not None:
            if read_state(found, self.storage).base != base:
                raise conflict(target)
            with suppress(NoSuchTableError):
                self._catalog.drop_table(_identifier(target))
        try:
            self._catalog.register_table(_identifier(target), location)
        except TableAlreadyExistsError as error:
            raise conflict(target, "it was created") from error
        except BaseException:
            if found is not None:
                self._catalog.register_table(_identifier(target), found.location)
            raise

    def exchange(self, relation: Relation, before: str, after: str) -> bool:
        return False

    def forget(self, pointer: Pointer) -> bool:
        if self._pointer(pointer.relation) != pointer:
            return False
        self.drop(pointer.relation)
        return True

    def drop(self, relation: Relation) -> None:
        from pyiceberg.exceptions import NoSuchTableError

        with suppress(NoSuchTableError):
            self._catalog.drop_table(_identifier(relation))

    def forget_schemas(self, schemas: Iterable[str]) -> None:
        from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError

        for schema in sorted(set(schemas)):
            with suppress(NamespaceNotEmptyError, NoSuchNamespaceError):
                self._catalog.drop_namespace(schema)

    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        raise self._no_views()

    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        if moves:
            raise self._no_views()
        return {}

    def runs(self) -> RunKeeper | None:
        return None

    def close(self) -> None:
        return None

    # --- failures ---------------------------------------------------------------------------------------------------

    def explain(self, error: BaseException) -> LakeError | None:
        return None

    def _no_views(self) -> LakeError:
        return LakeError(
            f"catalogs of the type {self.place.type} have no views that sqb can make",
            hint="make these models tables, or use a catalog in a database or on a REST server",
        )

    def _unreachable(self, error: Exception) -> LakeError:
        why = self.place.hide(str(error).splitlines()[0] if str(error) else type(error).__name__)
        which = f"the catalog of the connection {self.place.connection}, of the type {self.place.type},"
        hint = "check `uri` and `options` of the connection's catalog, and that pyiceberg has what it needs for it"
        return CatalogUnreachable(f"{which} cannot be used: {why}", hint=hint)


def _identifier(relation: Relation) -> tuple[str, ...]:
    return (*relation.schema.split("."), relation.name)
