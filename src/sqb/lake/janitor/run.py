"""The janitor: gathers the facts that `retention` decides on, and carries the decisions out, without Java.

Every step leaves the lake right if it is the last one: what is still needed is committed before anything is removed,
and what a cut-off run leaves is found again by the next.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from sqb.errors.base import SqbError
from sqb.errors.lake import Conflict, JanitorBusy, LakeDamaged, LakeUnreadable
from sqb.lake.clones.janitor import CloneJanitor, find_shared_snapshots
from sqb.lake.commit.snapshot import build_model
from sqb.lake.concurrency import map_concurrently
from sqb.lake.iceberg import IcebergLake
from sqb.lake.janitor.drop import RelationDropper
from sqb.lake.janitor.group_states import find_unneeded_states
from sqb.lake.janitor.orphan_files import OrphanFiles
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.janitor.report import JanitorAction
from sqb.lake.janitor.retention import (
    SnapshotFact,
    StageFact,
    find_expired_snapshots,
    find_oldest_reader_start,
    is_busy,
    judge_stage,
    parse_path_run,
)
from sqb.lake.port import STAGE_SCHEMA, Pointer, TableState
from sqb.lake.state.compaction import compact
from sqb.lake.state.rows import FAILURES, FINGERPRINTS, FRESHNESS, NODE_RESULTS
from sqb.lake.storage.locations import get_parent, normalize_folder, normalize_location
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import MODEL, CommitIdentity
from sqb.plan.recorded.group_state import build_state_relation, parse_states
from sqb.plan.recorded.versions import parse_sources
from sqb.project.config.settings import Retention


class Tenants(Protocol):
    """Owners of snapshots that the tables themselves do not show to be needed: virtual environments."""

    def clean_up(self, janitor: Janitor) -> Iterator[JanitorAction]:
        """Remove what is theirs and no longer needed, and report it."""

    def find_needed_snapshots(self, relation: Relation) -> Collection[int] | None:
        """The snapshots of a table that they need; None when that is unknown, so that all must stay."""


class Janitor:
    """One round through a lake."""

    def __init__(
        self,
        lake: IcebergLake,
        keep: Retention,
        dry_run: bool = False,
        now: float | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        self.lake, self.keep, self.dry_run, self.tenants = lake, keep, dry_run, tenants
        self.now = time.time() if now is None else now
        self.reachable = ReachableFiles()
        self._removed_paths: set[str] = set()
        self._unremovable: list[str] = []
        # Relations that were dropped in this round, or in a dry run would have been.
        self._dropped: set[Relation] = set()

    def clean(self) -> Iterator[JanitorAction]:
        """Clean the lake, and report each thing that was removed, or in a dry run would be."""
        if not self.lake.exists():
            return
        with self.lake.translate_errors(), self._hold_lock():
            self.catalog = self.lake.open_for_writing().catalog
            yield from self._clean_stages()
            yield from self._compact_state_tables()
            if self.tenants is not None:
                yield from self.tenants.clean_up(self)
            yield from self._drop_group_states()
            clones = CloneJanitor(
                self.lake, self.catalog, self.reachable, self.keep, self.dry_run, self.now, self._dropped
            )
            yield from clones.clean_up(self._read_own_documents())
            yield from self._expire_snapshots()
            leftovers = OrphanFiles(self.lake, self.catalog, self.reachable, self.keep, self.now, self._removed_paths)
            for name, why, paths in leftovers.find_groups():
                yield (
                    JanitorAction("files", name, why, *self._remove_files(paths))
                    if paths
                    else JanitorAction("kept", name, why)
                )
            if not self.dry_run:
                leftovers.remove_empty_folders()
                self._forget_runs()
        if self._unremovable:
            many = f"{len(self._unremovable)} files, such as {self._unremovable[0]}"
            yield JanitorAction("kept", self.lake.warehouse, f"{many}, could not be removed: check their permissions")

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        if self.dry_run:
            yield
            return
        try:
            with self.lake.run_tracker.hold_exclusively("janitor") as is_held:
                if not is_held:
                    raise JanitorBusy(
                        f"another janitor is at work in {self.lake.warehouse}",
                        hint="let it finish; nothing was done here",
                    )
                yield
        except PermissionError as error:
            raise LakeUnreadable(
                f"cannot write to {error.filename}", hint="check the permissions of the lake's folder"
            ) from error

    def drop(
        self, relations: Iterable[Relation], why: str, dropped: Collection[Relation] = ()
    ) -> Iterator[JanitorAction]:
        """Drop relations that are not needed, with their files, and report each; one that something reads stays."""
        needed = self._find_needed_snapshots(self._read_own_documents())

        def find_needed(relation: Relation) -> Collection[int] | None:
            snapshots = self.tenants.find_needed_snapshots(relation) if self.tenants is not None else ()
            return None if snapshots is None else {*snapshots, *needed.get(str(relation).lower(), ())}

        dropper = RelationDropper(
            self.lake, self.catalog, self.reachable, self._remove_files, find_needed, self.dry_run
        )
        for action in dropper.drop(relations, why, dropped):
            self._dropped |= {Relation.parse(action.name)} if action.what == "version" else set()
            yield action

    def drop_relations(self, relations: Collection[Relation], why: str) -> Iterator[JanitorAction]:
        """Drop relations and the figures of their groups, and nothing else; refused while a build runs."""
        with self.lake.translate_errors(), self._hold_lock():
            if not self.dry_run and self.is_busy():
                raise JanitorBusy(
                    f"a build is at work in {self.lake.warehouse}", hint="let it finish; nothing was dropped"
                )
            self.catalog = self.lake.open_for_writing().catalog
            yield from self.drop(relations, why)
            yield from self._drop_group_states()

    def _drop_group_states(self) -> Iterator[JanitorAction]:
        """Drop the figures of groups whose table is gone, or does not name them any more."""
        if not self.is_busy() and (states := find_unneeded_states(self.lake, self._dropped)):
            yield from self.drop(states, "no table names the figures of groups that it has", self._dropped)

    def is_busy(self) -> bool:
        """Whether a build runs, or may be running where that is unknown."""
        return is_busy(self.lake.list_runs().values(), self.now, self.keep)

    # --- stages ---------------------------------------------------------------------------------------------------

    def _clean_stages(self) -> Iterator[JanitorAction]:
        staged = [p for r, p in self.lake.load_pointers().items() if r.schema == STAGE_SCHEMA]
        # Asked after the catalog: a run is known before it has a stage.
        runs = self.lake.list_runs()
        tables = self._read_documents() if staged else {}
        for pointer in sorted(staged, key=lambda p: p.relation):
            name = pointer.relation.name
            verdict = judge_stage(StageFact(name, self._read_written_time(pointer)), runs, self.now, self.keep)
            if not verdict.may_go:
                yield JanitorAction("kept", str(pointer.relation), verdict.why)
                continue
            files, size = self._remove_stage(pointer, tables)
            yield JanitorAction("stage", str(pointer.relation), verdict.why, files, size, tables=1)

    def _remove_stage(self, pointer: Pointer, tables: Mapping[Relation, Any]) -> tuple[int, int]:
        """The entry in the catalog first: a build that lives all the same finds it gone, and publishes nothing.

        Files that are left when this is cut off are found again, as those of a run that is dead.
        """
        location = self._find_location(pointer)
        if not self.dry_run:
            self.lake.drop_stage(pointer.relation)
        if location is None:
            return 0, 0
        files, size = self._remove_files([] if pointer.is_view else self._list_unpublished_files(pointer, tables))
        folder = get_parent(get_parent(location))
        metadata = self._list_files_under(folder) if get_parent(folder).endswith(f"/{STAGE_SCHEMA}") else []
        more, larger = self._remove_files(metadata)
        return files + more, size + larger

    def _list_unpublished_files(self, pointer: Pointer, tables: Mapping[Relation, Any]) -> list[str]:
        """The rows of a stage that no table leads to: its build may have been killed right after its commit."""
        try:
            data = self.lake.load_document(pointer)["properties"]["write.data.path"]
        except (LakeDamaged, KeyError):
            return []
        folder = normalize_folder(data)
        written = self._list_files_under(folder) if parse_path_run(folder) else []
        published: set[str] = set()
        for relation, document in tables.items() if written else ():
            if folder.startswith(f"{normalize_folder(document['location'])}/"):
                target = self._load(relation)
                published |= self.reachable.list_table_files(target) if target is not None else set()
        return [path for path in written if path not in published]

    # --- state tables ---------------------------------------------------------------------------------------------

    def _compact_state_tables(self) -> Iterator[JanitorAction]:
        cutoff = datetime.fromtimestamp(self.now - self.keep.history, UTC)
        journal = self.lake.open_journal()
        names = {t.name: t for t in (FINGERPRINTS, FRESHNESS, NODE_RESULTS, FAILURES)}
        for relation in sorted(r for r in self.lake.list_pointers() if r.name in names):
            try:
                with self.lake.translate_errors():
                    compaction = compact(journal, names[relation.name], relation.schema, cutoff, self.dry_run)
            except SqbError as error:
                yield JanitorAction("kept", str(relation), error.message)
                continue
            if compaction is None:
                continue
            if relation.name == FINGERPRINTS.name and compaction.after:
                self.lake.state_tables.carry_cached_fingerprints(relation.schema, compaction.before, compaction.after)
            why = "old rows that no longer count" if compaction.rows else "many small files became one"
            files, size = self._remove_files(compaction.paths)
            yield JanitorAction(
                "history", str(relation), why, files, size, snapshots=compaction.snapshots, rows=compaction.rows
            )

    # --- snapshots ------------------------------------------------------------------------------------------------

    def _expire_snapshots(self) -> Iterator[JanitorAction]:
        """Expire old snapshots of sqb's own tables that no reader, clone, environment or commit needs."""
        documents = self._read_own_documents()
        needed = self._find_needed_snapshots(documents)
        shared = find_shared_snapshots(documents.values())
        borrowed: set[str] | None = None
        cutoff = min(
            self.now - self.keep.snapshots,
            find_oldest_reader_start(self.lake.list_runs().values(), self.now, self.keep),
        )
        for relation, document in sorted(documents.items()):
            if document.get("view-uuid") or len(document.get("snapshots") or ()) < 2:
                continue
            if document["properties"].get("gc.enabled", "true").lower() == "false":
                continue
            snapshots = self.tenants.find_needed_snapshots(relation) if self.tenants is not None else ()
            table = self._load(relation) if snapshots is not None else None
            if table is None or snapshots is None:
                continue
            name = str(relation).lower()
            old = self._find_expired_snapshots(
                table, needed.get(name, set()), shared.get(name, set()) | set(snapshots), cutoff
            )
            if old:
                borrowed = self._list_borrowed_files(documents) if borrowed is None else borrowed
                yield self._expire_table(relation, table, old, borrowed)

    def _find_expired_snapshots(
        self, table: Table, needed: set[int], shared: set[int], cutoff: float
    ) -> tuple[int, ...]:
        metadata = table.metadata
        current = metadata.current_snapshot()
        facts = [SnapshotFact(s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms / 1000) for s in metadata.snapshots]
        refs = {ref.snapshot_id for name, ref in metadata.refs.items() if name != "main"}
        at = current.snapshot_id if current else None
        return find_expired_snapshots(facts, at, refs | shared, needed, cutoff, self.keep.keep_snapshots)

    def _expire_table(
        self, relation: Relation, table: Table, old: tuple[int, ...], borrowed: set[str]
    ) -> JanitorAction:
        """Expire snapshots of one table with a conditional commit, then remove the files that only they list."""
        why = "superseded longer ago than snapshot_retention"
        metadata = table.metadata
        unreachable = self.reachable.list_table_files(table) - self.reachable.list_table_files(table, without=old)
        if not self.dry_run:
            current = metadata.current_snapshot()
            requirements = (
                AssertTableUUID(uuid=metadata.table_uuid),
                build_model(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id if current else None),
            )
            try:
                self.catalog.commit_table(
                    table, requirements, (build_model(RemoveSnapshotsUpdate, snapshot_ids=list(old)),)
                )
            except (CommitFailedException, NoSuchTableError):
                return JanitorAction("kept", str(relation), "it changed meanwhile; the next round looks again")
            except CommitStateUnknownException:
                return JanitorAction(
                    "kept", str(relation), "its catalog did not say what became of it; the next round looks"
                )
        return JanitorAction(
            "snapshots", str(relation), why, *self._remove_files(unreachable - borrowed), snapshots=len(old)
        )

    def _list_borrowed_files(self, documents: Mapping[Relation, Any]) -> set[str]:
        """Files that a table lists but that lie in the folder of another, as a clone's do."""
        borrowed: set[str] = set()
        for relation, document in documents.items():
            table = self._load(relation) if "view-uuid" not in document else None
            if table is not None:
                home = f"{normalize_folder(table.metadata.location)}/"
                borrowed |= {path for path in self.reachable.list_table_files(table) if not path.startswith(home)}
        return borrowed

    def _find_needed_snapshots(self, documents: Mapping[Relation, Any]) -> dict[str, set[int]]:
        """The snapshots that are needed: versions that were read, and commits that say what a table is."""
        pointers = self.lake.list_pointers()
        states = self.lake.read_tables(pointers[r] for r in documents if r in pointers)
        needed: dict[str, set[int]] = {}
        for relation, state in states.items():
            for name, version in _iter_recorded_versions(state):
                needed.setdefault(name.lower(), set()).add(version)
            needed.setdefault(str(relation).lower(), set()).update(_iter_identity_snapshots(state, documents[relation]))
            for named in parse_states(state.known_identity.group_state).values():
                if named.is_kept:
                    table = build_state_relation(relation, named.operator)
                    needed.setdefault(str(table).lower(), set()).add(named.snapshot)
        return needed

    # --- looking and removing -------------------------------------------------------------------------------------

    def _read_own_documents(self) -> dict[Relation, dict[str, Any]]:
        """The metadata of every table and view that sqb made, but stages and state tables."""
        return {r: d for r, d in self._read_documents().items() if (d.get("properties") or {}).get(MODEL)}

    def _read_documents(self) -> dict[Relation, dict[str, Any]]:
        """The metadata of every table and view but stages, also of other tools: a loader writes to those."""
        documents = {}
        for relation, pointer in self.lake.load_pointers().items():
            if relation.schema == STAGE_SCHEMA or relation in self._dropped:
                continue
            try:
                documents[relation] = self.lake.load_document(pointer)
            except LakeDamaged:
                continue
        return documents

    def _load(self, relation: Relation) -> Table | None:
        try:
            return self.catalog.load_table((*relation.schema.split("."), relation.name))
        except NoSuchTableError:
            return None

    def _remove_files(self, paths: Iterable[str]) -> tuple[int, int]:
        """Remove files, and return how many and how large they were; each is counted once."""
        storage = self.lake.storage
        removable = dict.fromkeys(
            p for one in paths for p in (one, *storage.list_companions(one)) if p not in self._removed_paths
        )
        self._removed_paths.update(removable)
        sizes = [size for size in map_concurrently(self._remove_one, removable, storage.readers) if size is not None]
        return len(sizes), sum(sizes)

    def _remove_one(self, path: str) -> int | None:
        """Remove a file and return its size; None where there is none, or where it cannot be removed."""
        try:
            size = self.lake.storage.stat(path).size
            if not self.dry_run:
                self.lake.storage.remove(path)
        except FileNotFoundError:
            return None
        except OSError:
            self._unremovable.append(path)
            return None
        return size

    def _forget_runs(self) -> None:
        """Forget runs that are dead and have no files left."""
        in_use = [r.name for r in self.lake.list_pointers() if r.schema == STAGE_SCHEMA]
        for run in self.lake.list_runs().values():
            old = not run.alive and run.started < self.now - self.keep.stages
            dead = run.alive is False and run.settled
            if (old or dead) and not any(name.endswith(run.id) for name in in_use):
                self.lake.run_tracker.forget(run.id)
        self.lake.run_tracker.remove_stale()

    def _read_written_time(self, pointer: Pointer) -> float:
        location = self._find_location(pointer)
        try:
            return self.lake.storage.stat(location).written if location is not None else 0.0
        except OSError:
            return 0.0

    def _find_location(self, pointer: Pointer) -> str | None:
        """Where the metadata of a stage is; None where it is lost, or the stage went at this moment."""
        try:
            return normalize_location(pointer.location)
        except (LakeDamaged, Conflict):
            return None

    def _list_files_under(self, folder: str) -> list[str]:
        return [file.path for file in self.lake.storage.list_files(folder)]


def _iter_recorded_versions(state: TableState) -> Iterator[tuple[str, int]]:
    for name, version in (parse_sources(state.known_identity.sources) or {}).items():
        if version.snapshot_id is not None:
            yield name, version.snapshot_id


def _iter_identity_snapshots(state: TableState, document: Mapping[str, Any]) -> Iterator[int]:
    """The snapshots by which a table is known to be sqb's: the rows may be older than a compaction by another tool."""
    ours = {
        s["snapshot-id"]: s.get("sequence-number", 0)
        for s in document.get("snapshots") or ()
        if CommitIdentity.from_properties(s.get("summary") or {})
    }
    for snapshot in state.same_rows:
        yield snapshot
        if snapshot in ours:
            return
    if ours:
        yield max(ours, key=lambda s: ours[s])
