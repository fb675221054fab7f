"""Values of environments as rows and JSON, and back. No I/O here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, fields
from datetime import UTC, datetime
from typing import Any

from sqb.environments.model import Binding, Checkpoint, Environment, Journal, Move, Ref, Status, Version
from sqb.environments.state.database import Row, Value
from sqb.lake.state.rows import Fingerprint, FreshnessRow
from sqb.names import Relation

ENVIRONMENT_COLUMNS = tuple(f.name for f in fields(Environment))
CHECKPOINT_COLUMNS = tuple(f.name for f in fields(Checkpoint))
OBSERVATION_COLUMNS = ("scope", "environment", "kind", "key", "observed_at", "data")
FRESHNESS = "freshness"
FINGERPRINT = "fingerprint"
_PROMOTED = "promoted from "


def encode_time(time: datetime) -> str:
    """A time as text that sorts as times do."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def decode_time(text: str) -> datetime:
    """The time in a text."""
    return datetime.fromisoformat(text)


def encode_environment(environment: Environment) -> list[Value]:
    """An environment in the order of ENVIRONMENT_COLUMNS."""
    return [_encode_value(v) for v in astuple(environment)]


def decode_environment(row: Row) -> Environment:
    """An environment from a row in the order of ENVIRONMENT_COLUMNS."""
    name, status, created, updated, *rest = row
    return Environment(name, Status(status), decode_time(created), decode_time(updated), *rest)


def encode_checkpoint(checkpoint: Checkpoint) -> list[Value]:
    """A checkpoint in the order of CHECKPOINT_COLUMNS."""
    values = {f.name: getattr(checkpoint, f.name) for f in fields(checkpoint)}
    values["refs"] = json.dumps(dict(checkpoint.refs))
    return [_encode_value(values[name]) for name in CHECKPOINT_COLUMNS]


def decode_checkpoint(row: Row) -> Checkpoint:
    """A checkpoint from a row in the order of CHECKPOINT_COLUMNS."""
    values = dict(zip(CHECKPOINT_COLUMNS, row, strict=True))
    return Checkpoint(**{**values, "created_at": decode_time(values["created_at"]), "refs": json.loads(values["refs"])})


def encode_binding(binding: Binding) -> str:
    """A binding as JSON."""
    return json.dumps(binding.to_data(), sort_keys=True)


def decode_bindings(texts: Iterable[str]) -> list[Binding]:
    """Bindings from their JSON, in their order."""
    # One document is read faster than hundreds.
    return [Binding.from_data(data) for data in json.loads(f"[{','.join(texts)}]")]


def collect_relations(bindings: Iterable[Binding]) -> frozenset[str]:
    """The physical relations that bindings are of, and those that they read."""
    all_bindings = list(bindings)
    bound = (str(b.relation) for b in all_bindings if b.relation is not None)
    return frozenset((*bound, *(relation for b in all_bindings for relation, _ in b.reads)))


def encode_version(version: Version) -> str:
    """A version as JSON."""
    values = {f.name: getattr(version, f.name) for f in fields(version)}
    values["functions"] = dict(version.functions)
    values["relation"] = str(version.relation) if version.relation is not None else None
    values["created_at"] = encode_time(version.created_at) if version.created_at is not None else None
    return json.dumps(values)


def decode_version(text: str) -> Version:
    """A version from its JSON."""
    data = json.loads(text)
    relation, created = data["relation"], data["created_at"]
    data["relation"] = Relation.parse(relation) if relation is not None else None
    data["created_at"] = decode_time(created) if created is not None else None
    return Version(**data)


def encode_journal(journal: Journal) -> str:
    """A journal as JSON, in which bindings are named by their ids."""
    refs = {name: [ref.binding.id, ref.base, ref.location, ref.checks] for name, ref in journal.refs.items()}
    moves = [[str(move.relation), move.name, move.before] for move in journal.moves]
    checkpoint = encode_checkpoint(journal.checkpoint) if journal.checkpoint is not None else None
    environment = encode_environment(journal.environment)
    data = {"id": journal.id, "environment": environment, "refs": refs, "moves": moves, "checkpoint": checkpoint}
    return json.dumps(data)


def list_journal_bindings(text: str) -> set[str]:
    """The ids of the bindings that a journal names."""
    return {binding for binding, *_ in json.loads(text)["refs"].values()}


def decode_journal(text: str, bindings: Mapping[str, Binding]) -> Journal:
    """A journal from its JSON and the bindings that it names."""
    data = json.loads(text)
    return Journal(
        data["id"],
        decode_environment(tuple(data["environment"])),
        {name: Ref(bindings[binding], *rest) for name, (binding, *rest) in data["refs"].items()},
        tuple(Move(Relation.parse(relation), name, before) for relation, name, before in data["moves"]),
        decode_checkpoint(_complete_checkpoint(data["checkpoint"])) if data["checkpoint"] is not None else None,
    )


def _complete_checkpoint(values: Sequence[Any]) -> Row:
    """A checkpoint in a journal that an older sqb has not finished: it says in words alone what was promoted."""
    if len(values) == len(CHECKPOINT_COLUMNS):
        return tuple(values)
    detail = values[CHECKPOINT_COLUMNS.index("detail")]
    return (*values, detail.removeprefix(_PROMOTED).partition(":")[0] if detail.startswith(_PROMOTED) else "")


def encode_freshness(rows: Iterable[FreshnessRow]) -> list[Sequence[Value]]:
    """The latest observation of each source, as kind, key, time and data."""
    latest = keep_latest((json.dumps(row.key), encode_time(row.observed_at), row) for row in rows)
    return [(FRESHNESS, key, at, _encode_observation(row)) for key, (at, row) in latest.items()]


def encode_fingerprints(rows: Iterable[Fingerprint]) -> list[Sequence[Value]]:
    """The latest fingerprint of each node, as kind, key, time and data."""
    latest = keep_latest((json.dumps(row.key), encode_time(row.ts), row) for row in rows)
    return [(FINGERPRINT, key, at, _encode_observation(row)) for key, (at, row) in latest.items()]


def decode_freshness(text: str) -> FreshnessRow:
    """An observation of a source from its JSON."""
    data = json.loads(text)
    return FreshnessRow(**{**data, "observed_at": decode_time(data["observed_at"])})


def decode_fingerprint(text: str) -> Fingerprint:
    """A fingerprint from its JSON."""
    data = json.loads(text)
    return Fingerprint(**{**data, "ts": decode_time(data["ts"])})


def keep_latest(rows: Iterable[tuple[str, str, Any]]) -> dict[str, tuple[str, Any]]:
    """Of rows with a key and a time the latest of each key; of equal times the one that comes last."""
    latest: dict[str, tuple[str, Any]] = {}
    for key, at, row in rows:
        if key not in latest or at >= latest[key][0]:
            latest[key] = (at, row)
    return latest


def _encode_observation(row: FreshnessRow | Fingerprint) -> str:
    return json.dumps({key: _encode_value(value) for key, value in asdict(row).items()})


def _encode_value(value: Any) -> Any:
    match value:
        case datetime():
            return encode_time(value)
        case Status():
            return value.value
        case _:
            return value
