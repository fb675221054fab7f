"""The catalog behind an Iceberg REST server.

The protocol changes one relation at a time and offers no exchange of a table's metadata for another. What takes the
place of something is done in steps that lose nothing: the current relation is renamed in one step, is checked to
be the expected one, and is dropped when the new one is registered. Readers may find nothing there for a moment.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from sqb.errors.lake import CommitUnknown, LakeDamaged, LakeError, LakeMoved
from sqb.lake.catalog.jdbc_tables import WAREHOUSE
from sqb.lake.catalog.rest.client import RequestRefused, RestClient
from sqb.lake.catalog.rest.errors import explain
from sqb.lake.catalog.rest.http import NoAnswer
from sqb.lake.catalog.rest.pointers import LiveLocations, Loaded, RestPointers, fetch
from sqb.lake.catalog.rest.views import (
    build_creation,
    build_replacement,
    build_view,
    matches_swap_on_server,
    matches_view,
)
from sqb.lake.commit.views import is_swap_done
from sqb.lake.metadata.table_state import build_damaged_error, parse_state
from sqb.lake.port import STAGE_SCHEMA, Base, Pointer, ViewSwap, build_conflict
from sqb.lake.storage.base import RunTracker, Storage
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# Properties that servers themselves set on a schema.
_SERVER_PROPERTIES = {"exists", "location", "owner"}
_CACHE_SIZE = 2048
# How long sqb waits for a server that has failed, so that the failure is reported soon.
_HURRY_SECONDS = 4.0
# The error type for a relation whose metadata file is missing; for a missing relation it is NoSuch….
_NO_FILE = "NotFoundException"

Params = ParamSpec("Params")
Result = TypeVar("Result")


def _translate_errors(
    method: Callable[Concatenate[RestLakeCatalog, Params], Result],
) -> Callable[Concatenate[RestLakeCatalog, Params], Result]:
    """Wrap a method so that it raises sqb's errors: pointers are loaded outside of `translate_errors`."""

    @wraps(method)
    def wrapper(self: RestLakeCatalog, /, *args: Params.args, **options: Params.kwargs) -> Result:
        try:
            return method(self, *args, **options)
        except (NoAnswer, RequestRefused) as error:
            raise explain(error, self.place) or error from error

    return wrapper


