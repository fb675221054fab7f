"""The data files and delete files of a snapshot, as its manifests list them and as they can be listed once more.

Sequence numbers, snapshots and row ids that an entry takes over from its manifest are filled in, so that an entry means
the same in a manifest of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqb.lake.metadata.avro_records import AvroHeader, AvroRecord, encode_field, read_records, write_records

_PATH, _LENGTH, _SPEC, _CONTENT, _SEQUENCE, _MIN_SEQUENCE, _SNAPSHOT = 500, 501, 502, 517, 515, 516, 503
_EXISTING_FILES, _EXISTING_ROWS, _FIRST_ROW = 505, 513, 520
# Files and rows that a manifest added or deleted.
_ZEROS = (504, 506, 512, 514)
_LISTED = (_PATH, _SPEC, _CONTENT, _SEQUENCE, _SNAPSHOT, _FIRST_ROW)

_STATUS, _ENTRY_SNAPSHOT, _DATA_FILE, _ENTRY_SEQUENCE, _FILE_SEQUENCE = 0, 1, 2, 3, 4
_EXISTING, _DELETED = 0, 2
_FILE_CONTENT, _FILE_PATH, _PARTITION, _RECORDS = 134, 100, 102, 103
_VALUES, _NULLS, _LOWER, _UPPER = 109, 110, 125, 128
_EQUALITY_IDS, _FILE_FIRST_ROW, _REFERENCED, _OFFSET = 135, 142, 143, 144
_HEAD = (_STATUS, _ENTRY_SNAPSHOT, _ENTRY_SEQUENCE, _FILE_SEQUENCE)
_BODY = (_FILE_CONTENT, _FILE_PATH, _PARTITION, _RECORDS, _EQUALITY_IDS, _FILE_FIRST_ROW, _REFERENCED, _OFFSET)
_STATISTICS = (_VALUES, _NULLS, _LOWER, _UPPER)

POSITION_DELETES, EQUALITY_DELETES = 1, 2


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest as a snapshot lists it."""

    path: str
    spec_id: int
    has_deletes: bool
    sequence_number: int
    snapshot_id: int
    first_row_id: int | None
    raw: Mapping[int, bytes] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ManifestList:
    """The manifests of a snapshot."""

    header: AvroHeader
    manifests: tuple[ListedManifest, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FileEntry:
    """A file that a snapshot lists: rows, or what hides rows of other files."""

    path: str
    content: int
    spec_id: int
    # The same text for the same values of the same spec.
    partition: str
    records: int
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    # The id of its first row; None where rows have none.
    first_row_id: int | None
    # Of a delete file: the columns that it compares, the one data file that it is for, and its place in a Puffin file.
    equality_ids: tuple[int, ...] = ()
    referenced: str | None = None
    offset: int | None = None
    value_counts: Mapping[int, int] = field(default_factory=dict, repr=False)
    null_counts: Mapping[int, int] = field(default_factory=dict, repr=False)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    header: AvroHeader | None = field(default=None, repr=False)
    raw: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def identity(self) -> tuple[str, int | None, int]:
        """What tells it from other entries: a file that was removed and added once more is another one."""
        return self.path, self.offset, self.sequence_number


def read_manifest_list(content: bytes) -> ManifestList:
    """The manifests that a list of manifests holds."""
    header, records = read_records(content, _LISTED)
    return ManifestList(header, tuple(_build_listed(record) for record in records))


def _build_listed(record: AvroRecord) -> ListedManifest:
    values = record.values
    return ListedManifest(
        values[_PATH],
        values[_SPEC],
        values.get(_CONTENT) == 1,
        values.get(_SEQUENCE) or 0,
        values[_SNAPSHOT],
        values.get(_FIRST_ROW),
        record.raw,
    )


def read_file_entries(content: bytes, manifest: ListedManifest) -> list[FileEntry]:
    """The files that a manifest lists, without those that it says are gone."""
    header, records = read_records(content, (*_HEAD, *_BODY, *_STATISTICS), inner=_DATA_FILE)
    entries, next_row = [], manifest.first_row_id
    for record in records:
        if record.values[_STATUS] == _DELETED:
            continue
        # As Iceberg does it: in a manifest without row ids no file has any, whatever it says.
        row_id = record.values.get(_FILE_FIRST_ROW) if manifest.first_row_id is not None else None
        if row_id is None and next_row is not None and not manifest.has_deletes:
            row_id, next_row = next_row, next_row + record.values[_RECORDS]
        entries.append(_build_entry(record, manifest, header, row_id))
    return entries


def _build_entry(record: AvroRecord, manifest: ListedManifest, header: AvroHeader, row_id: int | None) -> FileEntry:
    values = record.values
    snapshot, sequence, file_sequence = (values.get(i) for i in _HEAD[1:])
    partition = values[_PARTITION]
    return FileEntry(
        path=values[_FILE_PATH],
        content=values.get(_FILE_CONTENT) or 0,
        spec_id=manifest.spec_id,
        partition=repr([partition[i] for i in range(len(partition))]),
        records=values[_RECORDS],
        snapshot_id=manifest.snapshot_id if snapshot is None else snapshot,
        sequence_number=manifest.sequence_number if sequence is None else sequence,
        file_sequence_number=manifest.sequence_number if file_sequence is None else file_sequence,
        first_row_id=row_id,
        equality_ids=tuple(values.get(_EQUALITY_IDS) or ()),
        referenced=values.get(_REFERENCED),
        offset=values.get(_OFFSET),
        value_counts=values.get(_VALUES) or {},
        null_counts=values.get(_NULLS) or {},
        lower_bounds=values.get(_LOWER) or {},
        upper_bounds=values.get(_UPPER) or {},
        header=header,
        raw=record.raw,
    )


def write_manifests(entries: Sequence[FileEntry], write: Callable[[bytes], str]) -> list[dict[int, int | str | None]]:
    """Write manifests that list these files, and nothing else, and say of each what a list of manifests says."""
    groups: dict[tuple[str, int, bool], list[FileEntry]] = {}
    for entry in entries:
        assert entry.header is not None
        # Only numbers can be inherited that all files of a manifest have alike, and only those of before version 2.
        if not entry.header.has_field(_ENTRY_SEQUENCE) and entry.sequence_number:
            raise ValueError("a manifest of version 1 lists files with sequence numbers")
        groups.setdefault((entry.header.schema, entry.spec_id, has_written_row_ids(entry)), []).append(entry)
    listed = []
    for (_, spec_id, has_ids), group in groups.items():
        header = group[0].header
        assert header is not None
        content = write_records(header, [_encode_entry(header, e, has_ids) for e in group])
        sequences = [e.sequence_number for e in group]
        listed.append(
            {
                **dict.fromkeys(_ZEROS, 0),
                _PATH: write(content),
                _LENGTH: len(content),
                _SPEC: spec_id,
                _CONTENT: 0,
                _SEQUENCE: max(sequences),
                _MIN_SEQUENCE: min(sequences),
                _SNAPSHOT: group[0].snapshot_id,
                _EXISTING_FILES: len(group),
                _EXISTING_ROWS: sum(e.records for e in group),
                _FIRST_ROW: min(e.first_row_id or 0 for e in group) if has_ids else None,
            }
        )
    return listed


def has_written_row_ids(entry: FileEntry) -> bool:
    """Whether the rows of a file have ids, and a manifest like the one that it was read from can say so."""
    return entry.first_row_id is not None and entry.header is not None and entry.header.has_field(_FILE_FIRST_ROW)


def _encode_entry(header: AvroHeader, entry: FileEntry, has_ids: bool) -> dict[int, bytes]:
    """An entry of a file that was there before, with everything that it took over from its manifest."""
    explicit: dict[int, int | None] = {
        _STATUS: _EXISTING,
        _ENTRY_SNAPSHOT: entry.snapshot_id,
        _ENTRY_SEQUENCE: entry.sequence_number,
        _FILE_SEQUENCE: entry.file_sequence_number,
        _FILE_FIRST_ROW: entry.first_row_id if has_ids else None,
    }
    leaves = [leaf for f in header.fields for leaf in f.fields or (f,)]
    return {
        leaf.id: encode_field(leaf, explicit[leaf.id]) if leaf.id in explicit else entry.raw[leaf.id] for leaf in leaves
    }


def write_manifest_list(
    like: ManifestList, added: Sequence[Mapping[int, int | str | None]], kept: Sequence[ListedManifest]
) -> bytes:
    """A list of manifests that are new, and of those of another list as they stand there."""
    rows = [{f.id: encode_field(f, manifest.get(f.id)) for f in like.header.fields} for manifest in added]
    return write_records(like.header, [*rows, *(manifest.raw for manifest in kept)])
