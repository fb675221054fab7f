"""A catalog that pyiceberg opens by itself: Hive, Glue, or a class of the user's own.

Such catalogs list tables and load them one by one, have no views that pyiceberg knows, and no exchange of a table's
metadata. What takes the place of something is dropped and registered anew: readers may find nothing there for a moment,
and the previous table is registered again where that fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqb.errors.base import SqbError
from sqb.errors.lake import CatalogUnreachable, LakeError, LakeMoved
from sqb.lake.catalog.jdbc_tables import WAREHOUSE
from sqb.lake.concurrency import map_concurrently
from sqb.lake.metadata.files import read_state
from sqb.lake.port import STAGE_SCHEMA, Base, Pointer, ViewSwap, build_conflict
from sqb.lake.storage.base import RunTracker, Storage
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_MAX_WORKERS = 16


class PyIcebergLakeCatalog:
    """One catalog, by the settings that pyiceberg itself takes."""

    can_replace_metadata = False

    def __init__(self, place: LakeLocation, storage: Storage) -> None:
        self.place, self.storage = place, storage

    def exists(self) -> bool:
        return True

    @cached_property
    def _pyiceberg_catalog(self) -> Catalog:
        return self.open_pyiceberg()

    def open_pyiceberg(self) -> Catalog:
        from pyiceberg.catalog import load_catalog  # there is no other way to such a catalog

        settings = {**self.storage.get_io_options(), **self.place.options, "warehouse": self.storage.root}
        if self.place.uri:
            settings["uri"] = self.place.uri
        if self.place.type != "catalog-impl":
            settings["type"] = self.place.type
        if self.place.type == "hive":
            # Hive 2 knows no zones of time, and what the metastore says about columns is read by none of Iceberg's.
            settings.setdefault("hive.hive2-compatible", "true")
        try:
            catalog = load_catalog(self.place.name, **settings)
        except Exception as error:
            raise self._build_unreachable_error(error) from error
        if self.place.type == "hive":
            from sqb.lake.private_api import open_client_for_each_call  # loads more of pyiceberg

            open_client_for_each_call(catalog)
        return catalog

    # --- reading ----------------------------------------------------------------------------------------------------

    def list_pointers(self) -> Mapping[Relation, Pointer]:
        self._refuse_if_moved()
        relations = [
            r for listed in map_concurrently(self._list_relations, self._list_schemas(), _MAX_WORKERS) for r in listed
        ]
        pointers = map_concurrently(self._load_pointer, relations, _MAX_WORKERS)
        return {pointer.relation: pointer for pointer in pointers if pointer is not None}

    def _list_schemas(self) -> list[tuple[str, ...]]:
        try:
            return list(self._pyiceberg_catalog.list_namespaces())
        except SqbError:
            raise
        except Exception as error:
            raise self._build_unreachable_error(error) from error

    def _list_relations(self, schema: tuple[str, ...]) -> list[Relation]:
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            identifiers = self._pyiceberg_catalog.list_tables(schema)
        except NoSuchNamespaceError:
            return []
        return [Relation(".".join(below), name) for *below, name in identifiers]

    def _load_pointer(self, relation: Relation) -> Pointer | None:
        from pyiceberg.exceptions import NoSuchPropertyException, NoSuchTableError

        try:
            return Pointer(relation, self._pyiceberg_catalog.load_table(_build_identifier(relation)).metadata_location)
        except (NoSuchTableError, NoSuchPropertyException):
            # It went, or it is a table of another kind.
            return None

    def get_document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        return None

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        return None

    def get_live_locations(self, pointers: Mapping[Relation, Pointer]) -> Collection[str]:
        return {pointer.location for pointer in pointers.values()}

    def find_state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        pointers = map_concurrently(self._load_pointer, [Relation(schema, table) for schema in schemas], _MAX_WORKERS)
        return {pointer.relation.schema: pointer.location for pointer in pointers if pointer is not None}

    # --- writing ----------------------------------------------------------------------------------------------------

    def initialise(self) -> None:
        from pyiceberg.exceptions import NamespaceAlreadyExistsError

        self.storage.prepare()
        with suppress(NamespaceAlreadyExistsError):
            self._pyiceberg_catalog.create_namespace(STAGE_SCHEMA, {WAREHOUSE: self.storage.root})
        self._refuse_if_moved()

    def _refuse_if_moved(self) -> None:
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            warehouse = self._pyiceberg_catalog.load_namespace_properties(STAGE_SCHEMA).get(WAREHOUSE)
        except NoSuchNamespaceError:
            return
        except SqbError:
            raise
        except Exception as error:
            raise self._build_unreachable_error(error) from error
        if warehouse is not None and not self.storage.is_same_root(warehouse):
            raise LakeMoved(
                f"this lake was made in {warehouse}, but the project's warehouse is now {self.storage.root}",
                hint="Iceberg keeps absolute paths: set `warehouse` to what it was, or give this lake another catalog",
            )

    def swap(self, target: Relation, location: str, base: Base | None) -> None:
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        current = self._load_pointer(target)
        if current is None and base is not None:
            raise build_conflict(target, "it was dropped")
        if current is not None and base is None:
            raise build_conflict(target, "it was created")
        if current is not None:
            if read_state(current, self.storage).base != base:
                raise build_conflict(target)
            with suppress(NoSuchTableError):
                self._pyiceberg_catalog.drop_table(_build_identifier(target))
        try:
            self._pyiceberg_catalog.register_table(_build_identifier(target), location)
        except TableAlreadyExistsError as error:
            raise build_conflict(target, "it was created") from error
        except BaseException:
            if current is not None:
                self._pyiceberg_catalog.register_table(_build_identifier(target), current.location)
            raise

    def replace_metadata(self, relation: Relation, before: str, after: str) -> bool:
        return False

    def rename(self, pointer: Pointer, target: Relation) -> bool:
        if self._load_pointer(pointer.relation) != pointer or self._load_pointer(target) is not None:
            return False
        self._pyiceberg_catalog.create_namespace_if_not_exists(target.schema)
        self._pyiceberg_catalog.rename_table(_build_identifier(pointer.relation), _build_identifier(target))
        return True

    def drop_if_current(self, pointer: Pointer) -> bool:
        if self._load_pointer(pointer.relation) != pointer:
            return False
        self.drop(pointer.relation)
        return True

    def drop(self, relation: Relation) -> None:
        from pyiceberg.exceptions import NoSuchTableError

        with suppress(NoSuchTableError):
            self._pyiceberg_catalog.drop_table(_build_identifier(relation))

    def drop_empty_schemas(self, schemas: Iterable[str]) -> None:
        from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError

        for schema in sorted(set(schemas)):
            with suppress(NamespaceNotEmptyError, NoSuchNamespaceError):
                self._pyiceberg_catalog.drop_namespace(schema)

    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        raise self._build_no_views_error()

    def swap_views(self, swaps: Sequence[ViewSwap]) -> Mapping[Relation, str]:
        if swaps:
            raise self._build_no_views_error()
        return {}

    def open_run_tracker(self) -> RunTracker | None:
        return None

    def close(self) -> None:
        return None

    # --- failures ---------------------------------------------------------------------------------------------------

    def explain(self, error: BaseException) -> LakeError | None:
        """What a Hive Metastore has answered: its errors cannot even be raised through everything in Python."""
        library = type(error).__module__.partition(".")[0]
        if library == "thrift" and isinstance(error, Exception):
            return self._build_unreachable_error(error)
        if library != "hive_metastore":
            return None
        why = self.place.hide(str(getattr(error, "message", "") or error).partition("\n")[0])
        return LakeError(
            f"the Hive Metastore of the connection {self.place.connection} refused a change: {why}",
            hint="its log says more",
        )

    def _build_no_views_error(self) -> LakeError:
        return LakeError(
            f"catalogs of the type {self.place.type} have no views that sqb can make",
            hint="make these models tables, or use a catalog in a database or on a REST server",
        )

    def _build_unreachable_error(self, error: Exception) -> LakeError:
        why = self.place.hide(str(error).splitlines()[0] if str(error) else type(error).__name__)
        which = f"the catalog of the connection {self.place.connection}, of the type {self.place.type},"
        hint = "check `uri` and `options` of the connection's catalog, and that pyiceberg has what it needs for it"
        return CatalogUnreachable(f"{which} cannot be used: {why}", hint=hint)


def _build_identifier(relation: Relation) -> tuple[str, ...]:
    return (*relation.schema.split("."), relation.name)
