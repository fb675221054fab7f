"""What only storage can show: files left behind, old versions, delete files, summaries."""

from __future__ import annotations

import datetime
import decimal
import errno
import json
import sqlite3
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, SqliteProbe, shape, state, write
from sqb.errors.lake import CommitUnknown, Conflict, LakeError, LakeFull
from sqb.names import Relation


def summary(probe: SqliteProbe) -> dict[str, str]:
    return dict(probe.table().current_snapshot().summary.additional_properties)


def test_old_snapshots_read_with_their_old_columns(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    wanted = shape(("name", "date"), ("total", "decimal(5,2)"), ("id", "long"))
    second = write(sqlite, [[None], [None], [2]], wanted=wanted, base=first.state.base, run_id="r2")
    third = write(sqlite, [[3]], wanted=shape(("title", "long")), base=second.state.base, run_id="r3")
    assert sqlite.rows(ORDERS, first.snapshot_id) == [(1, "a")]
    assert sqlite.rows(ORDERS, second.snapshot_id) == [(None, None, 2)]
    assert sqlite.rows(ORDERS, third.snapshot_id) == [(3,)]
    assert sqlite.garbage() == set()


def test_layout_changes(sqlite: SqliteProbe) -> None:
    columns = (("id", "long"), ("day", "date"), ("region", "string"))
    values = [[1, 2], [datetime.date(2026, 1, 1), datetime.date(2026, 2, 1)], ["n", "s"]]
    layouts: list[dict[str, Any]] = [
        {},
        {"partitioned_by": ("days(day)",), "sorted_by": ("id DESC",)},
        {"partitioned_by": ("region", "bucket(4, id)"), "sorted_by": ("region", "id")},
        {"partitioned_by": ("days(day)",), "sorted_by": ("id DESC",)},
        {"partitioned_by": ("months(day)",)},
        {},
    ]
    base = None
    specs, orders = [], []
    for number, layout in enumerate(layouts):
        published = write(sqlite, values, wanted=shape(*columns, **layout), base=base, run_id=f"r{number}")
        base = published.state.base
        table = sqlite.table()
        specs.append(table.spec().spec_id)
        orders.append(table.sort_order().order_id)
        assert [str(f.transform) for f in table.spec().fields] == {
            (): [],
            ("days(day)",): ["day"],
            ("region", "bucket(4, id)"): ["identity", "bucket[4]"],
            ("months(day)",): ["month"],
        }[layout.get("partitioned_by", ())]
        assert len(table.sort_order().fields) == len(layout.get("sorted_by", ()))
        assert len(sqlite.rows(ORDERS)) == 2
        assert summary(sqlite)["total-records"] == "2"
    assert specs[1] == specs[3] and specs[0] == specs[5] and len(set(specs)) == 4
    assert orders[1] == orders[3] and orders[0] == orders[4] == 0
    assert sqlite.garbage() == set()


def test_a_partition_column_may_go(sqlite: SqliteProbe) -> None:
    wanted = shape(("id", "long"), ("region", "string"), partitioned_by=("region",), sorted_by=("region",))
    first = write(sqlite, [[1, 2], ["n", "s"]], wanted=wanted)
    second = write(sqlite, [[3]], wanted=shape(("id", "long")), base=first.state.base, run_id="r2")
    assert sqlite.rows(ORDERS) == [(3,)]
    third = write(
        sqlite,
        [[4], [5]],
        wanted=shape(("id", "long"), ("region", "long"), partitioned_by=("region",)),
        base=second.state.base,
        run_id="r3",
    )
    assert sqlite.rows(ORDERS) == [(4, 5)] and state(sqlite) == third.state


def test_summary_totals(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1, 2, 3], ["a", "b", "c"]])
    totals = summary(sqlite)
    assert (totals["total-records"], totals["total-data-files"], totals["added-records"]) == ("3", "1", "3")
    second = write(sqlite, [[1], ["a"]], base=first.state.base, run_id="r2")
    totals = summary(sqlite)
    assert (totals["total-records"], totals["deleted-records"], totals["added-records"]) == ("1", "3", "1")
    assert totals["total-data-files"] == "1" and totals["total-delete-files"] == "0"
    before = totals
    sqlite.lake.touch(ORDERS, second.state.base, SUMMARY)
    totals = summary(sqlite)
    assert {k: v for k, v in totals.items() if k.startswith("total-")} == {
        k: v for k, v in before.items() if k.startswith("total-")
    }
    assert "added-records" not in totals
    assert int(totals["total-files-size"]) == sum(t.file.file_size_in_bytes for t in sqlite.table().scan().plan_files())


