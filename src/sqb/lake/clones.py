"""The clones of a lake in one round of the janitor: tags that nobody needs go, old clones get files of their own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from sqb.errors import CommitUnknown, LakeDamaged
from sqb.lake.clone import TAG_PREFIX, release
from sqb.lake.garbage import is_busy
from sqb.lake.iceberg import IcebergLake
from sqb.lake.independence import separate
from sqb.lake.port import CLONE_MADE, CLONE_OF, CLONE_ROOTS, CLONE_TAG, STAGE_SCHEMA
from sqb.lake.reach import Reach
from sqb.lake.swept import Swept
from sqb.names import Relation
from sqb.project.retention import Retention

Documents = Mapping[Relation, Mapping[str, Any]]


def versions_shared(documents: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """The snapshots whose files clones share, by the names of their tables: they stay, also without their tags."""
    found: dict[str, set[int]] = {}
    for document in documents:
        for name, version in json.loads((document.get("properties") or {}).get(CLONE_ROOTS, "[]")):
            found.setdefault(name.lower(), set()).add(version)
    return found


class Clones:
    """One round."""

    def __init__(
        self,
        lake: IcebergLake,
        catalog: Catalog,
        reach: Reach,
        keep: Retention,
        dry_run: bool,
        now: float,
        gone: Collection[Relation] = (),
    ) -> None:
        self.lake, self.catalog, self.reach, self.keep = lake, catalog, reach, keep
        self.dry_run, self.now, self.gone = dry_run, now, gone

    def swept(self, own: Documents) -> Iterator[Swept]:
        """Tell of each tag that went and of each clone that was made independent."""
        # A tag goes a round later than its clone became independent, or was dropped while somebody read it.
        yield from self._unused_tags(own)
        yield from self._old_clones(own)

    def _unused_tags(self, own: Documents) -> Iterator[Swept]:
        tagged = {r: [t for t in document.get("refs") or () if t.startswith(TAG_PREFIX)] for r, document in own.items()}
        tagged = {r: tags for r, tags in tagged.items() if tags}
        if not tagged:
            return
        try:
            claimed = self._claimed()
        except LakeDamaged as error:
            yield Swept("kept", "tags of clones", f"nobody can tell whose they are: {error.message}")
            return
        for relation, tags in sorted(tagged.items()):
            free = [tag for tag in tags if tag not in claimed]
            if free and is_busy(self.lake.runs().values(), self.now, self.keep):
                yield Swept("kept", str(relation), "a build is running, which may read through the tags of its clones")
                continue
            gone = [t for t in free if self.dry_run or release(self.catalog, relation, t)]
            if gone:
                yield Swept(
                    "tag", str(relation), "the clones that they were for share its files no more", tags=len(gone)
                )

    def _claimed(self) -> set[str]:
        """The tags that some table needs; asked after the tags were seen, as a clone comes after its tag."""
        tables = (p for p in self.lake.everything().values() if not p.is_view and p.relation not in self.gone)
        documents = (self.lake.document(p) for p in tables if p.relation.schema != STAGE_SCHEMA)
        return {tag for d in documents if (tag := (d.get("properties") or {}).get(CLONE_TAG))}

    def _old_clones(self, own: Documents) -> Iterator[Swept]:
        for relation, document in sorted(own.items()):
            properties = document.get("properties") or {}
            if CLONE_OF not in properties or _made(properties) > self.now - self.keep.clones:
                continue
            try:
                table = self.catalog.load_table((*relation.schema.split("."), relation.name))
                done = separate(self.lake, relation, table, self.reach, self.dry_run)
            except NoSuchTableError:
                continue
            except FileNotFoundError as error:
                yield Swept("kept", str(relation), f"a file that it shares is not there: {error.filename}")
                continue
            except CommitUnknown as error:
                yield Swept("kept", str(relation), error.message)
                continue
            if done.why_not:
                yield Swept("kept", str(relation), f"it still shares files with {properties[CLONE_OF]}: {done.why_not}")
            else:
                why = f"it shared them with {properties[CLONE_OF]} for longer than clone_retention"
                yield Swept("clone", str(relation), why, done.files, done.bytes)


def _made(properties: Mapping[str, str]) -> float:
    try:
        return int(properties[CLONE_MADE]) / 1000
    except (KeyError, ValueError):
        return 0.0
