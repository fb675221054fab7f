"""Rows of loaders: written in batches, to tables whose layout is somebody else's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from contract.lakes import ORDERS, Probe, SqliteProbe, state
from contract.test_janitor import FIRST, NONE, clean
from sqb.errors.build import RowsUnfit, SchemaRefused
from sqb.errors.lake import Conflict
from sqb.lake.port import Base, Column, PublishedCommit, Shape

SUMMARY = {"sqb.loader": "orders", "sqb.run_id": "r1", "sqb.content": "a:2:1:1"}


def loaded(*columns: tuple[str, Any], keeps_rows: bool = False) -> Shape:
    """The shape of a loader's table."""
    wanted = tuple(Column(name, kind) for name, kind in columns)
    return Shape(wanted, properties={"sqb.loader": "orders"}, keeps_rows=keeps_rows, keeps_layout=True)


ID_AND_NAME = loaded(("id", "long"), ("name", "string"))


def load(
    probe: Probe,
    rows: list[dict[str, Any]],
    wanted: Shape = ID_AND_NAME,
    base: Base | None = None,
    run_id: str = "r1",
    gone: list[str] | None = None,
) -> PublishedCommit:
    probe.lake.ensure_schemas([ORDERS.schema])
    stage = probe.lake.stage(ORDERS, wanted, base, run_id)
    names = list(dict.fromkeys(name for row in rows for name in row))
    batches = [pa.RecordBatch.from_pylist([row], pa.Table.from_pylist(rows).select(names).schema) for row in rows]
    probe.lake.fill_batches(stage, batches)
    return probe.lake.publish(stage, {**SUMMARY, "sqb.run_id": run_id}, gone)


def test_batches_become_rows(probe: Probe) -> None:
    load(probe, [{"id": 1, "name": "a"}, {"name": "b", "id": 2}, {"id": 3, "name": None}])
    assert probe.rows(ORDERS) == [(1, "a"), (2, "b"), (3, None)]
    current = state(probe)
    assert current.identity.to_properties() == SUMMARY and not current.drifted
    assert current.properties["sqb.loader"] == "orders"


def test_columns_that_rows_do_not_have_are_null(probe: Probe) -> None:
    load(probe, [{"name": "a"}])
    assert probe.rows(ORDERS) == [(None, "a")]


def test_rows_beside_those_that_stand(probe: Probe) -> None:
    first = load(probe, [{"id": 1, "name": "a"}])
    wanted = loaded(("id", "long"), ("name", "string"), ("at", "date"), keeps_rows=True)
    load(probe, [{"id": 1, "name": "a", "at": None}], wanted, first.state.base, "r2", gone=[])
    assert probe.rows(ORDERS) == [(1, "a", None), (1, "a", None)]
    assert [c.id for c in state(probe).columns] == [1, 2, 3]


def test_rows_of_a_file_give_way_to_others(probe: Probe) -> None:
    first = load(probe, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    held = probe.lake.find_files_with_keys(ORDERS, first.state.base, pa.table({"id": [2]}))
    assert not held.is_full_scan
    (file,) = held.files
    rows = [row for batch in file.read(["name", "id"]) for row in batch.to_pylist()]
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "a"), (2, "b")]
    load(probe, [{"id": 3, "name": "c"}], base=first.state.base, run_id="r2", gone=[file.path])
    assert probe.rows(ORDERS) == [(3, "c")]
    with pytest.raises(Conflict):
        probe.lake.find_files_with_keys(ORDERS, first.state.base, pa.table({"id": [2]}))


# --- what only storage shows ------------------------------------------------------------------------------------------


