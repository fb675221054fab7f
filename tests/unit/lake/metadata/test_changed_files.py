"""Which data files tell what changed: never one too few, and none that a delete file cannot be about."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from sqb.lake.metadata.avro_records import AvroHeader
from sqb.lake.metadata.changed_files import FileComparison, TableLayout, compare_files, may_share_value
from sqb.lake.metadata.file_entries import EQUALITY_DELETES, POSITION_DELETES, FileEntry, ListedManifest, ManifestList

# Spec 0 partitions nothing, spec 1 does; column 1 is a number, 2 a text, 3 was widened.
LAYOUT = TableLayout((0,), {1: "long", 2: "string"})
PATHS = 2147483546


def file(path: str, sequence: int = 1, **more: Any) -> FileEntry:
    known = {"content": 0, "spec_id": 0, "partition": "[]", "records": 10, "snapshot_id": 1, "first_row_id": None}
    return FileEntry(path, sequence_number=sequence, file_sequence_number=sequence, **{**known, **more})


def places(path: str | None, sequence: int = 2, **more: Any) -> FileEntry:
    name = more.pop("name", f"places of {path} {sequence}")
    return file(name, sequence, content=POSITION_DELETES, referenced=path, **more)


def values(sequence: int, *ids: int, **more: Any) -> FileEntry:
    return file(f"values {sequence}", sequence, content=EQUALITY_DELETES, equality_ids=ids, **more)


def bounds(column: int, low: bytes | int, high: bytes | int, nulls: int | None = 0) -> dict[str, Any]:
    raw = [struct.pack("<i", b) if isinstance(b, int) else b for b in (low, high)]
    counts = {} if nulls is None else {"null_counts": {column: nulls}}
    return {"lower_bounds": {column: raw[0]}, "upper_bounds": {column: raw[1]}, **counts}


def compare(old: dict[str, list[FileEntry]], new: dict[str, list[FileEntry]]) -> FileComparison:
    """Compare snapshots, given as their manifests by name; those of deletes begin with "d"."""
    entries = {**old, **new}

    def list_manifests(names: dict[str, Any]) -> ManifestList:
        listed = (ListedManifest(name, 0, name.startswith("d"), 1, 1, None, {}) for name in names)
        return ManifestList(AvroHeader({}, ()), tuple(listed))

    return compare_files(list_manifests(old), list_manifests(new), lambda m: entries[m.path], LAYOUT)


def names(entries: tuple[FileEntry, ...]) -> list[str]:
    return sorted(e.path for e in entries)


A, B, C = file("a"), file("b"), file("c")


def test_files_that_only_moved_to_another_manifest_are_nothing() -> None:
    assert compare({"m1": [A], "m2": [B]}, {"m3": [file("a"), file("b")]}) == FileComparison()


def test_files_that_came_and_went() -> None:
    differences = compare({"m1": [A, B]}, {"m2": [file("b"), C]})
    assert (names(differences.added), names(differences.removed)) == (["c"], ["a"])


def test_a_file_that_went_and_came_back_counts_as_both() -> None:
    differences = compare({"m1": [A]}, {"m2": [file("a", 5)]})
    assert (names(differences.added), names(differences.removed)) == (["a"], ["a"])


def test_a_file_that_is_listed_once_more_came() -> None:
    differences = compare({"m1": [A]}, {"m2": [A, A]})
    assert (names(differences.added), differences.removed) == (["a"], ())


def test_a_delete_that_names_its_file() -> None:
    differences = compare({"m1": [A, B]}, {"m1": [A, B], "d1": [places("a")]})
    assert (names(differences.hidden_now), differences.hidden_then, differences.added, differences.removed) == (
        ["a"],
        (),
        (),
        (),
    )
    # The other file has deletes too, but the same.
    remaining = [places("b")]
    differences = compare(
        {"m1": [A, B], "d0": remaining, "d1": [places("a")]}, {"m1": [A, B], "d0": remaining, "d2": [places("a", 3)]}
    )
    assert (names(differences.hidden_now), names(differences.hidden_then)) == (["a"], ["a"])


def test_the_bounds_of_paths_name_a_file_too() -> None:
    delete = places(None, name="x", **bounds(PATHS, b"a", b"a"))
    assert names(compare({"m1": [A, B]}, {"m1": [A, B], "d1": [delete]}).hidden_now) == ["a"]
    wide = places(None, name="x", **bounds(PATHS, b"b", b"bz"))
    assert names(compare({"m1": [A, B, C]}, {"m1": [A, B, C], "d1": [wide]}).hidden_now) == ["b"]


def test_deletes_of_a_partition() -> None:
    here, there = file("h", spec_id=1, partition="[1]"), file("t", spec_id=1, partition="[2]")
    other = file("o", spec_id=2, partition="[1]")
    all_files = {"m1": [here, there, other]}
    for delete in (places(None, spec_id=1, partition="[1]"), values(9, 1, spec_id=1, partition="[1]")):
        assert names(compare(all_files, {**all_files, "d1": [delete]}).hidden_now) == ["h"]
    # Of a spec that partitions nothing, values are for all files, and places for those of the spec.
    assert names(compare(all_files, {**all_files, "d1": [values(9, 1)]}).hidden_now) == ["h", "o", "t"]
    assert not compare(all_files, {**all_files, "d1": [places(None)]}).hidden_now


def test_values_hide_rows_of_earlier_files_only() -> None:
    files = {"m1": [file("a", 4), file("b", 5), file("c", 6)]}
    assert names(compare(files, {**files, "d1": [values(5, 1)]}).hidden_now) == ["a"]


def test_a_delete_that_went_gives_rows_back() -> None:
    differences = compare({"m1": [A], "d1": [places("a")]}, {"m1": [A]})
    assert (names(differences.hidden_then), differences.hidden_now) == (["a"], ())


def test_vectors_in_one_file_are_told_apart() -> None:
    first, second = places("a", name="puffin", offset=4), places("b", name="puffin", offset=90)
    differences = compare({"m1": [A, B], "d1": [first]}, {"m1": [A, B], "d2": [first, second]})
    assert (names(differences.hidden_now), differences.hidden_then) == (["b"], ())


@pytest.mark.parametrize(
    ("column", "delete", "held", "shared"),
    [
        (1, bounds(1, 5, 9), bounds(1, 10, 20), False),
        (1, bounds(1, 5, 10), bounds(1, 10, 20), True),
        (1, bounds(1, -5, -1), bounds(1, 0, 20), False),
        (1, bounds(1, 5, 9, nulls=1), bounds(1, 10, 20, nulls=1), True),
        (1, bounds(1, 5, 9, nulls=1), bounds(1, 10, 20, nulls=0), False),
        (1, bounds(1, 5, 9, nulls=1), bounds(1, 10, 20, nulls=None), True),
        (1, bounds(1, 5, 9), {}, True),
        (2, bounds(2, b"a", b"b"), bounds(2, b"c", b"d"), False),
        # What is not ASCII is not in the same order for everybody.
        (2, bounds(2, b"a", b"b"), bounds(2, "é".encode(), "ü".encode()), True),
        (3, bounds(3, 5, 9), bounds(3, 10, 20), True),
    ],
)
def test_values_by_statistics(column: int, delete: dict[str, Any], held: dict[str, Any], shared: bool) -> None:
    share_value = may_share_value(values(9, column, **delete), file("a", **held), column, LAYOUT.types.get(column))
    assert share_value is shared
