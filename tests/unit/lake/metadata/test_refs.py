"""Branches, tags, snapshots and times resolved from a metadata document."""

from __future__ import annotations

from typing import Any

from sqb.lake.metadata.refs import find_state_at_time, find_state_at_version

FIELD = {"id": 1, "name": "id", "required": False, "type": "long"}
NOTE = {"id": 2, "name": "note", "required": False, "type": "string"}
DOCUMENT: dict[str, Any] = {
    "table-uuid": "u",
    "current-schema-id": 1,
    "schemas": [{"schema-id": 0, "fields": [FIELD]}, {"schema-id": 1, "fields": [FIELD, NOTE]}],
    "snapshots": [
        {"snapshot-id": 11, "timestamp-ms": 1000, "schema-id": 0},
        {"snapshot-id": 12, "timestamp-ms": 2000, "schema-id": 1},
    ],
    "refs": {
        "main": {"snapshot-id": 12, "type": "branch"},
        "audit": {"snapshot-id": 11, "type": "branch"},
        "monday": {"snapshot-id": 11, "type": "tag"},
    },
    "snapshot-log": [{"snapshot-id": 11, "timestamp-ms": 1000}, {"snapshot-id": 12, "timestamp-ms": 2000}],
}


def names(state: Any) -> tuple[int, list[str], list[str]]:
    return state.snapshot_id, [c.name for c in state.columns], [c.name for c in state.snapshot_columns]


def test_a_tag_and_a_snapshot_have_their_columns_and_a_branch_those_of_today() -> None:
    assert names(find_state_at_version(DOCUMENT, "monday")) == (11, ["id"], ["id"])
    assert names(find_state_at_version(DOCUMENT, "11")) == (11, ["id"], ["id"])
    assert names(find_state_at_version(DOCUMENT, "audit")) == (11, ["id", "note"], ["id"])
    assert names(find_state_at_version(DOCUMENT, "main")) == (12, ["id", "note"], ["id", "note"])
    assert find_state_at_version(DOCUMENT, "gone") is None and find_state_at_version(DOCUMENT, "99") is None


def test_a_time_is_one_of_the_sessions_zone() -> None:
    assert names(find_state_at_time(DOCUMENT, "1970-01-01 00:00:01.500", "UTC"))[0] == 11
    assert names(find_state_at_time(DOCUMENT, "1970-01-01T01:00:02", "Europe/Berlin"))[0] == 12
    assert names(find_state_at_time(DOCUMENT, "1970-01-01 02:00:01", "+02:00"))[0] == 11
    assert find_state_at_time(DOCUMENT, "1970-01-01 00:00:00", "UTC") is None
    assert (
        find_state_at_time(DOCUMENT, "soon", "UTC") is None
        and find_state_at_time(DOCUMENT, "2024-01-01", "No/Where") is None
    )