def add_position_delete(probe: SqliteProbe, path: str, position: int) -> None:
    """Delete a row as an engine does that writes delete files."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
    )
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.typedef import Record

    from sqb.lake.commit.snapshot import Change, add_rows, write_draft

    class Deletes(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    table = probe.table()
    folder = Path(table.metadata.location)
    file = folder / "data" / f"{uuid.uuid4()}-deletes.parquet"
    pq.write_table(pa.table({"file_path": [path], "pos": [position]}), file)
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=str(file),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=file.stat().st_size,
    )
    remaining = add_rows(table.metadata, table.io).unchanged
    proposed = write_draft(table.metadata, table.io, Change(Operation.APPEND, unchanged=remaining), {})
    snapshot_id = proposed.snapshot.snapshot_id
    output = table.io.new_output(str(folder / "metadata" / f"{uuid.uuid4()}-m0.avro"))
    with Deletes(table.spec(), table.schema(), output, snapshot_id, "deflate") as writer:
        writer.add_entry(
            ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=entry)
        )
    from pyiceberg.manifest import write_manifest_list

    listed = str(folder / "metadata" / f"snap-{snapshot_id}-1.avro")
    with write_manifest_list(
        2, table.io.new_output(listed), snapshot_id, None, proposed.snapshot.sequence_number, "deflate"
    ) as out:
        out.add_manifests([*remaining, writer.to_manifest_file()])
    totals = dict(table.current_snapshot().summary.additional_properties)
    counts = {
        "added-delete-files": "1",
        "added-position-deletes": "1",
        "total-delete-files": "1",
        "total-position-deletes": "1",
    }
    theirs = {k: v for k, v in totals.items() if k.startswith("total-")} | counts
    made = proposed.snapshot.model_copy(
        update={"manifest_list": listed, "summary": Summary(operation=Operation.DELETE, **theirs)}
    )
    proposed.undo(table.io)
    commit(probe, made)


def commit(probe: SqliteProbe, snapshot: Any) -> None:
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    ref = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot.snapshot_id)
    probe.catalog.commit_table(probe.table(), (), (AddSnapshotUpdate(snapshot=snapshot), ref))


def test_delete_files_go_with_the_rows_they_hid(sqlite: SqliteProbe) -> None:
    write(sqlite, [[1, 2, 3], ["a", "b", "c"]])
    (task,) = sqlite.table().scan().plan_files()
    add_position_delete(sqlite, task.file.file_path, 1)
    assert sqlite.rows(ORDERS) == [(1, "a"), (3, "c")]
    seen = state(sqlite)
    assert seen.drifted and seen.rows == 2 and len(seen.same_rows) == 1
    touched = sqlite.lake.touch(ORDERS, seen.base, SUMMARY)
    assert sqlite.rows(ORDERS) == [(1, "a"), (3, "c")] and touched.state.rows == 2
    replaced = write(sqlite, [[7, 8], ["x", "y"]], base=touched.state.base, run_id="r2")
    assert sqlite.rows(ORDERS) == [(7, "x"), (8, "y")] and replaced.state.rows == 2
    totals = summary(sqlite)
    assert (totals["total-delete-files"], totals["total-position-deletes"], totals["total-records"]) == ("0", "0", "2")
    assert totals["removed-delete-files"] == "1" and totals["deleted-records"] == "3"
    assert not sqlite.table().inspect.delete_files().num_rows
    assert sqlite.rows(ORDERS, touched.snapshot_id) == [(1, "a"), (3, "c")]


def test_a_compaction_has_the_same_rows(sqlite: SqliteProbe) -> None:
    from pyiceberg.table.snapshots import Operation, Summary

    from sqb.lake.commit.snapshot import list_live_files, replace_rows, write_draft

    first = write(sqlite, [[1, 2], ["a", "b"]])
    table = sqlite.table()
    files = list_live_files(table.current_snapshot(), table.io)
    proposed = write_draft(table.metadata, table.io, replace_rows(table.metadata, table.io, files), {})
    totals = proposed.snapshot.summary.additional_properties
    commit(sqlite, proposed.snapshot.model_copy(update={"summary": Summary(operation=Operation.REPLACE, **totals)}))
    seen = state(sqlite)
    assert seen.same_rows == (proposed.snapshot.snapshot_id, first.snapshot_id)
    assert seen.identity.to_properties() == SUMMARY and not seen.drifted
    touched = sqlite.lake.touch(ORDERS, seen.base, {**SUMMARY, "sqb.run_id": "r2"})
    assert touched.state.same_rows == (touched.snapshot_id, *seen.same_rows)
    assert touched.state.identity.run_id == "r2"


def test_other_peoples_tags_and_properties_do_not_stand_in_the_way(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    sqlite.lake.fill(stage, [[2], ["b"]])
    table = sqlite.table()
    with table.manage_snapshots() as manage:
        manage.create_tag(first.snapshot_id, "kept")
    with table.transaction() as transaction:
        transaction.set_properties({"theirs": "1"})
    sqlite.lake.publish(stage, SUMMARY)
    assert sqlite.rows(ORDERS) == [(2, "b")]
    assert "kept" in sqlite.table().refs() and sqlite.properties(ORDERS)["theirs"] == "1"


def test_columns_altered_there_and_back_are_a_conflict(sqlite: SqliteProbe) -> None:
    """The table looks as it did, but the id that the stage gave to its new column is taken."""
    first = write(sqlite, [[1], ["a"]])
    wanted = shape(("id", "long"), ("name", "string"), ("total", "long"))
    stage = sqlite.lake.stage(ORDERS, wanted, first.state.base, "r2")
    sqlite.lake.fill(stage, [[1], ["a"], [5]])
    sqlite.add_column_as_stranger(ORDERS, "theirs")
    with sqlite.table().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("theirs")
    assert state(sqlite).base == first.state.base
    with pytest.raises(Conflict):
        sqlite.lake.publish(stage, SUMMARY)
    sqlite.lake.discard(stage)
    assert sqlite.rows(ORDERS) == [(1, "a")] and sqlite.garbage() == set()


@pytest.mark.parametrize("exists", [False, True])
def test_discard_leaves_nothing_behind(sqlite: SqliteProbe, exists: bool) -> None:
    sqlite.lake.ensure_schemas(["shop"])
    base = write(sqlite, [[1], ["a"]]).state.base if exists else None
    files, entries = sqlite.files(), sqlite.entries()
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, base, "r2")
    sqlite.lake.fill(stage, [[2], ["b"]])
    cut_off = Path(stage.data_path) / "part-00001.parquet"
    cut_off.write_bytes(b"half a file")
    sqlite.lake.discard(stage)
    assert sqlite.files() == files and sqlite.entries() == entries
    folders = {str(p.relative_to(sqlite.root)) for p in (sqlite.root / "data").rglob("*") if p.is_dir()}
    assert not any("r2" in folder for folder in folders)
    assert ("data/shop/orders" in folders) == exists


@pytest.mark.parametrize("meanwhile", ["moved", "dropped", "created"])
def test_a_conflict_leaves_nothing_behind(sqlite: SqliteProbe, meanwhile: str) -> None:
    sqlite.lake.ensure_schemas(["shop"])
    base = None if meanwhile == "created" else write(sqlite, [[1], ["a"]]).state.base
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, base, "r2")
    sqlite.lake.fill(stage, [[2], ["b"]])
    match meanwhile:
        case "moved":
            sqlite.append_as_stranger(ORDERS, [[9], ["z"]])
        case "dropped":
            sqlite.drop_as_stranger(ORDERS)
        case "created":
            write(sqlite, [[5], ["e"]], run_id="r3")
    left = sqlite.garbage()
    with pytest.raises(Conflict):
        sqlite.lake.publish(stage, SUMMARY)
    sqlite.lake.discard(stage)
    assert sqlite.garbage() <= left and not any("r2" in path for path in sqlite.files())


def test_publishing_leaves_nothing_of_the_stage(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    write(sqlite, [[2], ["b"]], base=first.state.base, run_id="r2")
    assert sqlite.garbage() == set() and sqlite.entries() == {"shop.orders"}
    assert not list((sqlite.root / "data" / "_sqlbuild_stage").iterdir())


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, at: str):
    from pyiceberg.io.pyarrow import PyArrowFile

    real = PyArrowFile.create

    def create(self: Any, overwrite: bool = False) -> Any:
        if at in self.location:
            raise OSError(errno.ENOSPC, "No space left on device", self.location)
        return real(self, overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(PyArrowFile, "create", create)
        yield


@pytest.mark.parametrize("at", ["-m0.avro", "snap-", ".metadata.json"])
@pytest.mark.parametrize("exists", [False, True])
def test_disk_full(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch, at: str, exists: bool) -> None:
    sqlite.lake.ensure_schemas(["shop"])
    base = write(sqlite, [[1], ["a"]]).state.base if exists else None
    files, entries = sqlite.files(), sqlite.entries()
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, base, "r2")
    sqlite.lake.fill(stage, [[2], ["b"]])
    with full_disk(monkeypatch, at), pytest.raises(LakeFull) as caught:
        sqlite.lake.publish(stage, SUMMARY)
    assert caught.value.hint
    sqlite.lake.discard(stage)
    assert sqlite.files() == files and sqlite.entries() == entries
    with full_disk(monkeypatch, "_sqlbuild_stage"), pytest.raises(LakeFull):
        sqlite.lake.stage(ORDERS, ID_AND_NAME, base, "r3")
    assert sqlite.files() == files and sqlite.entries() == entries
    assert write(sqlite, [[3], ["c"]], base=base, run_id="r4").state.rows == 1


@pytest.mark.parametrize("landed", [False, True])
def test_an_unknown_outcome_is_its_own_error(
    sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    from pyiceberg.exceptions import CommitStateUnknownException

    first = write(sqlite, [[1], ["a"]])
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    sqlite.lake.fill(stage, [[2], ["b"]])
    real = type(sqlite.catalog).commit_table

    def lose_the_answer(self: Any, *args: Any) -> Any:
        if landed:
            real(self, *args)
        raise CommitStateUnknownException("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(type(sqlite.catalog), "commit_table", lose_the_answer)
        with pytest.raises(CommitUnknown):
            sqlite.lake.publish(stage, SUMMARY)
    sqlite.lake.discard(stage)
    assert sqlite.rows(ORDERS) == ([(2, "b")] if landed else [(1, "a")])
    again = write(sqlite, [[3], ["c"]], base=state(sqlite).base, run_id="r3")
    assert sqlite.rows(ORDERS) == [(3, "c")] and state(sqlite) == again.state


def test_a_table_of_a_format_that_cannot_be_written(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    document = json.loads(Path(sqlite.table().metadata_location).read_text())
    newer = Path(first.state.location) / "metadata" / f"00009-{uuid.uuid4()}.metadata.json"
    newer.write_text(json.dumps({**document, "format-version": 3, "next-row-id": 0}))
    with sqlite3.connect(str(sqlite.lake.place.database)) as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'orders'", (str(newer),))
    with pytest.raises(LakeError, match="format version 3"):
        sqlite.lake.publish(stage, SUMMARY)
    sqlite.lake.discard(stage)
    assert sqlite.rows(ORDERS) == [(1, "a")]


def test_rows_of_many_types_come_back(sqlite: SqliteProbe) -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    kinds = [
        ("b", "boolean"),
        ("t", "byte"),
        ("i", "integer"),
        ("f", "double"),
        ("d", "date"),
        ("ts", "timestamp"),
        ("nt", "timestamp_ntz"),
        ("s", "varchar(3)"),
        ("x", "binary"),
    ]
    row = (True, 1, -2, 1.5, moment.date(), moment, moment.replace(tzinfo=None), "é'\n", b"\x00\xff")
    write(sqlite, [[v] for v in row], wanted=shape(*kinds))
    assert sqlite.rows(ORDERS) == [row]


def test_seeds_may_have_any_layout(sqlite: SqliteProbe) -> None:
    moment = datetime.datetime(1969, 12, 31, 23, 0, tzinfo=datetime.UTC)
    columns = (("id", "long"), ("at", "timestamp"), ("day", "date"), ("s", "string"), ("d", "decimal(6,2)"))
    values = [
        [1, 2, None],
        [moment, datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), None],
        [datetime.date(1960, 2, 29), datetime.date(2026, 1, 2), None],
        ["a/b", "", None],
        [decimal.Decimal("1.10"), decimal.Decimal("-2.00"), None],
    ]
    layouts = [
        ("hours(at)",),
        ("days(at)",),
        ("months(at)",),
        ("years(at)",),
        ("days(day)", "s"),
        ("day",),
        ("at",),
        ("d",),
        ("bucket(4, id)", "truncate(10, id)"),
        ("bucket(4, s)", "truncate(1, s)"),
        ("bucket(3, d)",),
    ]
    base = None
    for number, layout in enumerate(layouts):
        wanted = shape(*columns, partitioned_by=layout)
        base = write(sqlite, values, wanted=wanted, base=base, run_id=f"r{number}").state.base
        assert sqlite.rows(ORDERS) == sorted(zip(*values, strict=True), key=repr), layout
        assert len(list(sqlite.table().scan().plan_files())) in (2, 3)
    partitions = sqlite.table().inspect.partitions().to_pylist()
    assert sum(p["record_count"] for p in partitions) == 3
    arrow = sqlite.table().scan(row_filter="d = 1.10").to_arrow()
    assert arrow["id"].to_pylist() == [1]


def test_names_that_need_quoting(sqlite: SqliteProbe) -> None:
    odd = Relation("shop", "order details é")
    published = write(sqlite, [[1], ["a"]], wanted=shape(("a b", "long"), ("select.x", "string")), target=odd)
    assert sqlite.rows(odd) == [(1, "a")] and state(sqlite, odd) == published.state
