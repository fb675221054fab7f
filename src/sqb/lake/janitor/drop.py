"""Tables and views taken out of a lake, with the files that only they lead to.

The catalog lets go of them first: a round that is cut off leaves files that nothing leads to, which are found again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from sqb.errors.lake import LakeDamaged
from sqb.lake.clones.expire_shared import NeededSnapshots, expire_shared_snapshots
from sqb.lake.iceberg import IcebergLake
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.janitor.report import JanitorAction
from sqb.lake.port import CLONE_ROOTS, Pointer
from sqb.lake.storage.locations import normalize_folder, normalize_location
from sqb.names import Relation, quote

Remove = Callable[[Iterable[str]], tuple[int, int]]
Documents = Mapping[Relation, Mapping[str, Any]]


class RelationDropper:
    """Drops relations that are no longer needed, one by one, unless something in the lake refers to them."""

    def __init__(
        self,
        lake: IcebergLake,
        catalog: Catalog,
        reachable: ReachableFiles,
        remove: Remove,
        find_needed: NeededSnapshots,
        dry_run: bool,
    ) -> None:
        self.lake, self.catalog, self.reachable, self.remove = lake, catalog, reachable, remove
        self.find_needed, self.dry_run = find_needed, dry_run
        # Snapshots that clones have let go of, or in a dry run would have.
        self._expired: dict[Relation, tuple[int, ...]] = {}

    def drop(
        self, relations: Iterable[Relation], why: str, dropped: Collection[Relation] = ()
    ) -> Iterator[JanitorAction]:
        """Report each relation that is dropped, or would be, and each that stays; `dropped` are dropped already."""
        pointers = {r: p for r, p in self.lake.load_pointers().items() if r not in dropped}
        candidates = {r: pointers[r] for r in sorted(relations) if r in pointers}
        try:
            documents = self._expire_shared(candidates, {r: self.lake.load_document(p) for r, p in pointers.items()})
            holders = find_holders(candidates, documents)
            used = self._list_used_files(candidates.keys() - holders.keys(), documents)
        except (LakeDamaged, FileNotFoundError) as error:
            yield JanitorAction(
                "kept", "versions that nothing refers to", f"sqb cannot tell what else reads them: {error}"
            )
            return
        yield from _report_held(holders)
        removable = [
            candidates[r]
            for r in sorted(candidates.keys() - holders.keys(), key=lambda r: (-len(_list_roots(documents[r])), r))
        ]
        files = {p.relation: self._list_removable_files(p) for p in removable}
        needed: set[str] = set()
        # Clones before what they share files with, which has to stay when one of them does.
        for pointer in removable:
            name, document = str(pointer.relation), documents[pointer.relation]
            if name in needed or not (self.dry_run or self.lake.drop_if_current(pointer)):
                needed.update(_list_roots(document))
                used |= files[pointer.relation]
                yield JanitorAction("kept", name, "it changed meanwhile; the next round looks again")
            else:
                removed, size = self.remove(sorted(files[pointer.relation] - used))
                if not self.dry_run:
                    self.lake.storage.remove_empty_folders(normalize_folder(document["location"]))
                yield JanitorAction("version", name, why, removed, size, versions=1)

    def _expire_shared(self, candidates: Collection[Relation], documents: Documents) -> Documents:
        """The documents, where clones of what goes no longer share its files if they need not."""
        names = {str(r) for r in candidates}
        clones = [r for r, d in documents.items() if r not in candidates and names & set(_list_roots(d))]
        for relation in clones:
            expired = expire_shared_snapshots(self.catalog, relation, self.reachable, self.find_needed, self.dry_run)
            if expired is not None:
                self._expired[relation] = expired
        return {r: {**d, "properties": {}} if r in self._expired else d for r, d in documents.items()}

    def _list_used_files(self, candidates: Iterable[Relation], documents: Documents) -> set[str]:
        """Every file that a table leads to which stays."""
        dropped = set(candidates)
        used: set[str] = set()
        for relation, document in documents.items() if dropped else ():
            if relation not in dropped and "view-uuid" not in document:
                used |= self._list_files(Pointer(relation, ""))
        return used

    def _list_removable_files(self, pointer: Pointer) -> set[str]:
        """The files of a relation that goes; none of one that is damaged, whose files are found as orphans later."""
        try:
            return self._list_files(pointer)
        except FileNotFoundError:
            return set()

    def _list_files(self, pointer: Pointer) -> set[str]:
        if pointer.is_view:
            return {normalize_location(pointer.location)}
        relation = pointer.relation
        try:
            table = self.catalog.load_table((*relation.schema.split("."), relation.name))
            return self.reachable.list_table_files(table, without=self._expired.get(relation, ()))
        except NoSuchTableError:
            return set()


Holder = tuple[Literal["clone", "view"], Relation]


def find_holders(candidates: Mapping[Relation, Pointer], documents: Documents) -> dict[Relation, Holder]:
    """Which relations cannot go, and what leads to them: a view that names one, or a clone that shares its files.

    What is itself going holds nothing, unless it has to stay for another's sake.
    """
    holders: dict[Relation, Holder] = {}
    while True:
        staying = {r: d for r, d in documents.items() if r not in candidates or r in holders}
        roots, texts = _map_shared_tables(staying), _list_view_texts(staying)
        more: dict[Relation, Holder] = {}
        for relation in candidates.keys() - holders.keys():
            names = (quote(relation.schema, relation.name), str(relation))
            if str(relation) in roots:
                more[relation] = ("clone", roots[str(relation)])
            elif reader := next((r for r, text in texts.items() if any(n in text for n in names)), None):
                more[relation] = ("view", reader)
        if not more:
            return holders
        holders |= more


def _report_held(holders: Mapping[Relation, Holder]) -> Iterator[JanitorAction]:
    """One line for all that stay for one reason: there may be many, in every round."""
    for kind, why in (("clone", "shares its files"), ("view", "names it")):
        relations = sorted(r for r, (holder_kind, _) in holders.items() if holder_kind == kind)
        if relations:
            many = f" and {len(relations) - 1} more" if len(relations) > 1 else ""
            yield JanitorAction(
                "kept", f"{relations[0]}{many}", f"no environment refers to it, but {holders[relations[0]][1]} {why}"
            )


def _map_shared_tables(documents: Documents) -> dict[str, Relation]:
    """The tables whose files clones share, each with one of them."""
    clones: dict[str, Relation] = {}
    for relation, document in documents.items():
        clones.update(dict.fromkeys(_list_roots(document), relation))
    return clones


def _list_roots(document: Mapping[str, Any]) -> list[str]:
    """The tables whose files a table shares."""
    return [name for name, _ in json.loads((document.get("properties") or {}).get(CLONE_ROOTS, "[]"))]


def _list_view_texts(documents: Documents) -> dict[Relation, str]:
    """The queries of views, in every dialect; only of the current version, which is the one that readers see."""
    texts: dict[Relation, str] = {}
    for relation, document in documents.items():
        versions = document.get("versions", ()) if "view-uuid" in document else ()
        current = (v for v in versions if v.get("version-id") == document.get("current-version-id"))
        texts[relation] = "\n".join(x.get("sql", "") for v in current for x in v.get("representations", ()))
    return texts
