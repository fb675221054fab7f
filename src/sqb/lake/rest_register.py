"""The register behind an Iceberg REST catalog, whoever runs it.

The protocol changes one relation at a time and offers no exchange of a table's metadata for another. What takes the
place of something is done in steps that lose nothing: what stands is given another name in one step, is seen to be
what was expected, and goes when the new one stands. Readers may find nothing there for the moment in between.
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

from sqb.errors import CommitUnknown, LakeDamaged, LakeError, LakeMoved
from sqb.lake.http_lines import NoAnswer
from sqb.lake.metadata import damaged, state_of
from sqb.lake.port import STAGE_SCHEMA, Base, Pointer, ViewMove, conflict
from sqb.lake.rest_client import Refused, RestClient
from sqb.lake.rest_failures import explain
from sqb.lake.rest_pointers import LivingLocations, Loaded, RestPointers, fetch
from sqb.lake.rest_views import creation, replacement, shows, stands_as, wanted_view
from sqb.lake.storage import RunKeeper, Storage
from sqb.lake.views import stands_as_wanted
from sqb.names import Relation
from sqb.project.place import Place

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_WAREHOUSE = "sqb.warehouse"
# What servers themselves say of a schema.
_SAID_BY_SERVERS = {"exists", "location", "owner"}
_REMEMBERED = 2048
# How long a server is waited for after it has failed: whoever waits is to hear of the failure.
_HURRY_SECONDS = 4.0
# What servers say of a relation whose metadata file is not there; of a relation that is not there they say NoSuch….
_NO_FILE = "NotFoundException"

Given = ParamSpec("Given")
Result = TypeVar("Result")


def _explained(
    ask: Callable[Concatenate[RestRegister, Given], Result],
) -> Callable[Concatenate[RestRegister, Given], Result]:
    """A method whose failures are told in our words: pointers are loaded where nobody else would explain them."""

    @wraps(ask)
    def asked(self: RestRegister, /, *args: Given.args, **options: Given.kwargs) -> Result:
        try:
            return ask(self, *args, **options)
        except (NoAnswer, Refused) as error:
            raise explain(error, self.place) or error from error

    return asked


class RestRegister:
    """One catalog of a REST server."""

    # A table's metadata cannot be exchanged for other metadata.
    exchanges = False

    def __init__(self, place: Place, storage: Storage) -> None:
        self.place, self.storage = place, storage
        self.client = RestClient(place)
        self._documents: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._guard = threading.Lock()
        self._initialised = False

    # --- reading ----------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        return True

    def pointers(self) -> Mapping[Relation, Pointer]:
        return RestPointers(self)

    def fetch(self, pointers: Iterable[Pointer]) -> None:
        fetch(pointers)

    def document(self, pointer: Pointer) -> Mapping[str, Any] | None:
        # Asking where it is may load it.
        location = pointer.location
        with self._guard:
            return self._documents.get(location)

    def living(self, pointers: Mapping[Relation, Pointer]) -> Container[str]:
        return LivingLocations(pointers)

    @_explained
    def state_locations(self, table: str, schemas: Collection[str]) -> Mapping[str, str]:
        found = self.client.at_once(lambda schema: self.load(Relation(schema, table), False), schemas)
        return {schema: one.location for schema, one in zip(schemas, found, strict=True) if one is not None}

    @_explained
    def names(self) -> Mapping[Relation, bool]:
        """Every relation of the catalog, and whether it is a view."""
        found: dict[Relation, bool] = {}
        schemas = self._schemas(None)
        made_for = self._made_for() if STAGE_SCHEMA in schemas else None
        self._refuse_if_moved(made_for)
        while schemas:
            listed = self.client.at_once(self._listed, [(s, kind) for s in schemas for kind in ("tables", "views")])
            for relations, is_view in listed:
                found.update(dict.fromkeys(relations, is_view))
            schemas = [below for several in self.client.at_once(self._schemas, schemas) for below in several]
        return found

    def _schemas(self, parent: str | None) -> list[str]:
        query = {"parent": self.client.named(parent)} if parent is not None else None
        try:
            return [".".join(parts) for parts in self.client.pages("namespaces", "namespaces", query)]
        except Refused as error:
            # It went, or this server has but one level of schemas.
            if parent is not None and error.status in (400, 404, 406, 501):
                return []
            raise

    def _listed(self, asked: tuple[str, str]) -> tuple[list[Relation], bool]:
        schema, kind = asked
        try:
            pages = self.client.pages(f"{self._at(schema)}/{kind}", "identifiers")
            return [Relation(".".join(i["namespace"]), i["name"]) for i in pages], kind == "views"
        except Refused as error:
            # It went, or this server has no views.
            if error.status == 404 or (kind == "views" and error.status in (400, 406, 501)):
                return [], kind == "views"
            raise

    @_explained
    def load(self, relation: Relation, is_view: bool | None = None) -> Loaded | None:
        """A relation as it is now; None where there is none."""
        if is_view is None:
            return self.load(relation, False) or self.load(relation, True)
        try:
            found = self.client.get(self._path(relation, is_view))
        except Refused as error:
            if error.status == 404 and error.kind == _NO_FILE:
                raise damaged(relation, error.message.rpartition(" ")[2]) from error
            if error.status == 404:
                return None
            raise
        return self._remembered(found, is_view)

    @_explained
    def load_all(self, relations: Mapping[Relation, bool]) -> Mapping[Relation, Loaded | LakeDamaged]:
        """Those of many that are there, loaded side by side; what is wrong with one does not concern the others."""
        found = self.client.at_once(self._tried, relations.items())
        return {relation: loaded for relation, loaded in found if loaded is not None}

    def _tried(self, one: tuple[Relation, bool]) -> tuple[Relation, Loaded | LakeDamaged | None]:
        try:
            return one[0], self.load(*one)
        except LakeDamaged as error:
            return one[0], error

    def _remembered(self, found: Mapping[str, Any], is_view: bool) -> Loaded:
        loaded = Loaded(str(found["metadata-location"]), is_view, found["metadata"])
        with self._guard:
            self._documents[loaded.location] = loaded.document
            while len(self._documents) > _REMEMBERED:
                self._documents.popitem(last=False)
        return loaded

    # --- writing ----------------------------------------------------------------------------------------------------

    @_explained
    def initialise(self) -> None:
        if self._initialised:
            return
        self.storage.prepare()
        self._make_schema(STAGE_SCHEMA, {_WAREHOUSE: self.storage.root})
        self._refuse_if_moved(self._made_for())
        self._initialised = True

    def _make_schema(self, schema: str, properties: Mapping[str, str]) -> None:
        try:
            self.client.post("namespaces", {"namespace": schema.split("."), "properties": properties})
        except Refused as error:
            if error.status != 409:
                raise

    def _made_for(self) -> str | None:
        found = self.client.find(self._at(STAGE_SCHEMA)) or {}
        return (found.get("properties") or {}).get(_WAREHOUSE)

    def _refuse_if_moved(self, made_for: str | None) -> None:
        if made_for is not None and not self.storage.same_root(made_for):
            raise LakeMoved(
                f"the catalog of the connection {self.place.connection} is used with the warehouse {made_for}, but the"
                f" project's warehouse is now {self.storage.root}",
                hint="Iceberg keeps absolute paths: set `warehouse` of the connection back, or use another catalog",
            )

    @_explained
    def catalog(self) -> Catalog:
        from sqb.lake.rest_catalog import PatientCatalog  # start-up stays free of pyiceberg

        return PatientCatalog(self.place.name, self.client, self.storage.root)

    @_explained
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
            self.client.post(f"{self._at(target.schema)}/register", body)
        except (Refused, NoAnswer) as error:
            if self._made_all_the_same(error, target, False, lambda found: found.location == location):
                return
            if isinstance(error, Refused) and error.status == 409:
                raise conflict(target, "it was created") from error
            raise

    def _made_all_the_same(
        self, error: Refused | NoAnswer, target: Relation, is_view: bool, is_ours: Callable[[Loaded], bool]
    ) -> Loaded | None:
        """What a request made that failed; None where it made nothing. Where nobody can tell, that is told."""
        if not _may_be_made(error):
            return None
        with suppress(LakeError), self.client.hurry(_HURRY_SECONDS):
            found = self.load(target, is_view)
            if found is not None and is_ours(found):
                return found
            if isinstance(error, Refused) and error.status == 409:
                return None
        raise CommitUnknown(
            f"the catalog of the connection {self.place.connection} did not say whether {target} was changed:"
            f" {self.place.hide(str(error))}",
            hint="run the command again: it starts from what is there now",
        ) from error

    def exchange(self, relation: Relation, before: str, after: str) -> bool:
        return False

    @_explained
    def forget(self, pointer: Pointer) -> bool:
        found = self.load(pointer.relation, pointer.is_view)
        if found is None or found.location != pointer.location:
            return False
        aside = self._renamed(pointer.relation, pointer.is_view, lambda moved: moved.location == pointer.location)
        self._remove(aside)
        return aside is not None

    @_explained
    def drop(self, relation: Relation) -> None:
        if not self.client.delete(self._path(relation, False)):
            self.client.delete(self._path(relation, True))

    @_explained
    def forget_schemas(self, schemas: Iterable[str]) -> None:
        for schema in sorted(set(schemas)):
            found = self.client.find(self._at(schema))
            if found is None or set(found.get("properties") or {}) - _SAID_BY_SERVERS:
                continue
            # A server refuses to drop a schema that holds something.
            with suppress(Refused):
                self.client.delete(self._at(schema))

    # --- what stands in the way of something --------------------------------------------------------------------------

    def _set_aside(self, target: Relation, base: Base) -> tuple[Relation, bool]:
        """Give what stands at `base` another name, so that its own is free; refused when it is something else."""
        found = self.load(target)
        if found is None:
            raise conflict(target, "it was dropped")
        if state_of(found.document).base != base:
            raise conflict(target)
        aside = self._renamed(target, found.is_view, lambda moved: state_of(moved.document).base == base)
        if aside is None:
            raise conflict(target)
        return aside

    def _renamed(
        self, relation: Relation, is_view: bool, is_expected: Callable[[Loaded], bool]
    ) -> tuple[Relation, bool] | None:
        """Give a relation another name; None where it was not what was expected, and has its own name again."""
        self.initialise()
        aside = (Relation(STAGE_SCHEMA, f"{relation.schema}__{relation.name}__aside_{uuid.uuid4().hex[:12]}"), is_view)
        try:
            self._rename(relation, *aside)
            moved = self.load(*aside)
            if moved is not None and is_expected(moved):
                return aside
        except BaseException:
            # The server may have done it, and not said so.
            self._put_back(aside, relation)
            raise
        self._put_back(aside, relation)
        return None

    def _rename(self, before: Relation, after: Relation, is_view: bool) -> None:
        body = {"source": _identifier(before), "destination": _identifier(after)}
        self.client.post("views/rename" if is_view else "tables/rename", body)

    def _put_back(self, aside: tuple[Relation, bool] | None, target: Relation) -> None:
        if aside is not None:
            # Where its name was taken meanwhile, it stays where the janitor finds it.
            with suppress(Refused, NoAnswer), self.client.hurry(_HURRY_SECONDS):
                self._rename(aside[0], target, aside[1])

    def _remove(self, aside: tuple[Relation, bool] | None) -> None:
        if aside is not None:
            with suppress(Refused, NoAnswer):
                self.client.delete(self._path(*aside))

    # --- views ------------------------------------------------------------------------------------------------------

    @_explained
    def publish_view(self, staged: Pointer, target: Relation, base: Base | None) -> None:
        made = self.load(staged.relation, is_view=True)
        if made is None:
            raise LakeError(f"there is no view {staged.relation} to put in the place of {target}")
        found = self.load(target)
        if found is not None and base is None:
            raise conflict(target, "it was created")
        if found is None and base is not None:
            raise conflict(target, "it was dropped")
        if found is not None and state_of(found.document).base != base:
            raise conflict(target)
        if found is not None and not found.is_view and base is not None:
            aside = self._set_aside(target, base)
            try:
                self._create_view(target, made.document)
            except BaseException:
                self._put_back(aside, target)
                raise
            self._remove(aside)
        elif found is not None:
            self._replace_view(target, found.document, made.document)
        else:
            self._create_view(target, made.document)
        self.drop(staged.relation)

    def _create_view(self, target: Relation, wanted: Mapping[str, Any]) -> str:
        try:
            made = self.client.post(f"{self._at(target.schema)}/views", creation(target, wanted, self._folder(target)))
        except (Refused, NoAnswer) as error:
            if found := self._made_all_the_same(error, target, True, lambda one: stands_as(one.document, wanted)):
                return found.location
            if isinstance(error, Refused) and error.status == 409:
                raise conflict(target, "it was created") from error
            raise
        return self._remembered(made, True).location

    def _replace_view(self, target: Relation, standing: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
        try:
            made = self.client.post(self._path(target, True), replacement(target, standing, wanted))
        except (Refused, NoAnswer) as error:
            if found := self._made_all_the_same(error, target, True, lambda one: stands_as(one.document, wanted)):
                return found.location
            if isinstance(error, Refused) and error.status in (404, 409):
                raise conflict(target) from error
            raise
        return self._remembered(made, True).location

    @_explained
    def move_views(self, moves: Sequence[ViewMove]) -> Mapping[Relation, str]:
        """Make, replace and remove views, one by one: the protocol has no transactions of views."""
        self.initialise()
        relations = [m.relation for m in moves]
        found = dict(zip(relations, self.client.at_once(self.load, relations), strict=True))
        there = {m.relation for m in moves if self._is_made(m, found[m.relation])}
        for schema in sorted({m.relation.schema for m in moves if m.text is not None and m.relation not in there}):
            self._make_schema(schema, {})
        rest = [m for m in moves if m.relation not in there]
        made = self.client.at_once(lambda move: self._move(move, found[move.relation]), rest)
        stood = {r: one.location for r in there if (one := found[r]) is not None}
        return {**stood, **{m.relation: at for m, at in zip(rest, made, strict=True) if at}}

    def _is_made(self, move: ViewMove, found: Loaded | None) -> bool:
        pointer = Pointer(move.relation, found.location, found.is_view) if found is not None else None
        return stands_as_wanted(move, pointer, lambda _: found.document if found is not None else None, shows)

    def _move(self, move: ViewMove, found: Loaded | None) -> str:
        if move.text is None:
            self.client.delete(self._path(move.relation, True))
            return ""
        if found is None:
            return self._create_view(move.relation, wanted_view(move))
        return self._replace_view(move.relation, found.document, wanted_view(move))

    # --- the rest ---------------------------------------------------------------------------------------------------

    def runs(self) -> RunKeeper | None:
        return None

    def explain(self, error: BaseException) -> LakeError | None:
        return explain(error, self.place)

    def close(self) -> None:
        self.client.close()

    def _folder(self, relation: Relation) -> str:
        return f"{self.storage.root}/{relation.schema}/{relation.name}"

    def _at(self, schema: str) -> str:
        return f"namespaces/{self.client.joined(schema)}"

    def _path(self, relation: Relation, is_view: bool) -> str:
        kind = "views" if is_view else "tables"
        return f"{self._at(relation.schema)}/{kind}/{quote(relation.name, safe='')}"


def _may_be_made(error: Refused | NoAnswer) -> bool:
    """Whether a server may have done what it was asked for: its answer got lost, or it was asked twice."""
    if isinstance(error, NoAnswer):
        return error.asked
    return error.status == 409 or (error.status >= 500 and error.status != 501)


def _identifier(relation: Relation) -> dict[str, Any]:
    return {"namespace": relation.schema.split("."), "name": relation.name}
