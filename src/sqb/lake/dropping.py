"""Tables and views taken out of a lake, with the files that only they lead to.

The catalog lets go of them first: a round that is cut off leaves files that nothing leads to, which are found again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from sqb.errors import LakeDamaged
from sqb.lake.iceberg import IcebergLake
from sqb.lake.locations import real, real_folder
from sqb.lake.port import CLONE_ROOTS, Pointer
from sqb.lake.reach import Reach
from sqb.lake.shedding import Counted, shed
from sqb.lake.swept import Swept
from sqb.names import Relation, quote

Remove = Callable[[Iterable[str]], tuple[int, int]]
Documents = Mapping[Relation, Mapping[str, Any]]


class Dropping:
    """Relations that nobody needs, dropped one by one as far as nothing in the lake leads to them."""

    def __init__(
        self, lake: IcebergLake, catalog: Catalog, reach: Reach, remove: Remove, counted: Counted, dry_run: bool
    ) -> None:
        self.lake, self.catalog, self.reach, self.remove = lake, catalog, reach, remove
        self.counted, self.dry_run = counted, dry_run
        # Snapshots that clones have let go of, or in a dry run would have.
        self._shed: dict[Relation, tuple[int, ...]] = {}

    def dropped(self, relations: Iterable[Relation], why: str, gone: Collection[Relation] = ()) -> Iterator[Swept]:
        """Tell of each relation that went, or would go, and of each that has to stay; `gone` are as good as gone."""
        pointers = {r: p for r, p in self.lake.everything().items() if r not in gone}
        going = {r: pointers[r] for r in sorted(relations) if r in pointers}
        try:
            documents = self._without_shared(going, {r: self.lake.document(p) for r, p in pointers.items()})
            held = held_by(going, documents)
            used = self._used_without(going.keys() - held.keys(), documents)
        except (LakeDamaged, FileNotFoundError) as error:
            yield Swept("kept", "versions that nothing refers to", f"nobody can tell what else reads them: {error}")
            return
        yield from _told(held)
        free = [going[r] for r in sorted(going.keys() - held.keys(), key=lambda r: (-len(_roots(documents[r])), r))]
        files = {p.relation: self._files_left(p) for p in free}
        needed: set[str] = set()
        # Clones before what they share files with, which has to stay when one of them does.
        for pointer in free:
            name, document = str(pointer.relation), documents[pointer.relation]
            if name in needed or not (self.dry_run or self.lake.forget(pointer)):
                needed.update(_roots(document))
                used |= files[pointer.relation]
                yield Swept("kept", name, "it changed in this moment; the next round looks again")
            else:
                removed, size = self.remove(sorted(files[pointer.relation] - used))
                if not self.dry_run:
                    self.lake.storage.remove_empty(real_folder(document["location"]))
                yield Swept("version", name, why, removed, size, versions=1)

    def _without_shared(self, going: Collection[Relation], documents: Documents) -> Documents:
        """The documents, where clones of what goes share its files no more if they need not."""
        names = {str(r) for r in going}
        clones = [r for r, d in documents.items() if r not in going and names & set(_roots(d))]
        for relation in clones:
            gone = shed(self.catalog, relation, self.reach, self.counted, self.dry_run)
            if gone is not None:
                self._shed[relation] = gone
        return {r: {**d, "properties": {}} if r in self._shed else d for r, d in documents.items()}

    def _used_without(self, going: Iterable[Relation], documents: Documents) -> set[str]:
        """Every file that a table leads to which stays."""
        gone = set(going)
        used: set[str] = set()
        for relation, document in documents.items() if gone else ():
            if relation not in gone and "view-uuid" not in document:
                used |= self._files(Pointer(relation, ""))
        return used

    def _files_left(self, pointer: Pointer) -> set[str]:
        """The files of a relation that goes; none of one that is damaged, whose files are found as nobody's later."""
        try:
            return self._files(pointer)
        except FileNotFoundError:
            return set()

    def _files(self, pointer: Pointer) -> set[str]:
        if pointer.is_view:
            return {real(pointer.location)}
        relation = pointer.relation
        try:
            table = self.catalog.load_table((*relation.schema.split("."), relation.name))
            return self.reach.of_table(table, without=self._shed.get(relation, ()))
        except NoSuchTableError:
            return set()


Holder = tuple[Literal["clone", "view"], Relation]


def held_by(going: Mapping[Relation, Pointer], documents: Documents) -> dict[Relation, Holder]:
    """Which relations cannot go, and what leads to them: a view that names one, or a clone that shares its files.

    What is itself going holds nothing, unless it has to stay for another's sake.
    """
    held: dict[Relation, Holder] = {}
    while True:
        staying = {r: d for r, d in documents.items() if r not in going or r in held}
        roots, texts = _shared(staying), _texts(staying)
        more: dict[Relation, Holder] = {}
        for relation in going.keys() - held.keys():
            names = (quote(relation.schema, relation.name), str(relation))
            if str(relation) in roots:
                more[relation] = ("clone", roots[str(relation)])
            elif reader := next((r for r, text in texts.items() if any(n in text for n in names)), None):
                more[relation] = ("view", reader)
        if not more:
            return held
        held |= more


def _told(held: Mapping[Relation, Holder]) -> Iterator[Swept]:
    """One line for all that stay for one reason: there may be many, in every round."""
    for kind, why in (("clone", "shares its files"), ("view", "names it")):
        mine = sorted(r for r, (found, _) in held.items() if found == kind)
        if mine:
            many = f" and {len(mine) - 1} more" if len(mine) > 1 else ""
            yield Swept("kept", f"{mine[0]}{many}", f"no environment refers to it, but {held[mine[0]][1]} {why}")


def _shared(documents: Documents) -> dict[str, Relation]:
    """The tables whose files clones share, each with one of them."""
    found: dict[str, Relation] = {}
    for relation, document in documents.items():
        found.update(dict.fromkeys(_roots(document), relation))
    return found


def _roots(document: Mapping[str, Any]) -> list[str]:
    """The tables whose files a table shares."""
    return [name for name, _ in json.loads((document.get("properties") or {}).get(CLONE_ROOTS, "[]"))]


def _texts(documents: Documents) -> dict[Relation, str]:
    """The queries of views, in every dialect; catalogs keep the queries of before too, which nobody can read."""
    found: dict[Relation, str] = {}
    for relation, document in documents.items():
        versions = document.get("versions", ()) if "view-uuid" in document else ()
        current = (v for v in versions if v.get("version-id") == document.get("current-version-id"))
        found[relation] = "\n".join(x.get("sql", "") for v in current for x in v.get("representations", ()))
    return found
