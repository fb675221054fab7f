"""The janitor on storage: everything that nobody needs goes, and nothing else."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, IcebergProbe, SqliteProbe, state, write
from contract.test_state import failed_row, fingerprint, result
from sqb.errors.lake import JanitorBusy
from sqb.lake.janitor.run import Janitor, JanitorAction
from sqb.lake.port import STAGE_SCHEMA
from sqb.lake.state.compaction import compact
from sqb.lake.state.rows import FINGERPRINTS, Fingerprint, find_latest_fingerprints
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.group_state import NamedState, build_state_relation, encode_states
from sqb.project.config.settings import Retention

DAY = 86400.0
KEEP = Retention(keep_snapshots=1)
NONE = Retention(0, 0, 0, 0, 1)
FOREVER = replace(KEEP, history=10_000 * DAY)
FIRST, SECOND, THIRD = "20260301_120000_aaaaaa", "20260301_120001_bbbbbb", "20260301_120002_cccccc"


def clean(probe: IcebergProbe, keep: Retention = KEEP, dry_run: bool = False, days: float = 0) -> list[JanitorAction]:
    return list(Janitor(probe.lake, keep, dry_run, time.time() + days * DAY).clean())


def list_actions(swept: list[JanitorAction]) -> list[tuple[str, str]]:
    return [(s.what, s.name) for s in swept]


def die(probe: IcebergProbe, run_id: str, base: object = None, published: bool = False) -> None:
    """A run that is killed with rows in its stage, before or after its commit."""
    with pytest.raises(KeyboardInterrupt), probe.lake.hold_run(run_id, "shop dev"):
        probe.lake.ensure_schemas(["shop"])
        stage = probe.lake.stage(ORDERS, ID_AND_NAME, base, run_id)  # type: ignore[arg-type]
        probe.lake.fill(stage, [[1], [run_id]])
        if published:
            writer = probe.lake.open_for_writing()
            writer._drop_stage = lambda stage: None  # type: ignore[method-assign]
            writer.publish(stage, {"sqb.model": "shop.orders", "sqb.run_id": run_id})
            del writer._drop_stage
        raise KeyboardInterrupt
    probe.lake.settle_run(run_id)


def test_nothing_to_do(sqlite: SqliteProbe) -> None:
    assert clean(sqlite) == [] and clean(sqlite, dry_run=True) == []
    assert not sqlite.lake.place.database.exists()
    write(sqlite, [[1], ["a"]])
    before = sqlite.files()
    assert clean(sqlite) == [] and clean(sqlite, days=400) == []
    assert sqlite.files() - {f for f in sqlite.files() if "_runs" in f} == before


@pytest.mark.parametrize("first", [True, False])
def test_a_stage_of_a_killed_build(iceberg: IcebergProbe, first: bool) -> None:
    base = None if first else write(iceberg, [[0], ["old"]]).state.base
    before = iceberg.files()
    die(iceberg, FIRST, base)
    dry = clean(iceberg, dry_run=True)
    assert list_actions(dry) == [("stage", f"{STAGE_SCHEMA}.shop__orders__{FIRST}")]
    assert dry[0].tables == 1 and dry[0].files >= 4 and dry[0].bytes > 500
    assert len(iceberg.entries()) == (1 if first else 2)
    assert clean(iceberg) == dry
    assert iceberg.entries() == (set() if first else {"shop.orders"})
    assert {f for f in iceberg.files() if "_runs" not in f} == before
    assert iceberg.lake.list_runs() == {} and clean(iceberg) == []
    if not first:
        assert iceberg.rows(ORDERS) == [(0, "old")]


def test_a_stage_that_was_published_keeps_its_rows(iceberg: IcebergProbe) -> None:
    base = write(iceberg, [[0], ["old"]], run_id=SECOND).state.base
    die(iceberg, FIRST, base, published=True)
    assert len(iceberg.entries()) == 2
    # The commit that names the stage may have expired since: what counts is that the rows are listed.
    write(iceberg, [[5], ["new"]], base=state(iceberg).base, run_id=THIRD)
    swept = clean(iceberg)
    assert list_actions(swept) == [("stage", f"{STAGE_SCHEMA}.shop__orders__{FIRST}")]
    assert iceberg.garbage() == {f for f in iceberg.files() if "_runs" in f}
    assert len(iceberg.table().metadata.snapshots) == 3
    for snapshot in iceberg.table().metadata.snapshots:
        assert len(iceberg.rows(ORDERS, snapshot.snapshot_id)) == 1


def test_a_living_build_is_left_alone(iceberg: IcebergProbe) -> None:
    with iceberg.lake.hold_run(FIRST, "shop dev") as alive:
        iceberg.lake.ensure_schemas(["shop"])
        stage = iceberg.lake.stage(ORDERS, ID_AND_NAME, None, FIRST)
        iceberg.lake.fill(stage, [[1], ["a"]])
        # Files that are about to be listed, and folders of a run that has not begun to write.
        swept = clean(iceberg, NONE, days=400)
        assert [(s.what, s.why) for s in swept] == [("kept", "its build is running")]
        iceberg.lake.publish(stage, {"sqb.model": "shop.orders"})
        alive.finished = True
    assert iceberg.rows(ORDERS) == [(1, "a")] and list_actions(clean(iceberg)) == []


def test_a_run_of_another_machine_is_given_time(sqlite: SqliteProbe) -> None:
    die(sqlite, FIRST)
    (trace,) = Path(sqlite.lake.warehouse, "_sqlbuild_stage", "_runs").glob(f"{FIRST}.*")
    trace.write_text(json.dumps({**json.loads(trace.read_text()), "host": "elsewhere"}))
    assert [s.what for s in clean(sqlite)] == ["kept"]
    assert [s.what for s in clean(sqlite, days=6)] == ["kept"]
    assert [s.what for s in clean(sqlite, days=8)] == ["stage"]
    assert sqlite.lake.list_runs() == {} and sqlite.entries() == set()


def test_rows_that_a_killed_run_wrote_after_its_stage_was_removed(iceberg: IcebergProbe) -> None:
    write(iceberg, [[1], ["a"]])
    late, never = f"shop/orders/data/{FIRST}/late.parquet", f"shop/never/data/{FIRST}/p=1/late.parquet"
    iceberg.put_file(late, "x" * 100)
    iceberg.put_file(never, "x")
    assert clean(iceberg) == []
    swept = clean(iceberg, days=4)
    assert [(s.what, s.name, s.files, s.bytes) for s in swept] == [
        ("files", "shop/never", 1, 1),
        ("files", "shop.orders", 1, 100),
    ]
    assert not iceberg.has_folder(f"shop/orders/data/{FIRST}") and not iceberg.has_folder(f"shop/never/data/{FIRST}")


def test_files_that_nothing_leads_to_go_when_they_are_old(iceberg: IcebergProbe) -> None:
    write(iceberg, [[1], ["a"]])
    iceberg.put_file("shop/orders/metadata/x-m0.avro", "x")
    iceberg.put_file("shop/orders/data/part.parquet", "x")
    assert clean(iceberg) == []
    assert [(s.what, s.files) for s in clean(iceberg, days=4)] == [("files", 2)]
    assert iceberg.rows(ORDERS) == [(1, "a")]


def test_checksums_beside_files_go_with_them(sqlite: SqliteProbe) -> None:
    grow(sqlite, 2)
    folder = sqlite.root / "data" / "shop" / "orders" / "data"
    files = sorted(folder.rglob("*.parquet"))
    for path in files:
        path.with_name(f".{path.name}.crc").write_text("crc")
    (folder / ".gone.parquet.crc").write_text("crc")
    assert clean(sqlite) == []
    (swept,) = clean(sqlite, days=4)
    assert swept.files == 1 and not (folder / ".gone.parquet.crc").exists()
    (swept,) = clean(sqlite, days=40)
    assert swept.what == "snapshots"
    assert len(list(folder.rglob("*.crc"))) == len(list(folder.rglob("*.parquet"))) == 1


def test_tables_of_others_are_never_touched(iceberg: IcebergProbe) -> None:
    write(iceberg, [[1], ["a"]])
    theirs = Relation("theirs", "table")
    iceberg.lake.ensure_schemas(["theirs"])
    iceberg.catalog.create_table(("theirs", "table"), iceberg.table().schema())
    for number in range(3):
        iceberg.append_as_stranger(theirs, [[number], ["x"]])
    for path in ("theirs/table/data/uncommitted.parquet", "unknown/notes.txt", "notes.txt"):
        iceberg.put_file(path, "x")
    before = iceberg.files()
    assert clean(iceberg, NONE, days=400) == []
    assert before <= iceberg.files() and len(iceberg.table(theirs).metadata.snapshots) == 3


def grow(probe: IcebergProbe, times: int) -> None:
    for number in range(times):
        base = state(probe).base if ORDERS in probe.lake.list_pointers() else None
        write(probe, [[number], ["a"]], base=base, run_id=f"20260301_12000{number}_aaaaaa")


def test_old_snapshots_expire_with_their_files(iceberg: IcebergProbe) -> None:
    grow(iceberg, 4)
    assert clean(iceberg) == []
    dry = clean(iceberg, days=40, dry_run=True)
    assert [(s.what, s.name, s.snapshots) for s in dry] == [("snapshots", "shop.orders", 3)]
    assert clean(iceberg, replace(KEEP, keep_snapshots=4), days=40) == []
    assert len(iceberg.table().metadata.snapshots) == 4
    assert clean(iceberg, days=40) == dry
    assert len(iceberg.table().metadata.snapshots) == 1 and iceberg.rows(ORDERS) == [(3, "a")]
    assert iceberg.garbage() == {f for f in iceberg.files() if "_runs" in f}
    seen = state(iceberg)
    assert not seen.drifted and seen.identity.model == "shop.orders"
    grow(iceberg, 1)
    assert iceberg.rows(ORDERS) == [(0, "a")]


def test_a_version_that_a_reader_was_made_from_does_not_expire(sqlite: SqliteProbe) -> None:
    grow(sqlite, 2)
    read = state(sqlite).snapshot_id
    sources = json.dumps({"SHOP.orders": [read, None, "c"], "view shop.v": ["d", "c"]})
    below = Relation("shop", "below")
    stage = sqlite.lake.stage(below, ID_AND_NAME, None, "r1")
    sqlite.lake.publish(stage, {"sqb.model": "shop.below", "sqb.sources": sources})
    grow(sqlite, 2)
    clean(sqlite, NONE, days=400)
    remaining = [s.snapshot_id for s in sqlite.table().metadata.snapshots]
    assert len(remaining) == 3 and remaining[0] == read and sqlite.rows(ORDERS, read) == [(1, "a")]


def test_tags_and_tables_that_must_not_be_collected(sqlite: SqliteProbe) -> None:
    grow(sqlite, 3)
    first = sqlite.table().metadata.snapshots[0].snapshot_id
    sqlite.table().manage_snapshots().create_tag(first, "audit").commit()
    clean(sqlite, NONE, days=400)
    assert sqlite.rows(ORDERS, first) == [(0, "a")] and len(sqlite.table().metadata.snapshots) == 2
    with sqlite.table().transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    grow(sqlite, 2)
    before = sqlite.files()
    assert clean(sqlite, NONE, days=400) == []
    assert before <= sqlite.files()


def test_the_commit_that_says_what_a_table_is_does_not_expire(sqlite: SqliteProbe) -> None:
    grow(sqlite, 2)
    sqlite.append_as_stranger(ORDERS, [[9], ["z"]])
    left = state(sqlite).last_identity
    assert left
    clean(sqlite, NONE, days=400)
    assert state(sqlite).last_identity == left and sqlite.rows(ORDERS) == [(1, "a"), (9, "z")]


def test_a_dropped_table(iceberg: IcebergProbe) -> None:
    grow(iceberg, 2)
    write(iceberg, [[1], ["a"]], target=Relation("shop", "other"))
    iceberg.drop_as_stranger(ORDERS)
    before = iceberg.files()
    assert clean(iceberg, days=29) == [] and before <= iceberg.files()
    assert [(s.what, s.name) for s in clean(iceberg, days=31)] == [("files", "shop/orders")]
    assert not [f for f in iceberg.files() if f.startswith("data/shop/orders/")]


def test_a_table_that_gave_way_to_a_view(iceberg: IcebergProbe) -> None:
    grow(iceberg, 2)
    staged = Relation(STAGE_SCHEMA, f"shop__orders__{FIRST}")
    iceberg.put_view(staged, "SELECT 1 AS id", {"sqb.model": "shop.orders"})
    iceberg.lake.publish_view(staged, ORDERS, state(iceberg).base)
    assert clean(iceberg, days=29) == []
    assert [(s.what, s.name) for s in clean(iceberg, days=31)] == [("files", "shop.orders")]
    assert state(iceberg).is_view and len([f for f in iceberg.files() if "/orders/" in f]) == 1


def test_state_tables_become_one_file(sqlite: SqliteProbe) -> None:
    for number in range(12):
        sqlite.lake.state.append_fingerprints([fingerprint("a", run=f"r{number}", minutes=number), fingerprint("b")])
        sqlite.lake.state.append_node_results([result("a", f"r{number}", number)])
    before = sqlite.lake.state.read_fingerprints(["dev"])
    results = sqlite.lake.state.read_node_results(["dev"])
    dry = clean(sqlite, FOREVER, dry_run=True)
    assert [(s.what, s.name, s.rows) for s in dry] == [
        ("history", "dev._sqlbuild_fingerprints", 0),
        ("history", "dev._sqlbuild_node_results", 0),
    ]
    swept = clean(sqlite, FOREVER)
    assert [(s.what, s.name, s.rows, s.files) for s in swept] == [(s.what, s.name, s.rows, s.files) for s in dry]
    assert swept[0].files > 20 and swept[0].snapshots == 9
    assert (
        sqlite.lake.state.read_fingerprints(["dev"]) == before
        and sqlite.lake.state.read_node_results(["dev"]) == results
    )
    assert len([f for f in sqlite.files() if f.startswith("data/dev/") and f.endswith(".parquet")]) == 2
    assert clean(sqlite, FOREVER) == []
    sqlite.lake.state.append_node_results([result("c", "r99", 99)])
    assert len(sqlite.lake.state.read_node_results(["dev"])) == 13
    assert sqlite.garbage() == {f for f in sqlite.files() if "_runs" in f}


def test_history_is_pruned_but_the_latest_stays(sqlite: SqliteProbe) -> None:
    now = datetime.now(UTC)
    old, older, young = now - timedelta(days=100), now - timedelta(days=200), now - timedelta(days=10)
    rows = [
        replace(fingerprint(name, run=run), ts=ts)
        for name, run, ts in [
            ("a", "r1", older),
            ("a", "r2", old),
            ("b", "r1", older),
            ("c", "r1", older),
            ("c", "r3", young),
        ]
    ]
    sqlite.lake.state.append_fingerprints(rows[:3])
    sqlite.lake.state.append_fingerprints(rows[3:])
    before = sqlite.lake.state.read_fingerprints(["dev"])
    (swept,) = clean(sqlite)
    assert swept.rows == 2 and swept.why == "old rows that no longer count"
    assert sqlite.lake.state.read_fingerprints(["dev"]) == before
    assert clean(sqlite) == []
    (swept,) = clean(sqlite, days=0, dry_run=True) or [JanitorAction("kept", "", "")]
    assert swept.rows == 0


def test_the_last_result_that_did_something_is_kept_for_ever(sqlite: SqliteProbe) -> None:
    now = datetime.now(UTC)
    worked = replace(result("load", "r1", 0), payload='{"cursor": 7}', status="ok", ts=now - timedelta(days=300))
    idle = replace(worked, run_id="r2", payload="", ts=now - timedelta(days=250))
    failed = replace(worked, run_id="r3", payload="", status="failed", ts=now - timedelta(days=200))
    skipped = replace(failed, run_id="r4", status="skipped", ts=now - timedelta(days=150))
    old = [replace(worked, run_id="r0", ts=now - timedelta(days=400)), replace(failed, run_id="r00", ts=idle.ts)]
    sqlite.lake.state.append_node_results([*old, worked])
    sqlite.lake.state.append_node_results([idle, failed])
    sqlite.lake.state.append_node_results([skipped])
    (swept,) = clean(sqlite)
    assert swept.rows == 2
    assert [r.run_id for r in sqlite.lake.state.read_node_results(["dev"])] == ["r4", "r3", "r2", "r1"]


def test_rows_that_violated_checks_grow_old(sqlite: SqliteProbe) -> None:
    now = datetime.now(UTC)
    old, young = replace(failed_row(1), ts=now - timedelta(days=100)), replace(failed_row(2), ts=now)
    sqlite.lake.state.append_failures([old, replace(old, row_json="{}")])
    sqlite.lake.state.append_failures([young])
    (swept,) = clean(sqlite)
    assert (swept.name, swept.rows, swept.why) == ("dev._sqlbuild_failures", 2, "old rows that no longer count")
    assert list(sqlite.lake.state.read_failures(["dev"])) == [young]
    assert clean(sqlite) == []
    # No row is the latest of anything: in the end all of them go.
    (swept,) = clean(sqlite, days=100)
    assert swept.rows == 1 and list(sqlite.lake.state.read_failures(["dev"])) == []
    assert list((sqlite.root / "data" / "dev").rglob("*.parquet")) == []
    assert clean(sqlite, days=100) == []
    sqlite.lake.state.append_failures([young])
    assert list(sqlite.lake.state.read_failures(["dev"])) == [young]


def test_two_janitors(iceberg: IcebergProbe) -> None:
    write(iceberg, [[1], ["a"]])
    die(iceberg, FIRST, state(iceberg).base)
    first = Janitor(iceberg.lake, KEEP).clean()
    next(first)
    with pytest.raises(JanitorBusy):
        clean(iceberg)
    assert clean(iceberg, dry_run=True) == []
    first.close()
    assert clean(iceberg) == []


def test_a_janitor_beside_builds_and_histories(sqlite: SqliteProbe) -> None:
    """Builds that publish and append while the janitor goes round without any patience lose nothing."""
    stop = threading.Event()

    def build(number: int) -> None:
        target, base = Relation("shop", f"t{number}"), None
        for turn in range(6):
            run_id = f"20260301_12000{turn}_{number:06x}"
            with sqlite.lake.hold_run(run_id, "shop dev") as alive:
                base = write(sqlite, [[turn], ["a"]], base=base, target=target, run_id=run_id).state.base
                sqlite.lake.state.append_node_results([result(target.name, run_id, turn)])
                alive.finished = True

    def sweep() -> None:
        while not stop.is_set():
            clean(sqlite, replace(NONE, files=3 * DAY, history=10_000 * DAY))

    janitor = threading.Thread(target=sweep)
    janitor.start()
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(build, range(3)))
    finally:
        stop.set()
        janitor.join()
    assert len(sqlite.lake.state.read_node_results(["dev"])) == 18
    for number in range(3):
        assert sqlite.rows(Relation("shop", f"t{number}")) == [(5, "a")]
    clean(sqlite, NONE, days=1)
    assert sqlite.garbage() == {f for f in sqlite.files() if "_runs" in f}


def test_a_table_that_is_damaged_keeps_all_files(iceberg: IcebergProbe) -> None:
    grow(iceberg, 2)
    write(iceberg, [[1], ["a"]], target=Relation("shop", "other"))
    late = f"shop/orders/data/{FIRST}/late.parquet"
    iceberg.put_file(late, "x")
    rows = (f for f in iceberg.files() if f.startswith("data/shop/orders/") and f.endswith(".parquet"))
    lost = next(f for f in rows if FIRST not in f)
    iceberg.lake.storage.remove(f"{iceberg.lake.warehouse}{lost.removeprefix('data')}")
    (swept,) = clean(iceberg, days=5)
    assert swept.what == "kept" and swept.name == "shop.orders" and "not there" in swept.why
    assert f"data/{late}" in iceberg.files()


@pytest.mark.parametrize("seed", range(6))
def test_what_stays_of_a_history_is_the_young_and_the_latest(sqlite: SqliteProbe, seed: int) -> None:
    random = Random(seed)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    rows: list[Fingerprint] = []
    for build in range(random.randint(2, 6)):
        batch = [
            replace(
                fingerprint(f"n{random.randint(0, 4)}"),
                metadata=f"{build} {number}",
                ts=begin + timedelta(seconds=random.randint(0, 6)),
            )
            for number in range(random.randint(1, 9))
        ]
        sqlite.lake.state.append_fingerprints(batch)
        rows += batch
    cutoff = begin + timedelta(seconds=random.randint(0, 8))
    latest = find_latest_fingerprints(rows).values()
    compact(sqlite.lake.open_journal(), FINGERPRINTS, "dev", cutoff, dry_run=False)
    left = sqlite.lake.open_journal().read(FINGERPRINTS, "dev")
    assert [r.metadata for r in left] == [r.metadata for r in rows if r.ts >= cutoff or r in latest]


def test_figures_of_groups_go_with_their_table(iceberg: IcebergProbe) -> None:
    """Those that the commit of a table names stay, however old; those of a table that is gone, or unnamed, do not."""
    figures, orphans = build_state_relation(ORDERS, 2), build_state_relation(Relation("shop", "gone"), 2)
    unnamed = build_state_relation(ORDERS, 5)
    iceberg.lake.ensure_schemas(["shop", figures.schema])
    shape = replace(ID_AND_NAME, properties={"sqb.model": "shop.orders"})

    def publish(target: Relation, identity: CommitIdentity) -> int:
        pointer = iceberg.lake.list_pointers().get(target)
        current = iceberg.lake.read_tables([pointer])[target] if pointer is not None else None
        stage = iceberg.lake.stage(target, shape, current.base if current is not None else None, FIRST)
        iceberg.lake.fill(stage, [[1], ["a"]])
        return iceberg.lake.publish(stage, identity.to_properties()).snapshot_id

    named = publish(figures, CommitIdentity(group_state_of=str(ORDERS)))
    publish(figures, CommitIdentity(group_state_of=str(ORDERS)))
    publish(orphans, CommitIdentity(group_state_of="shop.gone"))
    publish(unnamed, CommitIdentity(group_state_of=str(ORDERS)))
    states = encode_states([NamedState(2, named, "t"), NamedState(7, 0, "")])
    publish(ORDERS, CommitIdentity(model="shop.orders", group_state=states))
    assert ("version", str(orphans)) in list_actions(clean(iceberg, dry_run=True, days=400))
    assert ("version", str(orphans)) in list_actions(clean(iceberg, days=400))
    assert {orphans, unnamed}.isdisjoint(iceberg.lake.list_pointers()) and figures in iceberg.lake.list_pointers()
    assert iceberg.lake.has_snapshot(figures, named)
