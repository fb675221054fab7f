"""Which files tell what changed between two snapshots, from manifests alone: no data file is opened.

A data file that both snapshots have, hidden by the same deletes, has the same rows in both. What is left are files that
were added or removed, and files of which other rows are hidden. One file too many costs time; one too few loses rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqb.lake.metadata.file_entries import EQUALITY_DELETES, FileEntry, ListedManifest, ManifestList

# The column of a position delete file that holds paths.
_PATH_COLUMN = 2147483546
# Bytes of bounds that are compared: whole numbers, days, moments and, as far as their order is the same to everybody,
# texts.
_NUMBERS = ("int", "long", "date", "timestamp", "timestamptz")
_TEXTS = ("string",)

ReadEntries = Callable[[ListedManifest], Sequence[FileEntry]]


@dataclass(frozen=True, slots=True)
class TableLayout:
    """What has to be known of a table to tell which rows a delete file can hide."""

    # Specs that partition nothing: an equality delete of theirs is for every data file.
    unpartitioned: Collection[int]
    # The types of columns by their ids, as Iceberg writes them; a column that was widened is not among them.
    types: dict[int, str]


@dataclass(frozen=True, slots=True)
class FileComparison:
    """The data files that show what changed between two snapshots."""

    added: tuple[FileEntry, ...] = ()
    removed: tuple[FileEntry, ...] = ()
    # In both, with other rows hidden: those of which the old and the new snapshot may hide any.
    hidden_then: tuple[FileEntry, ...] = ()
    hidden_now: tuple[FileEntry, ...] = ()


def compare_files(old: ManifestList, new: ManifestList, read: ReadEntries, layout: TableLayout) -> FileComparison:
    """The data files in which two snapshots of a table differ."""
    shared = {m.path for m in old.manifests} & {m.path for m in new.manifests}
    then, now = _read_unshared(old, shared, read), _read_unshared(new, shared, read)
    removed, added = _subtract(then.data, now.data), _subtract(now.data, then.data)
    changed = [*_subtract(then.deletes, now.deletes), *_subtract(now.deletes, then.deletes)]
    if not changed:
        return FileComparison(tuple(added), tuple(removed))
    changes = DeleteIndex(changed, layout)
    common = [*_subtract(now.data, added), *(e for m in new.manifests if _is_shared_data(m, shared) for e in read(m))]
    concerned = [e for e in common if changes.may_hide_rows_of(e)]
    remaining = [e for m in new.manifests if m.has_deletes and m.path in shared for e in read(m)]
    deletes_then = DeleteIndex([*then.deletes, *remaining], layout)
    deletes_now = DeleteIndex([*now.deletes, *remaining], layout)
    return FileComparison(
        tuple(added),
        tuple(removed),
        tuple(e for e in concerned if deletes_then.may_hide_rows_of(e)),
        tuple(e for e in concerned if deletes_now.may_hide_rows_of(e)),
    )


@dataclass(frozen=True, slots=True)
class _Entries:
    data: list[FileEntry]
    deletes: list[FileEntry]


def _read_unshared(listed: ManifestList, shared: Collection[str], read: ReadEntries) -> _Entries:
    entries = _Entries([], [])
    for manifest in listed.manifests:
        if manifest.path not in shared:
            (entries.deletes if manifest.has_deletes else entries.data).extend(read(manifest))
    return entries


def _is_shared_data(manifest: ListedManifest, shared: Collection[str]) -> bool:
    return not manifest.has_deletes and manifest.path in shared


def _subtract(entries: Iterable[FileEntry], others: Iterable[FileEntry]) -> list[FileEntry]:
    """The entries that are not among others, as often as they are there more often."""
    left = Counter(e.identity for e in others)
    remaining = []
    for entry in entries:
        if left[entry.identity] > 0:
            left[entry.identity] -= 1
        else:
            remaining.append(entry)
    return remaining


class DeleteIndex:
    """Delete files by what they can hide: rows of one file, of a partition, or of any file."""

    def __init__(self, deletes: Iterable[FileEntry], layout: TableLayout) -> None:
        self._layout = layout
        self._paths: set[str] = set()
        self._by_partition: dict[tuple[int, str], list[FileEntry]] = {}
        self._everywhere: list[FileEntry] = []
        for delete in deletes:
            path = _find_referenced_path(delete)
            if path is not None:
                self._paths.add(path)
            elif delete.content == EQUALITY_DELETES and delete.spec_id in layout.unpartitioned:
                self._everywhere.append(delete)
            else:
                self._by_partition.setdefault((delete.spec_id, delete.partition), []).append(delete)

    def may_hide_rows_of(self, file: FileEntry) -> bool:
        """Whether one of them may hide rows of a data file."""
        if file.path in self._paths:
            return True
        deletes = (*self._everywhere, *self._by_partition.get((file.spec_id, file.partition), ()))
        return any(self._may_hide(delete, file) for delete in deletes)

    def _may_hide(self, delete: FileEntry, file: FileEntry) -> bool:
        if delete.content != EQUALITY_DELETES:
            return _holds_path(delete, file.path)
        if delete.sequence_number <= file.sequence_number:
            return False
        return all(may_share_value(delete, file, i, self._layout.types.get(i)) for i in delete.equality_ids)


def _find_referenced_path(delete: FileEntry) -> str | None:
    """The one data file that a delete file is for, if it says so."""
    if delete.content == EQUALITY_DELETES:
        return None
    if delete.referenced is not None:
        return delete.referenced
    lower, upper = delete.lower_bounds.get(_PATH_COLUMN), delete.upper_bounds.get(_PATH_COLUMN)
    return lower.decode() if lower is not None and lower == upper else None


def _holds_path(delete: FileEntry, path: str) -> bool:
    """Whether a path lies between the bounds of the paths in a position delete file."""
    lower, upper, text = delete.lower_bounds.get(_PATH_COLUMN), delete.upper_bounds.get(_PATH_COLUMN), path.encode()
    if not text.isascii():
        return True
    return (lower is None or lower <= text) and (upper is None or not upper.isascii() or text <= upper)


def may_share_value(delete: FileEntry, file: FileEntry, column: int, kind: str | None) -> bool:
    """Whether a data file may hold a value of a column that an equality delete file holds too, as statistics tell."""
    if _may_hold_null(delete, column) and _may_hold_null(file, column):
        return True
    deleted, held = decode_bounds(delete, column, kind), decode_bounds(file, column, kind)
    if deleted is None or held is None:
        return True
    return bool(deleted[0] <= held[1] and held[0] <= deleted[1])


def _may_hold_null(entry: FileEntry, column: int) -> bool:
    return entry.null_counts.get(column) != 0


def decode_bounds(entry: FileEntry, column: int, kind: str | None) -> tuple[Any, Any] | None:
    """The bounds of a column in a form that can be compared; None where they are unknown or others may order them."""
    lower, upper = entry.lower_bounds.get(column), entry.upper_bounds.get(column)
    if lower is None or upper is None:
        return None
    if kind in _NUMBERS and len(lower) in (4, 8) and len(upper) in (4, 8):
        return int.from_bytes(lower, "little", signed=True), int.from_bytes(upper, "little", signed=True)
    # Letters beyond ASCII are ordered by their bytes in one place and by their UTF-16 units in another.
    return (lower, upper) if kind in _TEXTS and lower.isascii() and upper.isascii() else None
