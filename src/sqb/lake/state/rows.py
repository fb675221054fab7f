"""The state tables: what a build leaves behind for people and for later plans, as values.

They only ever grow; the latest row of an identity wins. Nothing here reads or writes: `tables` does it on Iceberg,
the lake in memory that tests use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Generic, TypeVar

from sqb.errors.lake import NewerState
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import IDENTITY_VERSION, CommitIdentity

STATE_VERSION = 1
VERSION_PROPERTY = "sqb.state_version"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a node was when it was last built in a schema."""

    node_type: str
    node_name: str
    target_schema: str
    target_name: str
    run_id: str
    local_hash: str
    version_hash: str
    schema_hash: str
    definition: str
    metadata: str
    ts: datetime

    @property
    def key(self) -> FingerprintKey:
        return (self.node_type, self.node_name, self.target_schema)


@dataclass(frozen=True, slots=True)
class FreshnessRow:
    """A version of a source's data, as it was seen by one run."""

    source_name: str
    target_schema: str
    run_id: str
    strategy: str
    value_kind: str
    data_version: str
    observed_at: datetime

    @property
    def key(self) -> tuple[str, str]:
        return (self.source_name, self.target_schema)


# The status of what a loader returned, written before its rows are published: it counts once their commit is there.
STAGED = "staged"


@dataclass(frozen=True, slots=True)
class NodeResult:
    """How one node of one run ended."""

    node_type: str
    node_name: str
    target_schema: str
    run_id: str
    status: str
    payload: str
    metadata: str
    error_message: str | None
    ts: datetime


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that violates a check, as JSON; None for a check that is not about single rows."""

    node_name: str
    target_schema: str
    run_id: str
    check_text: str
    severity: str
    row_json: str | None
    ts: datetime


FingerprintKey = tuple[str, str, str]
Row = TypeVar("Row", Fingerprint, FreshnessRow, NodeResult, FailedRow)


@dataclass(frozen=True, slots=True)
class StateTable(Generic[Row]):
    """A state table: its name in every target schema, the value of a row, and the column that orders rows in time."""

    name: str
    row: type[Row]
    time: str
    # The columns of an identity, whose latest row is the one that counts; without them rows only grow old.
    identity: tuple[str, ...]
    # Columns that distinguish rows of one identity when old ones go: by their values, and whether they have any.
    retained_by: tuple[str, ...] = ()
    retained_by_presence: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self.row))

    def get_relation(self, schema: str) -> Relation:
        return Relation(schema, self.name)

    def group_by_schema(self, rows: Iterable[Row]) -> Mapping[str, Sequence[Row]]:
        """The rows of each target schema, in their order."""
        grouped: dict[str, list[Row]] = {}
        for row in rows:
            grouped.setdefault(row.target_schema, []).append(row)
        return grouped


FINGERPRINTS = StateTable("_sqlbuild_fingerprints", Fingerprint, "ts", ("node_type", "node_name", "target_schema"))
FRESHNESS = StateTable("_sqlbuild_source_freshness", FreshnessRow, "observed_at", ("source_name", "target_schema"))
# The last result that did something is what a node remembers, however often it failed or had nothing to do since.
NODE_RESULTS = StateTable(
    "_sqlbuild_node_results",
    NodeResult,
    "ts",
    ("node_type", "node_name", "target_schema"),
    retained_by=("status",),
    retained_by_presence=("payload",),
)
FAILURES = StateTable("_sqlbuild_failures", FailedRow, "ts", ())


def find_latest_fingerprints(rows: Iterable[Fingerprint]) -> dict[FingerprintKey, Fingerprint]:
    """The latest row of each node and schema; of two at one time the later in order."""
    latest: dict[FingerprintKey, Fingerprint] = {}
    for row in rows:
        known = latest.get(row.key)
        if known is None or row.ts >= known.ts:
            latest[row.key] = row
    return latest


def find_latest_freshness(rows: Iterable[FreshnessRow]) -> dict[tuple[str, str], FreshnessRow]:
    """The latest observation of each source and schema; of two at one time the later in order."""
    latest: dict[tuple[str, str], FreshnessRow] = {}
    for row in rows:
        known = latest.get(row.key)
        if known is None or row.observed_at >= known.observed_at:
            latest[row.key] = row
    return latest


def refuse_newer_state(relation: Relation, properties: Mapping[str, str]) -> None:
    """Refuse a state table whose rows this version of sqb may not understand."""
    _refuse_newer(relation, "state", properties.get(VERSION_PROPERTY, "0"), STATE_VERSION)


def refuse_newer_identity(relation: Relation, identity: CommitIdentity) -> None:
    """Refuse a table whose commit says of its rows what this version of sqb may not understand."""
    _refuse_newer(relation, "an identity", identity.identity_version or "0", IDENTITY_VERSION)


def _refuse_newer(relation: Relation, what: str, version: str, supported: int) -> None:
    if version == "0" or (version.isdecimal() and int(version) <= supported):
        return
    raise NewerState(
        f"{relation} has {what} of version {version}, but this sqb knows versions up to {supported}",
        hint="upgrade sqb to the version that the others who use this lake have",
    )
