"""Files in the warehouse that nothing leads to, found by looking at all of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from sqb.errors.lake import LakeDamaged
from sqb.lake.iceberg import IcebergLake
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.janitor.retention import FileFact, find_oldest_reader_start, judge_file, parse_path_run, parse_stage_run
from sqb.lake.metadata.table_state import parse_metadata
from sqb.lake.port import CLONE_OF, STAGE_SCHEMA, Pointer, Run
from sqb.lake.state.rows import VERSION_PROPERTY
from sqb.lake.storage.local import find_main_file
from sqb.lake.storage.locations import normalize_folder, normalize_location
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import LOADER, MODEL
from sqb.project.config.settings import Retention

_WHY = {
    "run": "rows of a killed build that were never published",
    "loose": "older than file_retention, and nothing leads to them",
    "abandoned": "the table has been gone for longer than snapshot_retention",
}


@dataclass(slots=True)
class _RelationFolder:
    """A folder of the warehouse that belongs to one relation, or to none any more."""

    relation: Relation | None
    is_own: bool
    is_view: bool = False
    files: list[FileFact] = field(default_factory=list)


class OrphanFiles:
    """One look at a warehouse: its files first, then the catalog, then what the tables lead to."""

    def __init__(
        self,
        lake: IcebergLake,
        catalog: Catalog,
        reachable: ReachableFiles,
        keep: Retention,
        now: float,
        removed_paths: Collection[str],
    ) -> None:
        self.lake, self.catalog, self.reachable, self.keep, self.now = lake, catalog, reachable, keep, now
        self.removed_paths = removed_paths
        self._root = normalize_folder(lake.warehouse)
        self._stage_root = f"{self._root}/{STAGE_SCHEMA}"
        self._safe_before = 0.0

    def find_groups(self) -> Iterator[tuple[str, str, list[str]]]:
        """Groups of files that may go: whose they were, why they may go, and which. Without files: why none may."""
        began = time.time()
        before = self.lake.list_runs()
        files = [f for f in self._list_files() if f.path not in self.removed_paths]
        pointers = self.lake.load_pointers()
        try:
            documents = {r: self.lake.load_document(p) for r, p in pointers.items()}
            used = self._list_used_files(pointers, documents)
        except (LakeDamaged, FileNotFoundError) as error:
            yield self.lake.warehouse, f"files that nothing leads to were not looked for: {error}", []
            return
        runs = self.lake.list_runs()
        # A commit that is under way has written files that nothing leads to yet, whatever the settings say.
        self._safe_before = min(
            began, find_oldest_reader_start([*before.values(), *runs.values()], self.now, self.keep)
        )
        yield from self._find_stage_orphans(
            [f for f in files if f.path.startswith(f"{self._stage_root}/")], pointers, runs
        )
        staged = [normalize_folder(d["properties"]["write.data.path"]) for d in documents.values() if _is_stage(d)]
        rest = [f for f in files if not f.path.startswith(f"{self._stage_root}/") and f.path not in used]
        for folder, place in sorted(self._group_by_folder(rest, documents).items()):
            name = str(place.relation) if place.relation else folder.removeprefix(f"{self._root}/")
            by_why = self._judge_folder(folder, place, staged, runs)
            if by_why and place.relation is not None and not self._is_complete(place.relation):
                # Either the table is damaged, or its files are not where this looks: both are reasons to touch nothing.
                yield name, "files that it leads to are not there: nothing of it is removed", []
                continue
            for why, paths in sorted(by_why.items()):
                yield name, _WHY[why], sorted(paths)

    def _judge_folder(
        self, folder: str, place: _RelationFolder, staged: Collection[str], runs: Mapping[str, Run]
    ) -> dict[str, list[str]]:
        """The files of a place that may go, by why."""
        if _had_table(folder, place):
            # A table that was dropped by mistake can be brought back for as long as all of it is there.
            return {"abandoned": [f.path for f in place.files]} if self._is_abandoned(place) else {}
        by_why: dict[str, list[str]] = {}
        for file in place.files:
            kind = judge_file(file, staged, runs, self.now, self.keep)
            ours = place.is_own or parse_path_run(file.path.removeprefix(self._root)) is not None
            if kind == "run" or (kind == "loose" and ours and file.written < self._safe_before):
                by_why.setdefault(kind, []).append(file.path)
        return by_why

    def remove_empty_folders(self) -> None:
        """Remove folders of runs that are over and hold nothing any more."""
        alive = {run.id for run in self.lake.list_runs().values() if run.alive is not False}
        for folder in self.lake.storage.list_folders():
            run = parse_path_run(folder.removeprefix(self._root))
            if run is not None and run not in alive:
                self.lake.storage.remove_if_empty(folder)

    def _list_files(self) -> Iterator[FileFact]:
        files = [
            f for f in self.lake.storage.list_files(self._root) if not f.path.startswith(f"{self._stage_root}/_runs/")
        ]
        present = {file.path for file in files}
        # What is written beside a file goes with it.
        return (file for file in files if find_main_file(file.path) not in present)

    def _list_used_files(self, pointers: Mapping[Relation, Pointer], documents: Mapping[Relation, Any]) -> set[str]:
        """Every file that any table or view of the catalog leads to, also of those that sqb did not create."""
        used = {normalize_location(p.location) for p in pointers.values()}
        for relation, document in documents.items():
            if "view-uuid" in document:
                continue
            table = self._load(relation)
            if table is not None:
                used |= self.reachable.list_table_files(table)
        return used

    def _group_by_folder(self, files: list[FileFact], documents: Mapping[Relation, Any]) -> dict[str, _RelationFolder]:
        """The files by the folder of the relation that they are in; a folder that holds another's is left alone."""
        homes = {normalize_folder(d["location"]): (r, d) for r, d in documents.items() if r.schema != STAGE_SCHEMA}
        places: dict[str, _RelationFolder] = {}
        for file in files:
            home = _find_home(file.path, homes)
            if home is None:
                parts = file.path.removeprefix(f"{self._root}/").split("/")
                home = f"{self._root}/{'/'.join(parts[:2])}" if len(parts) > 2 else None
            if home is None:
                continue
            relation, document = homes.get(home, (None, {}))
            nested = any(other != home and other.startswith(f"{home}/") for other in homes)
            if not nested:
                place = _RelationFolder(relation, _is_own(document), "view-uuid" in document)
                places.setdefault(home, place).files.append(file)
        return {h: p for h, p in places.items() if p.is_own or p.relation is None}

    def _is_complete(self, relation: Relation) -> bool:
        """Whether every file of a table's current rows is where its metadata says."""
        pointer = self.lake.list_pointers().get(relation)
        table = self._load(relation) if pointer is not None and not pointer.is_view else None
        current = table.metadata.current_snapshot() if table is not None else None
        if table is None or current is None:
            return True
        return all(self._exists(path) for path in self.reachable.list_snapshot_files([current], table.io))

    def _exists(self, path: str) -> bool:
        try:
            self.lake.storage.stat(path)
        except FileNotFoundError:
            return False
        return True

    def _is_abandoned(self, place: _RelationFolder) -> bool:
        """Whether a folder held a table of sqb that has been gone for long."""
        if max(f.written for f in place.files) > min(self.now - self.keep.snapshots, self._safe_before):
            return False
        if place.relation is not None:
            return True
        latest = max(
            (f for f in place.files if f.path.endswith(".metadata.json")), key=lambda f: f.written, default=None
        )
        if latest is None:
            return False
        try:
            return _is_own(parse_metadata(self.lake.storage.read(latest.path)))
        except (OSError, ValueError, TypeError):
            return False

    def _find_stage_orphans(
        self, files: list[FileFact], pointers: Mapping[Relation, Pointer], runs: Mapping[str, Run]
    ) -> Iterator[tuple[str, str, list[str]]]:
        """Files of stages that the catalog does not know, or does not know yet."""
        homes = [normalize_location(p.location) for p in pointers.values()]
        by_folder: dict[str, list[FileFact]] = {}
        for file in files:
            name = file.path.removeprefix(f"{self._stage_root}/").split("/")[0]
            by_folder.setdefault(name, []).append(file)
        for name, stage_files in sorted(by_folder.items()):
            folder = f"{self._stage_root}/{name}/"
            if any(home.startswith(folder) for home in homes):
                continue
            run = runs.get(parse_stage_run(name) or "")
            dead = run is not None and run.alive is False
            old = max(f.written for f in stage_files) <= min(self.now - self.keep.files, self._safe_before)
            if dead or (old and (run is None or not run.alive)):
                yield (
                    f"{STAGE_SCHEMA}.{name}",
                    "a stage that the catalog does not list",
                    sorted(f.path for f in stage_files),
                )

    def _load(self, relation: Relation) -> Table | None:
        try:
            return self.catalog.load_table((*relation.schema.split("."), relation.name))
        except NoSuchTableError:
            return None


def _is_own(document: Mapping[str, Any]) -> bool:
    properties = document.get("properties") or {}
    own = MODEL in properties or LOADER in properties or VERSION_PROPERTY in properties
    # What is forbidden of a clone is to remove files that are not its own; those in its folder are.
    free = str(properties.get("gc.enabled", "true")).lower() != "false" or CLONE_OF in properties
    return own and free


def _is_stage(document: Mapping[str, Any]) -> bool:
    location = str(document.get("location", ""))
    return f"/{STAGE_SCHEMA}/" in location and "write.data.path" in (document.get("properties") or {})


def _had_table(folder: str, place: _RelationFolder) -> bool:
    """Whether files are left of a table that was dropped, or that gave way to a view."""
    if place.relation is None:
        return any(f.path.endswith(".metadata.json") for f in place.files)
    return place.is_view and any(f.path.startswith(f"{folder}/data/") for f in place.files)


def _find_home(path: str, homes: Mapping[str, Any]) -> str | None:
    folder = path
    while "/" in folder[1:]:
        folder = folder.rpartition("/")[0]
        if folder in homes:
            return folder
    return None
