"""The files that tell what changed in a table, as an invisible table on every lake; Spark's part is in tests/spark."""

from __future__ import annotations

import time
from typing import Any

import pytest

from contract.lakes import ORDERS, IcebergProbe, Probe, shape, state, write
from sqb.lake.janitor.run import Janitor
from sqb.lake.port import STAGE_SCHEMA, ChangedFiles, PublishedCommit
from sqb.names import Relation
from sqb.project.config.settings import Retention

RUN = "20260301_120000_aaaaaa"
COLUMNS = ("id", "name")


def stage(probe: Probe, old: PublishedCommit, columns: Any = COLUMNS) -> ChangedFiles | None:
    new = state(probe).snapshot_id
    assert new is not None
    return probe.lake.stage_changed_files(ORDERS, old.snapshot_id, new, columns, RUN)


def read(probe: IcebergProbe, staged: ChangedFiles) -> dict[int, list[dict[str, Any]]]:
    """The rows of each part, by its sign, as pyiceberg reads them."""
    catalog = probe.lake.open_for_writing().catalog
    table = catalog.load_table((staged.relation.schema, staged.relation.name))
    rows = {p.sign: table.scan(snapshot_id=p.snapshot_id).to_arrow().to_pylist() for p in staged.parts}
    return {sign: sorted(item, key=lambda row: row["id"]) for sign, item in rows.items()}


def test_rows_that_were_replaced(probe: Probe) -> None:
    first = write(probe, [[1, 2], ["a", "b"]])
    write(probe, [[2, 3], ["b", "c"]], base=first.state.base, run_id="r2")
    staged = stage(probe, first)
    if not isinstance(probe, IcebergProbe):
        assert staged is None
        return
    assert staged is not None and staged.relation.schema == STAGE_SCHEMA and staged.relation.name.endswith(f"__{RUN}")
    assert read(probe, staged) == {
        1: [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}],
        -1: [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
    }
    assert [(p.is_hidden, p.rows) for p in staged.parts] == [(False, 2), (False, 2)]
    probe.lake.drop_changed_files(staged)
    assert staged.relation not in probe.lake.list_pointers()
    assert not any(staged.relation.name in path for path in probe.files())
    assert probe.rows(ORDERS) == [(2, "b"), (3, "c")], "its files are another's"


def test_rows_that_were_added(iceberg: IcebergProbe) -> None:
    first = write(iceberg, [[1], ["a"]])
    iceberg.append_as_stranger(ORDERS, [[2], ["b"]])
    iceberg.append_as_stranger(ORDERS, [[3], ["c"]])
    staged = stage(iceberg, first)
    assert staged is not None
    assert read(iceberg, staged) == {1: [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}]}


def test_nothing_changed(iceberg: IcebergProbe) -> None:
    first = write(iceberg, [[1], ["a"]])
    before = iceberg.files()
    iceberg.lake.touch(ORDERS, first.state.base, {"sqb.model": "shop.orders"})
    staged = stage(iceberg, first)
    assert staged is not None and staged.parts == () and staged.relation not in iceberg.lake.list_pointers()
    iceberg.lake.drop_changed_files(staged)
    assert before <= iceberg.files() and not any("__files_" in path for path in iceberg.files())


def test_what_files_do_not_tell(iceberg: IcebergProbe) -> None:
    first = write(iceberg, [[1], ["a"]])
    iceberg.add_column_as_stranger(ORDERS, "more")
    iceberg.append_as_stranger(ORDERS, [[2], ["b"], [None]])
    assert stage(iceberg, first) is not None, "these columns are what they were"
    assert stage(iceberg, first, ("id", "more")) is None, "it was not there"
    other = PublishedCommit(17, first.state)
    assert stage(iceberg, other) is None, "a snapshot that is gone"
    assert iceberg.lake.stage_changed_files(Relation("shop", "nothing"), 1, 2, COLUMNS, RUN) is None


def test_a_column_that_hides_what_iceberg_says_of_rows(iceberg: IcebergProbe) -> None:
    hiding = shape(("id", "long"), ("_deleted", "boolean"))
    first = write(iceberg, [[1], [True]], wanted=hiding)
    write(iceberg, [[2], [False]], wanted=hiding, base=first.state.base, run_id="r2")
    assert stage(iceberg, first, ("id",)) is None


@pytest.mark.parametrize("registered", [True, False])
def test_a_build_that_is_killed_leaves_it_to_the_janitor(iceberg: IcebergProbe, registered: bool) -> None:
    first = write(iceberg, [[1, 2], ["a", "b"]])
    write(iceberg, [[3], ["c"]], base=first.state.base, run_id="r2")
    before = {path for path in iceberg.files() if "_runs" not in path}
    with pytest.raises(KeyboardInterrupt), iceberg.lake.hold_run(RUN, "shop dev"):
        staged = stage(iceberg, first)
        assert staged is not None
        if not registered:
            iceberg.lake.drop_stage(staged.relation)
        raise KeyboardInterrupt
    iceberg.lake.settle_run(RUN)
    items = list(Janitor(iceberg.lake, Retention(keep_snapshots=9), False, time.time()).clean())
    assert [(f.what, f.name) for f in items] == [("stage" if registered else "files", str(staged.relation))]
    assert {path for path in iceberg.files() if "_runs" not in path} == before
    assert iceberg.rows(ORDERS) == [(3, "c")]
