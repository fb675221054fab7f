"""The cache of values derived from the catalog's pointers, kept between runs; always safe to delete.

A metadata file never changes, so what one says can be kept for as long as the catalog points to it. The files here hold
a header line and one line per entry, and an entry is decoded only when it is asked for. A file that is damaged or of
another format is as good as none, and a cache that cannot be written does not fail a command.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqb.lake.port import Columns, TableState
from sqb.lake.state.rows import Fingerprint, FreshnessRow
from sqb.plan.commit_identity import CommitIdentity

_TABLES_FORMAT = "sqb table states 5"
_FINGERPRINTS_FORMAT = "sqb fingerprints 1"
_FRESHNESS_FORMAT = "sqb freshness 1"
_ANSWERS_FORMAT = "sqb answers 1"
# A file without its last line was cut off.
_END = "end"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Cache:
    """The caches of one lake, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._states = _Entries(folder / "tables", _TABLES_FORMAT)
        self._fingerprints = _Entries(folder / "fingerprints", _FINGERPRINTS_FORMAT)
        self._freshness = _Entries(folder / "freshness", _FRESHNESS_FORMAT)
        self._answers = _Entries(folder / "answers", _ANSWERS_FORMAT)

    def get_states(self, locations: Iterable[str]) -> Mapping[str, TableState]:
        """The table states that are known, by the location of their metadata."""
        texts = self._states.get(locations)
        try:
            # Columns stay text; and one call to the parser for all the rest is much quicker than one each.
            lines = [text.split("\t") for text in texts.values()]
            values = json.loads(f"[{','.join(line[0] for line in lines)}]")
            return {at: _decode_state(v, line[1:]) for at, v, line in zip(texts, values, lines, strict=True)}
        except (TypeError, ValueError, IndexError, AttributeError):
            self._states.clear()
            return {}

    def put_states(self, states: Mapping[str, TableState], live: Container[str] | None = None) -> None:
        """Add table states, and forget those at locations that are not in `live`."""
        self._states.put({location: _encode_state(state) for location, state in states.items()}, live)

    def get_fingerprints(self, schema: str, location: str) -> Sequence[Fingerprint] | None:
        """The latest fingerprints of a schema, if they are known for its state table at this location."""
        text = self._fingerprints.get([schema]).get(schema)
        try:
            cached_location, cached_rows = json.loads(text) if text else (None, ())
            if cached_location != location:
                return None
            return [_decode_fingerprint(*strings, ts=moment) for *strings, moment in cached_rows]
        except (TypeError, ValueError, OverflowError):
            self._fingerprints.clear()
            return None

    def put_fingerprints(self, schema: str, location: str, rows: Iterable[Fingerprint]) -> None:
        """Cache the latest fingerprints of a schema."""
        values = [[*_encode_fingerprint(row), _encode_time(row.ts)] for row in rows]
        self._fingerprints.put({schema: json.dumps([location, values], separators=(",", ":"))})

    def get_freshness(self, schema: str, location: str) -> Sequence[FreshnessRow] | None:
        """The latest observations of a schema, if they are known for its state table at this location."""
        text = self._freshness.get([schema]).get(schema)
        try:
            cached_location, cached_rows = json.loads(text) if text else (None, ())
            if cached_location != location:
                return None
            make: Callable[..., FreshnessRow] = FreshnessRow
            return [make(*strings, _EPOCH + timedelta(microseconds=moment)) for *strings, moment in cached_rows]
        except (TypeError, ValueError, OverflowError):
            self._freshness.clear()
            return None

    def put_freshness(self, schema: str, location: str, rows: Iterable[FreshnessRow]) -> None:
        """Cache the latest observations of sources of a schema."""
        values = [
            [
                r.source_name,
                r.target_schema,
                r.run_id,
                r.strategy,
                r.value_kind,
                r.data_version,
                _encode_time(r.observed_at),
            ]
            for r in rows
        ]
        self._freshness.put({schema: json.dumps([location, values], separators=(",", ":"))})

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


class _Entries:
    """One cache file: keys and the text that is kept for each, which has no line breaks."""

    def __init__(self, path: Path, header: str) -> None:
        self._path = path
        self._header = header
        self._lines: dict[str, str] | None = None
        self._changed = False
        self._lock = threading.Lock()

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        with self._lock:
            lines = self._load()
            return {key: line for key in keys if (line := lines.get(key)) is not None}

    def put(self, values: Mapping[str, str], live: Container[str] | None = None) -> None:
        with self._lock:
            lines = self._load()
            stale = [key for key in lines if key not in live] if live is not None else []
            for key in stale:
                del lines[key]
            lines.update((key, text) for key, text in values.items() if "\t" not in key and "\n" not in key)
            self._changed = True

    def clear(self) -> None:
        with self._lock:
            self._lines = {}

    def save(self) -> None:
        with self._lock:
            if not self._changed or self._lines is None:
                return
            lines = [self._header, *(f"{key}\t{line}" for key, line in self._lines.items()), _END]
            with suppress(OSError):
                replace_file(self._path, "\n".join(lines))
            self._changed = False

    def _load(self) -> dict[str, str]:
        if self._lines is None:
            self._lines = self._read()
        return self._lines

    def _read(self) -> dict[str, str]:
        try:
            header, *lines, end = self._path.read_text(encoding="utf-8").split("\n")
            if header != self._header or end != _END:
                return {}
            return {key: value for key, _, value in (line.partition("\t") for line in lines)}
        except (OSError, ValueError):
            return {}


def replace_file(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of the old text or all of the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _encode_time(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _decode_fingerprint(*strings: Any, ts: int) -> Fingerprint:
    make: Callable[..., Fingerprint] = Fingerprint
    return make(*strings, _EPOCH + timedelta(microseconds=ts))


def _encode_fingerprint(row: Fingerprint) -> tuple[str, ...]:
    return (
        row.node_type,
        row.node_name,
        row.target_schema,
        row.target_name,
        row.run_id,
        row.local_hash,
        row.version_hash,
        row.schema_hash,
        row.definition,
        row.metadata,
    )


def _encode_state(state: TableState) -> str:
    identity = state.identity.to_properties()
    values = [
        state.uuid,
        state.is_view,
        state.location,
        state.snapshot_id,
        state.same_rows,
        state.schema_id,
        state.columns_token,
        state.rows,
        identity,
        state.drifted,
        dict(state.properties) if state.properties != identity else None,
        state.last_identity.to_properties(),
        list(state.former_columns),
        state.rows_ms,
        state.made_ms,
    ]
    columns = (state.columns, state.snapshot_columns, *state.former_columns.values())
    return "\t".join((json.dumps(values, separators=(",", ":")), *(c.text for c in columns)))


def _decode_state(values: list[Any], columns: list[str]) -> TableState:
    uuid, is_view, location, snapshot_id, same_rows, schema_id, token, rows, identity, *drift = values
    drifted, properties, left, former, rows_ms, made_ms = drift
    now, at_snapshot, *before = columns
    decoded = Columns(now)
    return TableState(
        uuid,
        is_view,
        location,
        snapshot_id,
        tuple(same_rows),
        schema_id,
        decoded if now == at_snapshot else Columns(at_snapshot),
        decoded,
        token,
        rows,
        CommitIdentity.from_properties(identity),
        drifted,
        identity if properties is None else properties,
        CommitIdentity.from_properties(left),
        {key: Columns(text) for key, text in zip(former, before, strict=True)},
        rows_ms,
        made_ms,
    )
