"""The janitor and clones: what a clone needs stays, what nobody needs goes, and old clones get files of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, IcebergProbe, SqliteProbe, shape, state, write
from contract.test_clones import ANN, DEV, OWN, clone
from contract.test_janitor import FIRST, NONE, clean, list_actions
from sqb.errors.lake import Conflict
from sqb.lake.clones import clone as module
from sqb.lake.clones.materialize import separate
from sqb.lake.janitor.reachable_files import ReachableFiles
from sqb.lake.port import CLONE_OF
from sqb.names import Relation

# Nothing is kept for its age, but clones share files for as long as they like; and the other way round.
SHARED = replace(NONE, clones=10**9)
ALONE = replace(NONE, clones=0)


def moved_on(probe: IcebergProbe, relation: Relation = ORDERS, rounds: int = 2) -> None:
    """The table gets other rows, so that what it had before could expire."""
    for number in range(rounds):
        write(probe, [[90 + number], ["new"]], base=state(probe, relation).base, run_id=f"m{number}", target=relation)


def shared_paths(probe: IcebergProbe, relation: Relation) -> set[str]:
    """The files that a table leads to outside its own folder."""
    table = probe.table(relation)
    home = f"{table.metadata.location}/"
    return {
        p for p in ReachableFiles().list_snapshot_files(table.metadata.snapshots, table.io) if not p.startswith(home)
    }


def test_what_a_clone_needs_stays(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1, 2], ["a", "b"]])
    clone(sqlite, first)
    moved_on(sqlite)
    clean(sqlite, SHARED)
    assert sqlite.rows(DEV) == [(1, "a"), (2, "b")] == sqlite.rows(ORDERS, first.snapshot_id)
    assert len(sqlite.table(ORDERS).metadata.snapshots) == 2, "the one between is gone"


def test_what_a_clone_needs_stays_without_its_tag(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    clone(sqlite, first)
    sqlite.table(ORDERS).manage_snapshots().remove_tag(next(iter(sqlite.tags(ORDERS)))).commit()
    moved_on(sqlite)
    clean(sqlite, SHARED)
    assert sqlite.rows(DEV) == [(1, "a")] == sqlite.rows(ORDERS, first.snapshot_id)


def test_a_table_that_was_dropped_keeps_the_files_that_a_clone_shares(iceberg: IcebergProbe) -> None:
    first = write(iceberg, [[1], ["a"]])
    clone(iceberg, first)
    moved_on(iceberg)
    iceberg.catalog.drop_table(("shop", "orders"))
    before = len(iceberg.files())
    clean(iceberg, SHARED)
    assert len(iceberg.files()) < before, "what only the dropped table had is gone"
    assert iceberg.rows(DEV) == [(1, "a")]
    clean(iceberg, ALONE)
    assert iceberg.rows(DEV) == [(1, "a")] and shared_paths(iceberg, DEV) == set()


def test_a_tag_goes_when_its_clone_is_gone(iceberg: IcebergProbe) -> None:
    first = write(iceberg, [[1], ["a"]])
    clone(iceberg, first)
    iceberg.table(ORDERS).manage_snapshots().create_tag(first.snapshot_id, "of_somebody").commit()
    moved_on(iceberg)
    assert list_actions(clean(iceberg, SHARED)) == [("snapshots", "shop.orders")], "the tag is in use"
    iceberg.catalog.drop_table(("dev", "orders"))
    dry = clean(iceberg, SHARED, dry_run=True)
    assert ("tag", "shop.orders") in list_actions(dry) and len(iceberg.tags(ORDERS)) == 2
    cleaned = clean(iceberg, SHARED)
    assert ("tag", "shop.orders") in list_actions(cleaned) and next(s for s in cleaned if s.what == "tag").tags == 1
    assert set(iceberg.tags(ORDERS)) == {"of_somebody"}
    iceberg.table(ORDERS).manage_snapshots().remove_tag("of_somebody").commit()
    clean(iceberg, SHARED)
    assert len(iceberg.table(ORDERS).metadata.snapshots) == 1


def test_a_clone_that_was_replaced_lets_go_of_its_tag(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    made = clone(sqlite, first)
    second = clone(sqlite, first, base=made.state.base)
    assert len(sqlite.tags(ORDERS)) == 2
    clean(sqlite, SHARED)
    assert list(sqlite.tags(ORDERS)) == [sqlite.properties(DEV)["sqb.clone_tag"]]
    assert state(sqlite, DEV) == second.state


def test_tags_stay_while_a_build_runs(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    clone(sqlite, first)
    sqlite.catalog.drop_table(("dev", "orders"))
    with sqlite.lake.hold_run(FIRST, "shop dev") as alive:
        assert ("kept", "shop.orders") in list_actions(clean(sqlite, SHARED))
        alive.finished = True
    assert len(sqlite.tags(ORDERS)) == 1
    assert ("tag", "shop.orders") in list_actions(clean(sqlite, SHARED))


def test_tags_stay_when_nobody_can_tell_whose_they_are(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    clone(sqlite, first)
    path = Path(sqlite.table(DEV).metadata_location)
    path.rename(path.with_suffix(".gone"))
    assert ("kept", "tags of clones") in list_actions(clean(sqlite, SHARED))
    assert len(sqlite.tags(ORDERS)) == 1


def test_an_old_clone_gets_files_of_its_own(iceberg: IcebergProbe) -> None:
    calm = replace(ALONE, snapshots=10**9, files=10**9)
    wanted = shape(("id", "long"), ("name", "string"), partitioned_by=("name",))
    first = write(iceberg, [[1, 2, 3], ["a", "b", "b"]], wanted=wanted)
    made = clone(iceberg, first)
    stage = iceberg.lake.stage(DEV, wanted, made.state.base, "r2")
    iceberg.lake.fill(stage, [[4], ["c"]])
    added = iceberg.lake.publish(stage, {**OWN, "sqb.run_id": "r2"}, replaced_files=())
    before = state(iceberg, DEV)
    assert list_actions(clean(iceberg, replace(calm, clones=100.0))) == []
    dry = clean(iceberg, calm, dry_run=True)
    assert list_actions(dry) == [("clone", "dev.orders")] and dry[0].files == 2 and dry[0].bytes > 100
    assert shared_paths(iceberg, DEV)
    assert list_actions(clean(iceberg, calm)) == [("clone", "dev.orders")]
    after = state(iceberg, DEV)
    assert shared_paths(iceberg, DEV) == set()
    assert not [f for f in iceberg.garbage() if f.endswith(".parquet")]
    # Nothing else has changed: neither rows nor snapshots, nor what they say.
    assert iceberg.rows(DEV) == [(1, "a"), (2, "b"), (3, "b"), (4, "c")]
    assert iceberg.rows(DEV, first.snapshot_id) == [(1, "a"), (2, "b"), (3, "b")]
    assert after == replace(before, properties=after.properties)
    assert CLONE_OF not in after.properties and "gc.enabled" not in iceberg.properties(DEV)
    # And now nobody needs the tag, nor the source.
    cleaned = clean(iceberg, calm)
    assert ("tag", "shop.orders") in list_actions(cleaned) and iceberg.tags(ORDERS) == {}
    iceberg.lake.storage.remove_folder(f"{iceberg.lake.warehouse}/shop")
    assert iceberg.rows(DEV) == [(1, "a"), (2, "b"), (3, "b"), (4, "c")]
    write(iceberg, [[5], ["e"]], base=added.state.base, run_id="r5", target=DEV, wanted=wanted)
    assert iceberg.rows(DEV) == [(5, "e")]


def test_rows_that_a_clone_removed_can_still_be_followed(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    made = clone(sqlite, first)
    write(sqlite, [[2], ["b"]], base=made.state.base, run_id="r2", target=DEV)
    clean(sqlite, replace(ALONE, snapshots=10**9, keep_snapshots=9))
    table = sqlite.table(DEV)
    current = table.metadata.current_snapshot()
    entries = [e for m in current.manifests(table.io) for e in m.fetch_manifest_entry(table.io, discard_deleted=False)]
    assert {e.status.name for e in entries} == {"ADDED", "DELETED"}
    assert all(Path(e.data_file.file_path).exists() for e in entries)
    assert all(e.data_file.file_path.startswith(str(sqlite.root / "data" / "dev")) for e in entries)
    assert sqlite.rows(DEV, first.snapshot_id) == [(1, "a")]


def test_a_clone_of_a_clone_outlives_both(iceberg: IcebergProbe) -> None:
    first = write(iceberg, [[1], ["a"]])
    made = clone(iceberg, first)
    clone(iceberg, made, source=DEV, target=ANN)
    iceberg.catalog.drop_table(("dev", "orders"))
    moved_on(iceberg)
    clean(iceberg, SHARED)
    assert len(iceberg.tags(ORDERS)) == 1, "one clone is left"
    clean(iceberg, SHARED)
    assert iceberg.rows(ANN) == [(1, "a")]
    clean(iceberg, ALONE)
    iceberg.lake.storage.remove_folder(f"{iceberg.lake.warehouse}/shop")
    assert iceberg.rows(ANN) == [(1, "a")]


def test_a_clone_that_moves_meanwhile_is_left_for_the_next_round(sqlite: SqliteProbe) -> None:
    made = clone(sqlite, write(sqlite, [[1], ["a"]]))
    table = sqlite.table(DEV)
    write(sqlite, [[2], ["b"]], base=made.state.base, run_id="r2", target=DEV)
    before = sqlite.files()
    assert "changed meanwhile" in separate(sqlite.lake, DEV, table, ReachableFiles(), dry_run=False).obstacle
    assert sqlite.files() == before and sqlite.rows(DEV) == [(2, "b")]


def test_a_shared_file_that_is_gone_is_told(iceberg: IcebergProbe) -> None:
    clone(iceberg, write(iceberg, [[1], ["a"]]))
    iceberg.lake.storage.remove_folder(f"{iceberg.lake.warehouse}/shop/orders/data")
    cleaned = clean(iceberg, ALONE)
    assert list_actions(cleaned) == [("kept", "dev.orders")] and "is not there" in cleaned[0].why


def test_a_build_that_is_killed_between_tag_and_clone_leaves_a_tag_that_goes(iceberg: IcebergProbe) -> None:
    first = write(iceberg, [[1], ["a"]])
    swap = iceberg.lake.catalog.swap

    def killed(*arguments: object) -> None:
        raise SystemExit

    iceberg.lake.catalog.swap = killed  # type: ignore[method-assign, assignment]
    with pytest.MonkeyPatch.context() as patch:
        # What a kill does not do.
        patch.setattr(module, "release_tag", lambda *arguments: False)
        with pytest.raises(SystemExit):
            clone(iceberg, first)
    iceberg.lake.catalog.swap = swap  # type: ignore[method-assign]
    assert len(iceberg.tags(ORDERS)) == 1
    assert ("tag", "shop.orders") in list_actions(clean(iceberg, SHARED))
    assert iceberg.tags(ORDERS) == {}


def test_files_of_a_killed_build_in_a_clones_folder_go(sqlite: SqliteProbe) -> None:
    made = clone(sqlite, write(sqlite, [[1], ["a"]]))
    with pytest.raises(KeyboardInterrupt), sqlite.lake.hold_run(FIRST, "shop dev"):
        stage = sqlite.lake.stage(DEV, ID_AND_NAME, made.state.base, FIRST)
        sqlite.lake.fill(stage, [[2], ["b"]])
        raise KeyboardInterrupt
    clean(sqlite, SHARED)
    assert not [f for f in sqlite.files() if FIRST in f and "_runs" not in f]
    assert sqlite.rows(DEV) == [(1, "a")]
    with pytest.raises(Conflict):
        sqlite.lake.clone(Relation("shop", "none"), 1, DEV, OWN, made.state.base, "r1")
