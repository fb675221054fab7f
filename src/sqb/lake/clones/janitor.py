"""The clones of a lake in one round of the janitor: unused tags are removed, old clones get files of their own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from sqb.errors.lake import CommitUnknown, LakeDamaged
from sqb.lake.clones.clone import TAG_PREFIX, release_tag
from sqb.lake.clones.materialize import separate
from sqb.lake.iceberg import IcebergLake
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.janitor.report import JanitorAction
from sqb.lake.janitor.retention import is_busy
from sqb.lake.port import CLONE_MADE, CLONE_OF, CLONE_ROOTS, CLONE_TAG, STAGE_SCHEMA
from sqb.names import Relation
from sqb.project.config.settings import Retention

Documents = Mapping[Relation, Mapping[str, Any]]


def find_shared_snapshots(documents: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """The snapshots whose files clones share, by the names of their tables: they stay, also without their tags."""
    snapshots: dict[str, set[int]] = {}
    for document in documents:
        for name, version in json.loads((document.get("properties") or {}).get(CLONE_ROOTS, "[]")):
            snapshots.setdefault(name.lower(), set()).add(version)
    return snapshots


class CloneJanitor:
    """One round."""

    def __init__(
        self,
        lake: IcebergLake,
        catalog: Catalog,
        reachable: ReachableFiles,
        keep: Retention,
        dry_run: bool,
        now: float,
        dropped: Collection[Relation] = (),
    ) -> None:
        self.lake, self.catalog, self.reachable, self.keep = lake, catalog, reachable, keep
        self.dry_run, self.now, self.dropped = dry_run, now, dropped

    def clean_up(self, documents: Documents) -> Iterator[JanitorAction]:
        """Report each tag that was removed and each clone that was made independent."""
        # A tag goes a round later than its clone became independent, or was dropped while a reader read it.
        yield from self._release_unused_tags(documents)
        yield from self._separate_old_clones(documents)

    def _release_unused_tags(self, documents: Documents) -> Iterator[JanitorAction]:
        """Remove tags on tables whose clones no longer need the tagged snapshot."""
        tagged = {
            r: [t for t in document.get("refs") or () if t.startswith(TAG_PREFIX)] for r, document in documents.items()
        }
        tagged = {r: tags for r, tags in tagged.items() if tags}
        if not tagged:
            return
        try:
            claimed = self._find_claimed_tags()
        except LakeDamaged as error:
            yield JanitorAction("kept", "tags of clones", f"sqb cannot tell which clones need them: {error.message}")
            return
        for relation, tags in sorted(tagged.items()):
            unclaimed = [tag for tag in tags if tag not in claimed]
            if unclaimed and is_busy(self.lake.list_runs().values(), self.now, self.keep):
                yield JanitorAction(
                    "kept", str(relation), "a build is running, which may read through the tags of its clones"
                )
                continue
            released = [t for t in unclaimed if self.dry_run or release_tag(self.catalog, relation, t)]
            if released:
                yield JanitorAction(
                    "tag", str(relation), "the clones that they were for no longer share its files", tags=len(released)
                )

    def _find_claimed_tags(self) -> set[str]:
        """The tags that some table needs; asked after the tags were seen, as a clone comes after its tag."""
        tables = (p for p in self.lake.load_pointers().values() if not p.is_view and p.relation not in self.dropped)
        documents = (self.lake.load_document(p) for p in tables if p.relation.schema != STAGE_SCHEMA)
        return {tag for d in documents if (tag := (d.get("properties") or {}).get(CLONE_TAG))}

    def _separate_old_clones(self, documents: Documents) -> Iterator[JanitorAction]:
        """Give clones that have shared files for longer than clone_retention files of their own."""
        for relation, document in sorted(documents.items()):
            properties = document.get("properties") or {}
            if CLONE_OF not in properties or _get_creation_time(properties) > self.now - self.keep.clones:
                continue
            try:
                table = self.catalog.load_table((*relation.schema.split("."), relation.name))
                separation = separate(self.lake, relation, table, self.reachable, self.dry_run)
            except NoSuchTableError:
                continue
            except FileNotFoundError as error:
                yield JanitorAction("kept", str(relation), f"a file that it shares is not there: {error.filename}")
                continue
            except CommitUnknown as error:
                yield JanitorAction("kept", str(relation), error.message)
                continue
            if separation.obstacle:
                yield JanitorAction(
                    "kept", str(relation), f"it still shares files with {properties[CLONE_OF]}: {separation.obstacle}"
                )
            else:
                why = f"it shared them with {properties[CLONE_OF]} for longer than clone_retention"
                yield JanitorAction("clone", str(relation), why, separation.files, separation.bytes)


def _get_creation_time(properties: Mapping[str, str]) -> float:
    try:
        return int(properties[CLONE_MADE]) / 1000
    except (KeyError, ValueError):
        return 0.0
