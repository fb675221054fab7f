"""The snapshots of tables and what happened between them, from metadata files alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqb.lake.metadata.history import compute_row_changes
from sqb.lake.port import Lake, PastSnapshot, Pointer
from sqb.names import Relation
from sqb.plan.observed import SnapshotChange


class SnapshotHistories:
    """The snapshots of tables, of which only those that are asked about are read."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._pointers: Mapping[Relation, Pointer] | None = None
        self._cache: dict[Relation, Mapping[int, PastSnapshot]] = {}

    def get(self, relation: Relation) -> Mapping[int, PastSnapshot]:
        """The snapshots of a table, oldest first; none of a view or of what is not there."""
        if relation not in self._cache:
            if self._pointers is None:
                self._pointers = self.lake.list_pointers()
            pointer = self._pointers.get(relation)
            readable = pointer is not None and not pointer.is_view
            self._cache[relation] = self.lake.read_history(pointer) if pointer and readable else {}
        return self._cache[relation]

    def compare(self, relation: Relation, old: int | None, new: int | None) -> SnapshotChange:
        """What happened to a table between two of its snapshots."""
        history, lineage = self.get(relation), self.lake.read_lineage(relation)
        moved = compute_row_changes(history, old, new)
        ids = [s.id for s in lineage]
        if new not in ids or old not in ids or ids.index(old) < ids.index(new):
            return SnapshotChange(moved.added, moved.removed, is_expired=old is not None and old not in history)
        between, base = lineage[ids.index(new) : ids.index(old)], lineage[ids.index(old)]
        return SnapshotChange(
            moved.added,
            moved.removed,
            _add_up(s.added_files for s in between),
            _add_up(s.removed_files for s in between),
            _add_up(s.added_bytes for s in between),
            _add_up(s.removed_bytes for s in between),
            steps=tuple(s.id for s in between),
            is_append=all(s.operation == "append" and not s.removed_rows for s in between),
            has_delete_files=any(s.has_delete_files for s in between),
            has_same_columns=all(s.has_same_columns for s in (*between, base)),
            has_row_ids=all(s.has_row_ids for s in (*between, base)),
            rows_in_files=_add_up(
                figure
                for s in between
                if s.operation != "replace"
                for figure in (s.added_rows, s.removed_rows, s.deletes)
            ),
            rows_to_read=_add_up(
                figure
                for s in between
                if s.operation != "replace"
                for figure in (s.added_rows, s.removed_rows, s.rows_beside_hidden)
            ),
        )


def _add_up(figures: Iterable[int | None]) -> int | None:
    """The sum of a figure of several summaries; None when one of them does not have it."""
    known = list(figures)
    return None if None in known else sum(figure or 0 for figure in known)
