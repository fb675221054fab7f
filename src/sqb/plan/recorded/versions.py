"""The versions of inputs as they are recorded beside the rows that were made from them.

A version is a list in JSON, and this module alone knows the positions in it. What follows from a version is decided in
`observed` and `column_changes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqb.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """One version of an input, as it was when it was read.

    A table is recorded by its snapshot; a view, an expression, files and what cannot be seen by a definition.
    """

    snapshot_id: int | None = None
    content: str | None = None
    # A digest of names and types of the columns.
    columns: str = ""
    # None where an earlier sqb has not recorded it: then its columns count as the same fields.
    schema_id: int | None = None
    definition: str | None = None
    # Of a view: what it was in the columns that were read of it.
    as_read: str = ""
    # Of files: the name, size and time of each, or of many only how many they were.
    files: Any = None
    # The values that tell how fresh a source was; and what a newer sqb adds.
    values: tuple[Any, ...] = ()
    # The whole record, where it has neither form: of a newer sqb, or damaged.
    unreadable: tuple[Any, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether this is a version of a table, which has snapshots and columns."""
        return self.definition is None and not self.unreadable

    @classmethod
    def from_json(cls, record: Any) -> RecordedVersion:
        """Decode what `to_json` gave, here or in an earlier sqb; whatever else it is comes back as it was."""
        match record:
            case [int() | None as snapshot_id, str() | None as content, str(columns)]:
                return cls(snapshot_id, content, columns)
            case [int() | None as snapshot_id, str() | None as content, str(columns), int(schema_id), *values]:
                return cls(snapshot_id, content, columns, schema_id, values=tuple(values))
            case [int() | None as snapshot_id, str() | None as content, str(columns), None, value, *values]:
                return cls(snapshot_id, content, columns, values=(value, *values))
            case [str(definition), str(columns), *rest]:
                return cls._from_definition(definition, columns, rest)
            case [int(snapshot_id), _, _, *_]:
                # The janitor keeps the snapshot, whatever else is recorded.
                return cls(snapshot_id, unreadable=(record,))
            case _:
                return cls(unreadable=(record,))

    @classmethod
    def _from_definition(cls, definition: str, columns: str, rest: Sequence[Any]) -> RecordedVersion:
        match rest:
            # A value of freshness has a colon, and the digest of a view does not.
            case [str(as_read), *values] if as_read and ":" not in as_read:
                return cls(definition=definition, columns=columns, as_read=as_read, values=tuple(values))
            case [files, *values] if _is_listing(files):
                return cls(definition=definition, columns=columns, files=files, values=tuple(values))
            case _:
                return cls(definition=definition, columns=columns, values=tuple(rest))

    def to_json(self) -> Any:
        """What is written beside the rows, to be encoded as JSON."""
        if self.unreadable:
            return self.unreadable[0]
        if self.definition is not None:
            as_read = [self.as_read] if self.as_read else []
            files = [self.files] if self.files is not None else []
            return [self.definition, self.columns, *as_read, *files, *self.values]
        table = [self.snapshot_id, self.content, self.columns]
        return table if self.schema_id is None and not self.values else [*table, self.schema_id, *self.values]


def _is_listing(files: Any) -> bool:
    if isinstance(files, list):
        return all(isinstance(file, list) and len(file) == 3 for file in files)
    return isinstance(files, dict)


@lru_cache(maxsize=16_384)
def parse_sources(text: str) -> Mapping[str, RecordedVersion] | None:
    """Decode the versions that a commit says were read, by the inputs' keys; None where it does not say or is damaged.

    A plan asks for the same ones several times.
    """
    try:
        records = json.loads(text)
    except ValueError:
        return None
    return decode_sources(records) if isinstance(records, dict) else None


def decode_sources(records: Mapping[str, Any]) -> Mapping[str, RecordedVersion]:
    """Decode the versions of inputs out of a larger document in JSON."""
    return {key: RecordedVersion.from_json(record) for key, record in records.items()}


def encode_sources(versions: Mapping[str, RecordedVersion]) -> str:
    """Encode the versions that were read, by the inputs' keys, as the text that is committed with the rows."""
    records = {key: version.to_json() for key, version in versions.items()}
    return json.dumps(records, separators=(",", ":"), sort_keys=True)
