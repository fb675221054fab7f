"""What a metadata document says, on documents such as Spark and others write."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from sqb.lake.metadata.table_state import compute_text_token, parse_metadata, parse_state

FIELDS = [
    {"id": 1, "name": "id", "required": True, "type": "long", "doc": "the key"},
    {"id": 2, "name": "name", "required": False, "type": "string"},
]
TOTALS = {"total-records": "2", "total-data-files": "1", "total-delete-files": "0"}
OURS = {"sqb.model": "shop.orders", "sqb.run_id": "r1"}


def snapshot(number: int, parent: int | None = None, operation: str = "append", **summary: Any) -> dict[str, Any]:
    by_name = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": 1760000000000 + number,
        "manifest-list": f"/w/metadata/snap-{number}.avro",
        "schema-id": 0,
        "summary": {"operation": operation, **TOTALS, **{k.replace("_", "-"): v for k, v in summary.items()}},
    }
    return by_name if parent is None else {**by_name, "parent-snapshot-id": parent}


def ours(result: dict[str, Any], **more: str) -> dict[str, Any]:
    result["summary"].update(OURS, **{f"sqb.{k}": v for k, v in more.items()})
    return result


def table(*snapshots: dict[str, Any], **more: Any) -> dict[str, Any]:
    document = {
        "format-version": 2,
        "table-uuid": "f0c1",
        "location": "file:/w/shop/orders",
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
        "properties": {"sqb.model": "shop.orders"},
        "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else -1,
        "snapshots": list(snapshots),
        "refs": {"main": {"snapshot-id": snapshots[-1]["snapshot-id"], "type": "branch"}} if snapshots else {},
    }
    return {**document, **more}


FIRST = ours(snapshot(1, added_data_files="1", added_records="2"))


def test_plain_and_compressed() -> None:
    document = table(FIRST)
    raw = json.dumps(document).encode()
    assert parse_metadata(raw) == parse_metadata(gzip.compress(raw)) == document


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"1", b"\x1f\x8bxx"])
def test_what_is_no_document(raw: bytes) -> None:
    with pytest.raises((ValueError, TypeError, OSError, EOFError)):
        parse_metadata(raw)


def test_a_table() -> None:
    state = parse_state(table(FIRST))
    assert (state.snapshot_id, state.same_rows, state.rows) == (1, (1,), 2)
    assert state.identity.to_properties() == OURS and not state.drifted and not state.is_view
    assert [(c.name, c.type, c.id) for c in state.columns] == [("id", '"long"', 1), ("name", '"string"', 2)]


@pytest.mark.parametrize("current", [-1, None])
def test_a_table_without_snapshots(current: int | None) -> None:
    state = parse_state(table(**{"current-snapshot-id": current}))
    assert state.snapshot_id is None and state.same_rows == () and state.rows == 0 and not state.drifted


def test_a_table_of_the_first_format() -> None:
    document = table(FIRST, **{"format-version": 1, "schema": {"type": "struct", "fields": FIELDS}})
    for key in ("schemas", "current-schema-id", "refs"):
        del document[key]
    del document["snapshots"][0]["schema-id"]
    assert [c.name for c in parse_state(document).columns] == ["id", "name"]
    FIRST["schema-id"] = 0


def test_compactions_and_empty_commits_keep_the_rows() -> None:
    compacted = snapshot(2, 1, "replace", added_data_files="1", deleted_data_files="3")
    touched = ours(snapshot(3, 2), run_id="r3")
    again = snapshot(4, 3, "replace", added_data_files="1", deleted_data_files="1")
    state = parse_state(table(FIRST, compacted, touched, again))
    assert state.same_rows == (4, 3, 2, 1)
    assert state.identity.run_id == "r3" and not state.drifted


def test_the_chain_ends_at_a_change_of_rows() -> None:
    replaced = ours(snapshot(2, 1, "overwrite", added_data_files="1", deleted_data_files="1"))
    assert parse_state(table(FIRST, replaced)).same_rows == (2,)
    deleted = snapshot(2, 1, "delete", added_delete_files="1", added_position_deletes="1")
    assert parse_state(table(FIRST, deleted)).same_rows == (2,)
    uncounted = {**snapshot(2, 1), "summary": {"operation": "append"}}
    assert parse_state(table(FIRST, uncounted)).same_rows == (2,)


def test_the_chain_ends_where_the_parent_was_expired() -> None:
    assert parse_state(table(snapshot(2, 1, "replace"))).same_rows == (2,)


def test_the_chain_ends_where_columns_change() -> None:
    schemas = [{"schema-id": i, "fields": FIELDS[: 2 - i]} for i in (0, 1)]
    emptied = ours({**snapshot(2, 1, "overwrite"), "schema-id": 1})
    document = table(FIRST, emptied, schemas=schemas, **{"current-schema-id": 1})
    assert parse_state(document).same_rows == (2,)


def test_drift() -> None:
    foreign = snapshot(2, 1, added_data_files="1", added_records="1")
    state = parse_state(table(FIRST, foreign))
    assert state.drifted and not state.identity
    schemas = [{"schema-id": i, "fields": FIELDS[: 2 - i]} for i in (0, 1)]
    altered = parse_state(table(FIRST, schemas=schemas, **{"current-schema-id": 1}))
    assert altered.drifted and altered.identity.to_properties() == OURS
    assert [c.name for c in altered.columns] == ["id"] and [c.name for c in altered.snapshot_columns] == ["id", "name"]
    assert not parse_state(table(FIRST, foreign, properties={})).drifted
    rolled_back = table(FIRST, foreign, refs={"main": {"snapshot-id": 1, "type": "branch"}})
    assert not parse_state(rolled_back).drifted and parse_state(rolled_back).snapshot_id == 1


def test_deleted_rows_do_not_count() -> None:
    counted = {"total_delete_files": "1", "added_delete_files": "1"}
    position = snapshot(2, 1, "delete", total_position_deletes="1", total_equality_deletes="0", **counted)
    assert parse_state(table(FIRST, position)).rows == 1
    equality = snapshot(2, 1, "delete", total_position_deletes="0", total_equality_deletes="1", **counted)
    assert parse_state(table(FIRST, equality)).rows is None
    unknown = {**snapshot(2, 1), "summary": {"operation": "append"}}
    assert parse_state(table(FIRST, unknown)).rows is None


def test_columns_of_before_are_remembered() -> None:
    former = [{"schema-id": 4, "fields": FIELDS[:1]}, {"schema-id": 5, "fields": []}]
    value = parse_state(table(FIRST, schemas=[{"schema-id": 0, "fields": FIELDS}, *former])).former_columns
    assert {key.partition(":")[0]: [c.name for c in columns] for key, columns in value.items()} == {
        "4": [FIELDS[0]["name"]],
        "5": [],
    }
    assert parse_state(table(FIRST)).former_columns == {}


def test_equal_columns_have_equal_tokens() -> None:
    renumbered = [{**f, "id": f["id"] + 10, "doc": "other", "required": False} for f in FIELDS]
    other = parse_state(table(FIRST, schemas=[{"schema-id": 0, "fields": renumbered}]))
    assert other.columns_token == parse_state(table(FIRST)).columns_token
    swapped = parse_state(table(FIRST, schemas=[{"schema-id": 0, "fields": FIELDS[::-1]}]))
    assert swapped.columns_token != other.columns_token


def test_views_drift_by_their_text() -> None:
    document = {
        "view-uuid": "fa6c",
        "format-version": 1,
        "location": "/w/shop/v",
        "current-version-id": 1,
        "versions": [
            {
                "version-id": 1,
                "schema-id": 0,
                "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
            }
        ],
        "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
        "properties": {"sqb.model": "shop.v", "sqb.view_text": compute_text_token("SELECT 1")},
    }
    state = parse_state(document)
    assert state.is_view and not state.drifted and [c.name for c in state.columns] == ["id", "name"]
    document["versions"][0]["representations"][0]["sql"] = "SELECT 2"  # type: ignore[index]
    assert parse_state(document).drifted