class RestLakeCatalog:
    """One catalog of a REST server."""

    # A table's metadata cannot be exchanged for other metadata.
    can_replace_metadata = False

    def __init__(self, place: LakeLocation, storage: Storage) -> None:
        self.place, self.storage = place, storage
        self.client = RestClient(place)
        self._documents: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._guard = threading.Lock()
        self._initialised = False

    # --- reading ----------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        return True

    def list_pointers(self) -> Mapping[Relation, Pointer]:
        return RestPointers(self)

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        fetch(pointers)

    def get_document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        # Asking where it is may load it.
        location = pointer.location
        with self._guard:
            return self._documents.get(location)

    def get_live_locations(self, pointers: Mapping[Relation, Pointer]) -> Container[str]:
        return LiveLocations(pointers)

    @_translate_errors
    def find_state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        relations = self.client.map_concurrently(lambda schema: self.load(Relation(schema, table), False), schemas)
        return {
            schema: loaded.location for schema, loaded in zip(schemas, relations, strict=True) if loaded is not None
        }

    @_translate_errors
    def list_relations(self) -> Mapping[Relation, bool]:
        """Every relation of the catalog, and whether it is a view."""
        relations_by_kind: dict[Relation, bool] = {}
        schemas = self._list_schemas(None)
        warehouse = self._read_warehouse() if STAGE_SCHEMA in schemas else None
        self._refuse_if_moved(warehouse)
        while schemas:
            listed = self.client.map_concurrently(
                self._list_schema, [(s, kind) for s in schemas for kind in ("tables", "views")]
            )
            for relations, is_view in listed:
                relations_by_kind.update(dict.fromkeys(relations, is_view))
            schemas = [
                below for several in self.client.map_concurrently(self._list_schemas, schemas) for below in several
            ]
        return relations_by_kind

    def _list_schemas(self, parent: str | None) -> list[str]:
        query = {"parent": self.client.join_schema(parent)} if parent is not None else None
        try:
            return [".".join(parts) for parts in self.client.iter_pages("namespaces", "namespaces", query)]
        except RequestRefused as error:
            # It went, or this server has but one level of schemas.
            if parent is not None and error.status in (400, 404, 406, 501):
                return []
            raise

    def _list_schema(self, schema_and_kind: tuple[str, str]) -> tuple[list[Relation], bool]:
        schema, kind = schema_and_kind
        try:
            pages = self.client.iter_pages(f"{self._get_schema_path(schema)}/{kind}", "identifiers")
            return [Relation(".".join(i["namespace"]), i["name"]) for i in pages], kind == "views"
        except RequestRefused as error:
            # It went, or this server has no views.
            if error.status == 404 or (kind == "views" and error.status in (400, 406, 501)):
                return [], kind == "views"
            raise

    @_translate_errors
    def load(self, relation: Relation, is_view: bool | None = None) -> Loaded | None:
        """A relation as it is now; None where there is none."""
        if is_view is None:
            return self.load(relation, False) or self.load(relation, True)
        try:
            response = self.client.get(self._get_path(relation, is_view))
        except RequestRefused as error:
            if error.status == 404 and error.kind == _NO_FILE:
                raise build_damaged_error(relation, error.message.rpartition(" ")[2]) from error
            if error.status == 404:
                return None
            raise
        return self._cache_document(response, is_view)

    @_translate_errors
    def load_all(self, relations: Mapping[Relation, bool]) -> Mapping[Relation, Loaded | LakeDamaged]:
        """Those of many that are there, loaded side by side; what is wrong with one does not concern the others."""
        results = self.client.map_concurrently(self._try_load, relations.items())
        return {relation: loaded for relation, loaded in results if loaded is not None}

    def _try_load(self, relation_and_kind: tuple[Relation, bool]) -> tuple[Relation, Loaded | LakeDamaged | None]:
        try:
            return relation_and_kind[0], self.load(*relation_and_kind)
        except LakeDamaged as error:
            return relation_and_kind[0], error

    def _cache_document(self, response: Mapping[str, Any], is_view: bool) -> Loaded:
        loaded = Loaded(str(response["metadata-location"]), is_view, response["metadata"])
        with self._guard:
            self._documents[loaded.location] = loaded.document
            while len(self._documents) > _CACHE_SIZE:
                self._documents.popitem(last=False)
        return loaded

    # --- writing ----------------------------------------------------------------------------------------------------

    @_translate_errors
    def initialise(self) -> None:
        if self._initialised:
            return
        self.storage.prepare()
        self._create_schema(STAGE_SCHEMA, {WAREHOUSE: self.storage.root})
        self._refuse_if_moved(self._read_warehouse())
        self._initialised = True

    def _create_schema(self, schema: str, properties: Mapping[str, str]) -> None:
        try:
            self.client.post("namespaces", {"namespace": schema.split("."), "properties": properties})
        except RequestRefused as error:
            if error.status != 409:
                raise

    def _read_warehouse(self) -> str | None:
        schema = self.client.find(self._get_schema_path(STAGE_SCHEMA)) or {}
        return (schema.get("properties") or {}).get(WAREHOUSE)

    def _refuse_if_moved(self, warehouse: str | None) -> None:
        if warehouse is not None and not self.storage.is_same_root(warehouse):
            raise LakeMoved(
                f"the catalog of the connection {self.place.connection} is used with the warehouse {warehouse}, but the"
                f" project's warehouse is now {self.storage.root}",
                hint="Iceberg keeps absolute paths: set `warehouse` of the connection back, or use another catalog",
            )

    @_translate_errors
    def open_pyiceberg(self) -> Catalog:
        from sqb.lake.catalog.rest.pyiceberg import PatientCatalog  # start-up stays free of pyiceberg

        return PatientCatalog(self.place.name, self.client, self.storage.root)

    @_translate_errors
    def swap(self, target: Relation, location: str, base: Base | None) -> None:
        aside = self._set_aside(target, base) if base is not None else None
        try:
            self._register(target, location)
        except BaseException:
            self._put_back(aside, target)
            raise
        self._remove(aside)

    def _register(self, target: Relation, location: str) -> None:
        try:
            body = {"name": target.name, "metadata-location": location}
            self.client.post(f"{self._get_schema_path(target.schema)}/register", body)
        except (RequestRefused, NoAnswer) as error:
            if self._resolve_unknown_request(error, target, False, lambda found: found.location == location):
                return
            if isinstance(error, RequestRefused) and error.status == 409:
                raise build_conflict(target, "it was created") from error
            raise

    def _resolve_unknown_request(
        self, error: RequestRefused | NoAnswer, target: Relation, is_view: bool, is_ours: Callable[[Loaded], bool]
    ) -> Loaded | None:
        """Load what a failed request has created, or None; raises `CommitUnknown` where the outcome is unknown."""
        if not _may_have_succeeded(error):
            return None
        with suppress(LakeError), self.client.limit_wait(_HURRY_SECONDS):
            loaded = self.load(target, is_view)
            if loaded is not None and is_ours(loaded):
                return loaded
            if isinstance(error, RequestRefused) and error.status == 409:
                return None
        raise CommitUnknown(
            f"the catalog of the connection {self.place.connection} did not say whether {target} was changed:"
            f" {self.place.hide(str(error))}",
            hint="run the command again: it starts from what is there now",
        ) from error

    def replace_metadata(self, relation: Relation, before: str, after: str) -> bool:
        return False

    @_translate_errors
    def rename(self, pointer: Pointer, target: Relation) -> bool:
        loaded = self.load(pointer.relation, pointer.is_view)
        if loaded is None or loaded.location != pointer.location or self.load(target) is not None:
            return False
        self._create_schema(target.schema, {})
        self._rename(pointer.relation, target, pointer.is_view)
        return True

    @_translate_errors
    def drop_if_current(self, pointer: Pointer) -> bool:
        loaded = self.load(pointer.relation, pointer.is_view)
        if loaded is None or loaded.location != pointer.location:
            return False
        aside = self._move_aside(pointer.relation, pointer.is_view, lambda moved: moved.location == pointer.location)
        self._remove(aside)
        return aside is not None

    @_translate_errors
    def drop(self, relation: Relation) -> None:
        if not self.client.delete(self._get_path(relation, False)):
            self.client.delete(self._get_path(relation, True))

    @_translate_errors
    def drop_empty_schemas(self, schemas: Iterable[str]) -> None:
        for schema in sorted(set(schemas)):
            properties = self.client.find(self._get_schema_path(schema))
            if properties is None or set(properties.get("properties") or {}) - _SERVER_PROPERTIES:
                continue
            # A server refuses to drop a schema that holds something.
            with suppress(RequestRefused):
                self.client.delete(self._get_schema_path(schema))

    # --- relations set aside ------------------------------------------------------------------------------------------

    def _set_aside(self, target: Relation, base: Base) -> tuple[Relation, bool]:
        """Rename the relation at `base`, so that its name is free; refused when it is another version."""
        loaded = self.load(target)
        if loaded is None:
            raise build_conflict(target, "it was dropped")
        if parse_state(loaded.document).base != base:
            raise build_conflict(target)
        aside = self._move_aside(target, loaded.is_view, lambda moved: parse_state(moved.document).base == base)
        if aside is None:
            raise build_conflict(target)
        return aside

    def _move_aside(
        self, relation: Relation, is_view: bool, is_expected: Callable[[Loaded], bool]
    ) -> tuple[Relation, bool] | None:
        """Rename a relation; None where it was not the expected one, and has its own name again."""
        self.initialise()
        aside = (Relation(STAGE_SCHEMA, f"{relation.schema}__{relation.name}__aside_{uuid.uuid4().hex[:12]}"), is_view)
        try:
            self._rename(relation, *aside)
            moved = self.load(*aside)
            if moved is not None and is_expected(moved):
                return aside
        except BaseException:
            # The server may have renamed it without confirming it.
            self._put_back(aside, relation)
            raise
        self._put_back(aside, relation)
        return None

    def _rename(self, before: Relation, after: Relation, is_view: bool) -> None:
        body = {"source": _build_identifier(before), "destination": _build_identifier(after)}
        self.client.post("views/rename" if is_view else "tables/rename", body)

    def _put_back(self, aside: tuple[Relation, bool] | None, target: Relation) -> None:
        if aside is not None:
            # Where its name was taken meanwhile, it stays where the janitor finds it.
            with suppress(RequestRefused, NoAnswer), self.client.limit_wait(_HURRY_SECONDS):
                self._rename(aside[0], target, aside[1])

    def _remove(self, aside: tuple[Relation, bool] | None) -> None:
        if aside is not None:
            with suppress(RequestRefused, NoAnswer):
                self.client.delete(self._get_path(*aside))

    # --- views ------------------------------------------------------------------------------------------------------

    @_translate_errors
    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        view = self.load(staged.relation, is_view=True)
        if view is None:
            raise LakeError(f"there is no view {staged.relation} to put in the place of {target}")
        current = self.load(target)
        if current is not None and base is None:
            raise build_conflict(target, "it was created")
        if current is None and base is not None:
            raise build_conflict(target, "it was dropped")
        if current is not None and parse_state(current.document).base != base:
            raise build_conflict(target)
        if current is not None and not current.is_view and base is not None:
            aside = self._set_aside(target, base)
            try:
                self._create_view(target, view.document)
            except BaseException:
                self._put_back(aside, target)
                raise
            self._remove(aside)
        elif current is not None:
            self._replace_view(target, current.document, view.document)
        else:
            self._create_view(target, view.document)
        self.drop(staged.relation)

    def _create_view(self, target: Relation, desired: Mapping[str, Any]) -> str:
        try:
            response = self.client.post(
                f"{self._get_schema_path(target.schema)}/views",
                build_creation(target, desired, self._get_folder(target)),
            )
        except (RequestRefused, NoAnswer) as error:
            if view := self._resolve_unknown_request(
                error, target, True, lambda loaded: matches_view(loaded.document, desired)
            ):
                return view.location
            if isinstance(error, RequestRefused) and error.status == 409:
                raise build_conflict(target, "it was created") from error
            raise
        return self._cache_document(response, True).location

    def _replace_view(self, target: Relation, existing: Mapping[str, Any], desired: Mapping[str, Any]) -> str:
        try:
            response = self.client.post(self._get_path(target, True), build_replacement(target, existing, desired))
        except (RequestRefused, NoAnswer) as error:
            if view := self._resolve_unknown_request(
                error, target, True, lambda loaded: matches_view(loaded.document, desired)
            ):
                return view.location
            if isinstance(error, RequestRefused) and error.status in (404, 409):
                raise build_conflict(target) from error
            raise
        return self._cache_document(response, True).location

    @_translate_errors
    def swap_views(self, swaps: Sequence[ViewSwap]) -> Mapping[Relation, str]:
        """Create, replace and remove views, one by one: the protocol has no transactions of views."""
        self.initialise()
        relations = [m.relation for m in swaps]
        current = dict(zip(relations, self.client.map_concurrently(self.load, relations), strict=True))
        done = {m.relation for m in swaps if self._is_done(m, current[m.relation])}
        for schema in sorted({m.relation.schema for m in swaps if m.text is not None and m.relation not in done}):
            self._create_schema(schema, {})
        rest = [m for m in swaps if m.relation not in done]
        locations = self.client.map_concurrently(lambda move: self._apply_swap(move, current[move.relation]), rest)
        unchanged = {r: loaded.location for r in done if (loaded := current[r]) is not None}
        return {**unchanged, **{m.relation: at for m, at in zip(rest, locations, strict=True) if at}}

    def _is_done(self, swap: ViewSwap, loaded: Loaded | None) -> bool:
        pointer = Pointer(swap.relation, loaded.location, loaded.is_view) if loaded is not None else None
        return is_swap_done(
            swap, pointer, lambda _: loaded.document if loaded is not None else None, matches_swap_on_server
        )

    def _apply_swap(self, swap: ViewSwap, loaded: Loaded | None) -> str:
        if swap.text is None:
            self.client.delete(self._get_path(swap.relation, True))
            return ""
        if loaded is None:
            return self._create_view(swap.relation, build_view(swap))
        return self._replace_view(swap.relation, loaded.document, build_view(swap))

    # --- the rest ---------------------------------------------------------------------------------------------------

    def open_run_tracker(self) -> RunTracker | None:
        return None

    def explain(self, error: BaseException) -> LakeError | None:
        return explain(error, self.place)

    def close(self) -> None:
        self.client.close()

    def _get_folder(self, relation: Relation) -> str:
        return f"{self.storage.root}/{relation.schema}/{relation.name}"

    def _get_schema_path(self, schema: str) -> str:
        return f"namespaces/{self.client.encode_schema(schema)}"

    def _get_path(self, relation: Relation, is_view: bool) -> str:
        kind = "views" if is_view else "tables"
        return f"{self._get_schema_path(relation.schema)}/{kind}/{quote(relation.name, safe='')}"


def _may_have_succeeded(error: RequestRefused | NoAnswer) -> bool:
    """Whether a server may have done what it was asked for: its answer got lost, or it was asked twice."""
    if isinstance(error, NoAnswer):
        return error.was_sent
    return error.status == 409 or (error.status >= 500 and error.status != 501)


def _build_identifier(relation: Relation) -> dict[str, Any]:
    return {"namespace": relation.schema.split("."), "name": relation.name}
