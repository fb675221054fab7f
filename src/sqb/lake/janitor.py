"""The janitor: gathers the facts that `garbage` decides on, and carries the decisions out, without Java.

Every step leaves the lake right if it is the last one: what is still needed is committed before anything is removed,
and what a cut-off run leaves is found again by the next.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from sqb.errors import Conflict, JanitorBusy, LakeDamaged, LakeUnreadable, SqbError
from sqb.lake.at_once import at_once
from sqb.lake.clones import Clones, versions_shared
from sqb.lake.compaction import compact
from sqb.lake.dropping import Dropping
from sqb.lake.garbage import (
    SnapshotFact,
    StageFact,
    expired_snapshots,
    is_busy,
    judge_stage,
    reading_since,
    run_of_path,
)
from sqb.lake.iceberg import IcebergLake
from sqb.lake.leftovers import Leftovers
from sqb.lake.locations import parent_of, real, real_folder
from sqb.lake.metadata import IDENTITY_PREFIX
from sqb.lake.port import STAGE_SCHEMA, Pointer, TableState
from sqb.lake.reach import Reach
from sqb.lake.snapshots import made
from sqb.lake.state import FAILURES, FINGERPRINTS, FRESHNESS, NODE_RESULTS
from sqb.lake.swept import Swept
from sqb.names import Relation
from sqb.project.retention import Retention


class Tenants(Protocol):
    """Those who count on more of a lake than its tables tell: virtual environments."""

    def swept(self, janitor: Janitor) -> Iterator[Swept]:
        """Let go of what is theirs and needed no more, and tell of it."""

    def holds(self, relation: Relation) -> Collection[int] | None:
        """The snapshots of a table that they need; None when nobody can tell, so that all must stay."""


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
        self.reach = Reach()
        self._counted: set[str] = set()
        self._refused: list[str] = []
        # Relations that were dropped in this round, or in a dry run would have been.
        self._gone: set[Relation] = set()

    def clean(self) -> Iterator[Swept]:
        """Go through the lake, and tell of each thing that was removed, or in a dry run would be."""
        if not self.lake.exists():
            return
        with self.lake.explaining(), self._alone():
            self.catalog = self.lake.open_for_writing().catalog
            yield from self._stages()
            yield from self._state_tables()
            if self.tenants is not None:
                yield from self.tenants.swept(self)
            clones = Clones(self.lake, self.catalog, self.reach, self.keep, self.dry_run, self.now, self._gone)
            yield from clones.swept(self._own())
            yield from self._snapshots()
            leftovers = Leftovers(self.lake, self.catalog, self.reach, self.keep, self.now, self._counted)
            for name, why, paths in leftovers.found():
                yield Swept("files", name, why, *self._remove(paths)) if paths else Swept("kept", name, why)
            if not self.dry_run:
                leftovers.remove_empty_folders()
                self._forget_runs()
        if self._refused:
            many = f"{len(self._refused)} files, such as {self._refused[0]}"
            yield Swept("kept", self.lake.warehouse, f"{many}, could not be removed: check their permissions")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self.dry_run:
            yield
            return
        try:
            with self.lake.run_keeper.only_one("janitor") as mine:
                if not mine:
                    raise JanitorBusy(
                        f"another janitor is at work in {self.lake.warehouse}",
                        hint="let it finish; nothing was done here",
                    )
                yield
        except PermissionError as error:
            raise LakeUnreadable(
                f"cannot write to {error.filename}", hint="check the permissions of the lake's folder"
            ) from error

    def drop(self, relations: Iterable[Relation], why: str, gone: Collection[Relation] = ()) -> Iterator[Swept]:
        """Drop relations that nobody needs, with their files, and tell of each; one that something reads stays."""
        needed = self._needed(self._own())

        def counted(relation: Relation) -> Collection[int] | None:
            held = self.tenants.holds(relation) if self.tenants is not None else ()
            return None if held is None else {*held, *needed.get(str(relation).lower(), ())}

        dropping = Dropping(self.lake, self.catalog, self.reach, self._remove, counted, self.dry_run)
        for one in dropping.dropped(relations, why, gone):
            self._gone |= {Relation.parse(one.name)} if one.what == "version" else set()
            yield one

    def is_busy(self) -> bool:
        """Whether a build runs, or may be running where nobody can tell."""
        return is_busy(self.lake.runs().values(), self.now, self.keep)

    # --- stages ---------------------------------------------------------------------------------------------------

    def _stages(self) -> Iterator[Swept]:
        staged = [p for r, p in self.lake.everything().items() if r.schema == STAGE_SCHEMA]
        # Asked after the catalog: a run is known before it has a stage.
        runs = self.lake.runs()
        tables = self._tables() if staged else {}
        for pointer in sorted(staged, key=lambda p: p.relation):
            name = pointer.relation.name
            verdict = judge_stage(StageFact(name, self._written(pointer)), runs, self.now, self.keep)
            if not verdict.goes:
                yield Swept("kept", str(pointer.relation), verdict.why)
                continue
            files, size = self._remove_stage(pointer, tables)
            yield Swept("stage", str(pointer.relation), verdict.why, files, size, tables=1)

    def _remove_stage(self, pointer: Pointer, tables: Mapping[Relation, Any]) -> tuple[int, int]:
        """The entry in the catalog first: a build that lives all the same finds it gone, and publishes nothing.

        Files that are left when this is cut off are found again, as those of a run that is dead.
        """
        location = self._location(pointer)
        if not self.dry_run:
            self.lake.drop_stage(pointer.relation)
        if location is None:
            return 0, 0
        files, size = self._remove([] if pointer.is_view else self._unpublished(pointer, tables))
        folder = parent_of(parent_of(location))
        metadata = self._files_under(folder) if parent_of(folder).endswith(f"/{STAGE_SCHEMA}") else []
        more, larger = self._remove(metadata)
        return files + more, size + larger

    def _unpublished(self, pointer: Pointer, tables: Mapping[Relation, Any]) -> list[str]:
        """The rows of a stage that no table leads to: its build may have been killed right after its commit."""
        try:
            data = self.lake.document(pointer)["properties"]["write.data.path"]
        except (LakeDamaged, KeyError):
            return []
        folder = real_folder(data)
        written = self._files_under(folder) if run_of_path(folder) else []
        published: set[str] = set()
        for relation, document in tables.items() if written else ():
            if folder.startswith(f"{real_folder(document['location'])}/"):
                target = self._load(relation)
                published |= self.reach.of_table(target) if target is not None else set()
        return [path for path in written if path not in published]

    # --- state tables ---------------------------------------------------------------------------------------------

    def _state_tables(self) -> Iterator[Swept]:
        cutoff = datetime.fromtimestamp(self.now - self.keep.history, UTC)
        journal = self.lake.open_journal()
        names = {t.name: t for t in (FINGERPRINTS, FRESHNESS, NODE_RESULTS, FAILURES)}
        for relation in sorted(r for r in self.lake.pointers() if r.name in names):
            try:
                with self.lake.explaining():
                    done = compact(journal, names[relation.name], relation.schema, cutoff, self.dry_run)
            except SqbError as error:
                yield Swept("kept", str(relation), error.message)
                continue
            if done is None:
                continue
            if relation.name == FINGERPRINTS.name and done.after:
                self.lake.keep_fingerprints(relation.schema, done.before, done.after)
            why = "old rows that count no more" if done.rows else "many small files became one"
            files, size = self._remove(done.paths)
            yield Swept("history", str(relation), why, files, size, snapshots=done.snapshots, rows=done.rows)

    # --- snapshots ------------------------------------------------------------------------------------------------

    def _snapshots(self) -> Iterator[Swept]:
        own = self._own()
        needed = self._needed(own)
        shared = versions_shared(own.values())
        borrowed: set[str] | None = None
        cutoff = min(self.now - self.keep.snapshots, reading_since(self.lake.runs().values(), self.now, self.keep))
        for relation, document in sorted(own.items()):
            if document.get("view-uuid") or len(document.get("snapshots") or ()) < 2:
                continue
            if document["properties"].get("gc.enabled", "true").lower() == "false":
                continue
            held = self.tenants.holds(relation) if self.tenants is not None else ()
            table = self._load(relation) if held is not None else None
            if table is None or held is None:
                continue
            name = str(relation).lower()
            old = self._expired(table, needed.get(name, set()), shared.get(name, set()) | set(held), cutoff)
            if old:
                borrowed = self._borrowed(own) if borrowed is None else borrowed
                yield self._expire(relation, table, old, borrowed)

    def _expired(self, table: Table, needed: set[int], shared: set[int], cutoff: float) -> tuple[int, ...]:
        metadata = table.metadata
        current = metadata.current_snapshot()
        facts = [SnapshotFact(s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms / 1000) for s in metadata.snapshots]
        refs = {ref.snapshot_id for name, ref in metadata.refs.items() if name != "main"}
        at = current.snapshot_id if current else None
        return expired_snapshots(facts, at, refs | shared, needed, cutoff, self.keep.keep_snapshots)

    def _expire(self, relation: Relation, table: Table, old: tuple[int, ...], borrowed: set[str]) -> Swept:
        why = "superseded longer ago than snapshot_retention"
        metadata = table.metadata
        gone = self.reach.of_table(table) - self.reach.of_table(table, without=old)
        if not self.dry_run:
            current = metadata.current_snapshot()
            requirements = (
                AssertTableUUID(uuid=metadata.table_uuid),
                made(AssertRefSnapshotId, ref="main", snapshot_id=current.snapshot_id if current else None),
            )
            try:
                self.catalog.commit_table(table, requirements, (made(RemoveSnapshotsUpdate, snapshot_ids=list(old)),))
            except (CommitFailedException, NoSuchTableError):
                return Swept("kept", str(relation), "it changed in this moment; the next round looks again")
            except CommitStateUnknownException:
                return Swept("kept", str(relation), "its catalog did not say what became of it; the next round looks")
        return Swept("snapshots", str(relation), why, *self._remove(gone - borrowed), snapshots=len(old))

    def _borrowed(self, own: Mapping[Relation, Any]) -> set[str]:
        """Files that a table lists but that lie in the folder of another, as a clone's do."""
        found: set[str] = set()
        for relation, document in own.items():
            table = self._load(relation) if "view-uuid" not in document else None
            if table is not None:
                home = f"{real_folder(table.metadata.location)}/"
                found |= {path for path in self.reach.of_table(table) if not path.startswith(home)}
        return found

    def _needed(self, own: Mapping[Relation, Any]) -> dict[str, set[int]]:
        """The snapshots that somebody counts on: versions that were read, and commits that say what a table is."""
        pointers = self.lake.pointers()
        states = self.lake.tables(pointers[r] for r in own if r in pointers)
        needed: dict[str, set[int]] = {}
        for relation, state in states.items():
            for name, version in _versions_read(state):
                needed.setdefault(name.lower(), set()).add(version)
            needed.setdefault(str(relation).lower(), set()).update(_telling(state, own[relation]))
        return needed

    # --- looking and removing -------------------------------------------------------------------------------------

    def _own(self) -> dict[Relation, dict[str, Any]]:
        """The metadata of every table and view that sqb made, but stages and state tables."""
        return {r: d for r, d in self._tables().items() if (d.get("properties") or {}).get("sqb.model")}

    def _tables(self) -> dict[Relation, dict[str, Any]]:
        """The metadata of every table and view but stages, whoever made it: a loader writes to those of others."""
        found = {}
        for relation, pointer in self.lake.everything().items():
            if relation.schema == STAGE_SCHEMA or relation in self._gone:
                continue
            try:
                found[relation] = self.lake.document(pointer)
            except LakeDamaged:
                continue
        return found

    def _load(self, relation: Relation) -> Table | None:
        try:
            return self.catalog.load_table((*relation.schema.split("."), relation.name))
        except NoSuchTableError:
            return None

    def _remove(self, paths: Iterable[str]) -> tuple[int, int]:
        """Remove files, and say how many went and how large they were; each is counted once."""
        storage = self.lake.storage
        wanted = dict.fromkeys(p for one in paths for p in (one, *storage.companions(one)) if p not in self._counted)
        self._counted.update(wanted)
        sizes = [size for size in at_once(self._remove_one, wanted, storage.readers) if size is not None]
        return len(sizes), sum(sizes)

    def _remove_one(self, path: str) -> int | None:
        """Remove a file, and tell its size; None where there is none, or where it cannot go."""
        try:
            size = self.lake.storage.stat(path).size
            if not self.dry_run:
                self.lake.storage.remove(path)
        except FileNotFoundError:
            return None
        except OSError:
            self._refused.append(path)
            return None
        return size

    def _forget_runs(self) -> None:
        """Runs that are dead and have left nothing any more need not be known."""
        in_use = [r.name for r in self.lake.pointers() if r.schema == STAGE_SCHEMA]
        for run in self.lake.runs().values():
            old = not run.alive and run.started < self.now - self.keep.stages
            dead = run.alive is False and run.settled
            if (old or dead) and not any(name.endswith(run.id) for name in in_use):
                self.lake.run_keeper.forget(run.id)
        self.lake.run_keeper.sweep()

    def _written(self, pointer: Pointer) -> float:
        location = self._location(pointer)
        try:
            return self.lake.storage.stat(location).written if location is not None else 0.0
        except OSError:
            return 0.0

    def _location(self, pointer: Pointer) -> str | None:
        """Where the metadata of a stage is; None where it is lost, or the stage went at this moment."""
        try:
            return real(pointer.location)
        except (LakeDamaged, Conflict):
            return None

    def _files_under(self, folder: str) -> list[str]:
        return [file.path for file in self.lake.storage.listed(folder)]


def _versions_read(state: TableState) -> Iterator[tuple[str, int]]:
    try:
        sources = json.loads((state.identity or state.left).get("sqb.sources", "{}"))
    except ValueError:
        return
    for name, recorded in sources.items() if isinstance(sources, dict) else ():
        if isinstance(recorded, list) and len(recorded) >= 3 and isinstance(recorded[0], int):
            yield name, recorded[0]


def _telling(state: TableState, document: Mapping[str, Any]) -> Iterator[int]:
    """The snapshots by which a table is known to be sqb's: the rows may be older than a compaction by somebody else."""
    ours = {
        s["snapshot-id"]: s.get("sequence-number", 0)
        for s in document.get("snapshots") or ()
        if any(k.startswith(IDENTITY_PREFIX) for k in s.get("summary") or ())
    }
    for snapshot in state.same_rows:
        yield snapshot
        if snapshot in ours:
            return
    if ours:
        yield max(ours, key=lambda s: ours[s])
