"""The cache of values derived from the catalog's pointers, kept between runs; always safe to delete.

A metadata file never changes, so what one says can be kept for as long as the catalog points to it. An entry is decoded
only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sqb.cache import codec
from sqb.cache.files import EntryFile, stamp_code
from sqb.lake.port import TableState
from sqb.lake.state.rows import Fingerprint, FreshnessRow
from sqb.light_dataclass import dataclass

T = TypeVar("T")
# The code that decides what is read from metadata, and how it is cached.
_CODE = (
    "cache",
    "lake/metadata",
    "lake/port.py",
    "lake/state/rows.py",
    "plan/recorded/commit_identity.py",
    "plan/freshness.py",
)


@dataclass(frozen=True, slots=True)
class _Fingerprints:
    """The latest fingerprints of a schema, as its state table had them at one location."""

    location: str
    rows: tuple[Fingerprint, ...]


@dataclass(frozen=True, slots=True)
class _Freshness:
    """The latest observations of the sources of a schema, as its state table had them at one location."""

    location: str
    rows: tuple[FreshnessRow, ...]


class Cache:
    """The caches of one lake, in one folder."""

    def __init__(self, folder: Path) -> None:
        stamp = stamp_code(*_CODE)
        self._states = EntryFile(folder / "tables", stamp)
        self._fingerprints = EntryFile(folder / "fingerprints", stamp)
        self._freshness = EntryFile(folder / "freshness", stamp)
        self._answers = EntryFile(folder / "answers", stamp)

    def get_states(self, locations: Iterable[str]) -> Mapping[str, TableState]:
        """The table states that are known, by the location of their metadata."""
        return _decode_entries(self._states, TableState, locations)

    def put_states(self, states: Mapping[str, TableState], live: Container[str] | None = None) -> None:
        """Add table states, and forget those at locations that are not in `live`."""
        self._states.put({location: codec.encode(state) for location, state in states.items()}, live)

    def get_fingerprints(self, schema: str, location: str) -> Sequence[Fingerprint] | None:
        """The latest fingerprints of a schema, if they are known for its state table at this location."""
        cached = _decode_entries(self._fingerprints, _Fingerprints, (schema,)).get(schema)
        return cached.rows if cached is not None and cached.location == location else None

    def put_fingerprints(self, schema: str, location: str, rows: Iterable[Fingerprint]) -> None:
        """Cache the latest fingerprints of a schema."""
        self._fingerprints.put({schema: codec.encode(_Fingerprints(location, tuple(rows)))})

    def get_freshness(self, schema: str, location: str) -> Sequence[FreshnessRow] | None:
        """The latest observations of a schema, if they are known for its state table at this location."""
        cached = _decode_entries(self._freshness, _Freshness, (schema,)).get(schema)
        return cached.rows if cached is not None and cached.location == location else None

    def put_freshness(self, schema: str, location: str, rows: Iterable[FreshnessRow]) -> None:
        """Cache the latest observations of sources of a schema."""
        self._freshness.put({schema: codec.encode(_Freshness(location, tuple(rows)))})

    def get_answers(self, keys: Iterable[str]) -> Mapping[str, str]:
        """The answers that were kept for questions about data; each says itself what it depends on."""
        return self._answers.get(keys)

    def put_answers(self, answers: Mapping[str, str]) -> None:
        """Cache answers to questions, replacing earlier ones."""
        self._answers.put(answers)
        self._answers.save()

    def save(self) -> None:
        """Write what was added since the last time."""
        self._states.save()
        self._fingerprints.save()
        self._freshness.save()


def _decode_entries(file: EntryFile, kind: type[T], keys: Iterable[str]) -> dict[str, T]:
    texts = file.get(keys)
    try:
        return dict(zip(texts, codec.decode_all(kind, texts.values()), strict=True))
    except codec.Undecodable:
        file.clear()
        return {}