def make_theirs(probe: SqliteProbe) -> Base:
    """A table that somebody else made: partitioned, sorted, with properties, a key that must be there, and a struct."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.transforms import BucketTransform, IdentityTransform
    from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

    probe.lake.ensure_schemas([ORDERS.schema])
    place = StructType(NestedField(5, "city", StringType()), NestedField(6, "zip", IntegerType()))
    fields = (
        NestedField(1, "Id", IntegerType(), required=True, doc="the key"),
        NestedField(2, "name", StringType()),
        NestedField(3, "amount", LongType()),
        NestedField(4, "place", place),
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "name"), PartitionField(1, 1001, BucketTransform(4), "b")
    )
    probe.catalog.create_table(
        (ORDERS.schema, ORDERS.name),
        Schema(*fields, identifier_field_ids=[1]),
        partition_spec=spec,
        sort_order=SortOrder(SortField(3, IdentityTransform())),
        properties={"owner": "them", "write.parquet.compression-codec": "gzip"},
    )
    return state(probe).base


PLACE = {
    "type": "struct",
    "fields": [
        {"name": "zip", "type": "long", "nullable": True, "metadata": {}},
        {"name": "street", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def test_a_table_of_others_keeps_its_layout(sqlite: SqliteProbe) -> None:
    base = make_theirs(sqlite)
    before = sqlite.table().metadata
    first = load(
        sqlite, [{"Id": i, "name": "ab"[i % 2], "amount": i} for i in range(6)], _theirs(), base, "r1", gone=[]
    )
    wanted = loaded(
        ("Id", "long"), ("name", "string"), ("amount", "long"), ("place", PLACE), ("more", "string"), keeps_rows=True
    )
    row = {"Id": 9, "name": "a", "amount": None, "place": {"zip": 1, "street": "s", "city": None}, "more": "x"}
    load(sqlite, [row], wanted, first.state.base, "r2", gone=[])
    after = sqlite.table().metadata
    assert after.spec() == before.spec() and after.sort_order() == before.sort_order()
    assert after.properties == before.properties
    by_name = {f.name: f for f in after.schema().fields}
    assert [by_name[n].field_id for n in ("Id", "name", "amount", "place")] == [1, 2, 3, 4]
    assert by_name["Id"].required and by_name["Id"].doc == "the key" and str(by_name["Id"].field_type) == "long"
    assert [(f.name, f.field_id, str(f.field_type)) for f in by_name["place"].field_type.fields] == [
        ("city", 5, "string"),
        ("zip", 6, "long"),
        ("street", 7, "string"),
    ]
    assert after.schema().identifier_field_ids == [1]
    rows = {row[0]: row for row in sqlite.rows(ORDERS)}
    assert rows[9] == (9, "a", None, {"city": None, "zip": 1, "street": "s"}, "x") and len(rows) == 7
    assert rows[1] == (1, "b", 1, None, None)
    assert sqlite.garbage() == set()


def _theirs() -> Shape:
    return loaded(("Id", "integer"), ("name", "string"), ("amount", "long"), keeps_rows=True)


def test_rows_are_split_by_the_partitions(sqlite: SqliteProbe) -> None:
    base = make_theirs(sqlite)
    rows = [{"Id": i, "name": None if i % 5 == 0 else f"n{i % 3}", "amount": i} for i in range(40)]
    stage = sqlite.lake.stage(ORDERS, _theirs(), base, "r1")
    sqlite.lake.fill_batches(stage, pa.Table.from_pylist(rows).to_batches(max_chunksize=7))
    sqlite.lake.publish(stage, SUMMARY, [])
    table = sqlite.table()
    files = list(table.scan().plan_files())
    parts = {tuple(f.file.partition) for f in files}
    assert len(parts) == len(files) and {p[0] for p in parts} == {None, "n0", "n1", "n2"}
    assert len(sqlite.rows(ORDERS)) == 40
    assert table.scan(row_filter="name = 'n1'").to_arrow().num_rows == sum(r["name"] == "n1" for r in rows)


def test_what_must_not_be_null(sqlite: SqliteProbe) -> None:
    base = make_theirs(sqlite)
    with pytest.raises(RowsUnfit, match='"Id" must not be NULL in the table'):
        load(sqlite, [{"Id": None, "name": "a"}], _theirs(), base, gone=[])


def test_a_column_that_the_layout_needs(sqlite: SqliteProbe) -> None:
    base = make_theirs(sqlite)
    with pytest.raises(SchemaRefused, match='partitioned by "name"'):
        load(sqlite, [{"id": 1}], loaded(("id", "integer")), base)
    with pytest.raises(SchemaRefused, match='"amount" is long in the table and string in the new rows'):
        load(sqlite, [{"Id": 1}], loaded(("amount", "string"), keeps_rows=True), base, gone=[])


def test_files_are_written_before_all_rows_are_there(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqb.lake.arrow import write as rows

    monkeypatch.setattr(rows, "_BYTES_AT_ONCE", 1000)
    sqlite.lake.ensure_schemas([ORDERS.schema])
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, None, "r1")
    seen = []

    def batches() -> Any:
        for i in range(4):
            seen.append(len([f for f in sqlite.files() if f.endswith(".parquet")]))
            yield pa.RecordBatch.from_pydict({"id": pa.array(range(200)), "name": pa.array([f"n{i}"] * 200)})

    sqlite.lake.fill_batches(stage, batches())
    assert seen == [0, 1, 2, 3]
    sqlite.lake.publish(stage, SUMMARY)
    assert len(sqlite.rows(ORDERS)) == 800


@pytest.mark.parametrize("theirs", [True, False])
def test_a_kill_right_after_the_commit_loses_no_rows(sqlite: SqliteProbe, theirs: bool) -> None:
    base = make_theirs(sqlite) if theirs else None
    writer: Any = sqlite.lake.open_for_writing()
    with pytest.raises(KeyboardInterrupt), sqlite.lake.hold_run(FIRST, "me"):
        writer._drop_stage = lambda stage: None
        load(sqlite, [{"Id": 1, "name": "a"}], _theirs() if theirs else ID_AND_NAME, base, FIRST, gone=[])
        raise KeyboardInterrupt
    del writer._drop_stage
    before = sqlite.rows(ORDERS)
    assert [s.what for s in clean(sqlite, NONE, days=30)][:1] == ["stage"]
    assert sqlite.rows(ORDERS) == before and len(before) == 1


@pytest.mark.parametrize("theirs", [True, False])
def test_rows_of_a_killed_load_go(sqlite: SqliteProbe, theirs: bool) -> None:
    base = make_theirs(sqlite) if theirs else load(sqlite, [{"id": 1, "name": "a"}]).state.base
    before = sqlite.files()
    with pytest.raises(KeyboardInterrupt), sqlite.lake.hold_run(FIRST, "me"):
        stage = sqlite.lake.stage(ORDERS, _theirs() if theirs else ID_AND_NAME, base, FIRST)
        sqlite.lake.fill_batches(stage, [pa.RecordBatch.from_pydict({"Id": [1], "id": [1], "name": ["a"]})])
        raise KeyboardInterrupt
    assert len(sqlite.files()) > len(before)
    clean(sqlite)
    assert {f for f in sqlite.files() if "_runs" not in f} == before


def test_only_files_that_may_hold_a_key_are_read(sqlite: SqliteProbe) -> None:
    base = make_theirs(sqlite)
    published = load(
        sqlite, [{"Id": i, "name": "ab"[i % 2], "amount": i} for i in range(300)], _theirs(), base, gone=[]
    )

    def near(**keys: Any) -> int:
        return len(sqlite.lake.find_files_with_keys(ORDERS, published.state.base, pa.table(keys)).files)

    everything = near(place=pa.array([{"city": "x"}]))
    assert everything == len(list(sqlite.table().scan().plan_files())) > 4
    # By the value of a partition, by a bucket, and by the bounds of many values.
    assert near(name=pa.array(["a"], pa.large_string())) == everything / 2
    assert near(Id=pa.array([7])) < everything / 2
    assert near(Id=pa.array(range(5000, 6000))) == 0
    assert near(Id=pa.array([2**40])) == 0
