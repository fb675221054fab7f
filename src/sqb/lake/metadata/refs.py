"""A table as it is at a branch, a tag, a snapshot or a time, read from its metadata alone, as Iceberg resolves them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from sqb.lake.metadata.table_state import parse_state
from sqb.lake.port import TableState


def find_state_at_version(document: Mapping[str, Any], version: str) -> TableState | None:
    """The table at a snapshot, a tag or a branch; a branch is read with the columns that the table has now."""
    if version.isdigit():
        return _build_state_at(document, int(version), branch=False)
    ref = (document.get("refs") or {}).get(version)
    if not isinstance(ref, Mapping):
        return None
    return _build_state_at(document, ref.get("snapshot-id"), branch=ref.get("type") == "branch")


def find_state_at_time(document: Mapping[str, Any], text: str, zone: str) -> TableState | None:
    """The table as it was at a time; None where it was not there yet, or the time cannot be parsed."""
    moment = _parse_milliseconds(text, zone)
    log = document.get("snapshot-log") or ()
    before = [entry for entry in log if moment is not None and entry["timestamp-ms"] <= moment]
    return _build_state_at(document, before[-1]["snapshot-id"], branch=False) if before else None


def _build_state_at(document: Mapping[str, Any], snapshot_id: int | None, branch: bool) -> TableState | None:
    snapshots = document.get("snapshots") or ()
    snapshot = next((s for s in snapshots if s["snapshot-id"] == snapshot_id), None)
    if snapshot is None or "view-uuid" in document:
        return None
    current = document.get("current-schema-id", 0)
    schema = current if branch else snapshot.get("schema-id", current)
    main = {"main": {"snapshot-id": snapshot_id, "type": "branch"}}
    return parse_state({**document, "refs": main, "current-snapshot-id": snapshot_id, "current-schema-id": schema})


def _parse_milliseconds(text: str, zone: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.strip())
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=_parse_zone(zone))
        return int((aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
    except (ValueError, OverflowError, KeyError):
        return None


def _parse_zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if name[:1] in "+-":
        hours, _, minutes = name[1:].partition(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-offset if name[0] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError) as error:
        raise ValueError(name) from error
