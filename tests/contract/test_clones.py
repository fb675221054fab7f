"""Clones: another table with the same rows and its own identity, at no cost, and neither changes with the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, Probe, SqliteProbe, shape, state, write
from sqb.errors.lake import Conflict
from sqb.lake.port import PublishedCommit
from sqb.names import Relation

DEV = Relation("dev", "orders")
ANN = Relation("ann", "orders")
OWN = {"sqb.model": "shop.orders", "sqb.run_type": "reuse", "sqb.run_id": "r9", "sqb.content": "2:abc"}


def clone(
    probe: Probe, of: PublishedCommit, source: Relation = ORDERS, target: Relation = DEV, base=None
) -> PublishedCommit:
    return probe.lake.clone(source, of.snapshot_id, target, OWN, base, "r9")


def test_a_clone_has_the_rows_and_an_identity_of_its_own(probe: Probe) -> None:
    first = write(probe, [[1, 2], ["a", "b"]])
    made = clone(probe, first)
    assert probe.rows(DEV) == probe.rows(ORDERS) == [(1, "a"), (2, "b")]
    seen = state(probe, DEV)
    assert seen == made.state and seen.identity.to_properties() == OWN and not seen.drifted and not seen.last_identity
    assert (seen.snapshot_id, seen.rows, seen.columns) == (first.snapshot_id, 2, first.state.columns)
    assert seen.uuid != first.state.uuid and seen.location != first.state.location
    assert state(probe, ORDERS).identity.to_properties() == SUMMARY


def test_a_clone_says_where_it_is_from_and_holds_that(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    clone(probe, first)
    message = probe.properties(DEV)
    assert message["sqb.clone_of"] == "shop.orders" and message["sqb.clone_snapshot"] == str(first.snapshot_id)
    assert message["gc.enabled"] == "false" and message["sqb.model"] == "shop.orders"
    assert probe.tags(ORDERS) == {message["sqb.clone_tag"]: first.snapshot_id}
    assert message["sqb.clone_tag"].startswith("sqb_clone_r9_")
    assert state(probe, ORDERS).base == first.state.base, "the source is as it was"


def test_what_was_said_of_the_source_later_is_not_said_of_the_clone(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    probe.lake.set_properties(ORDERS, first.state.base, {"sqb.checks": f"{first.snapshot_id}:passed", "owner": "ann"})
    clone(probe, first)
    assert "sqb.checks" not in state(probe, DEV).properties
    assert probe.properties(DEV)["owner"] == "ann"


def test_neither_changes_with_the_other(probe: Probe) -> None:
    first = write(probe, [[1, 2], ["a", "b"]])
    made = clone(probe, first)
    write(probe, [[3], ["c"]], base=first.state.base, run_id="r2")
    assert (probe.rows(ORDERS), probe.rows(DEV)) == ([(3, "c")], [(1, "a"), (2, "b")])
    write(probe, [[4], ["d"]], base=made.state.base, run_id="r3", target=DEV)
    assert (probe.rows(ORDERS), probe.rows(DEV)) == ([(3, "c")], [(4, "d")])
    wider = shape(("id", "long"), ("name", "string"), ("at", "date"))
    write(probe, [[5], ["e"], [None]], base=state(probe, DEV).base, run_id="r4", target=DEV, wanted=wider)
    assert probe.rows(DEV) == [(5, "e", None)] and [c.name for c in state(probe, ORDERS).columns] == ["id", "name"]


def test_a_clone_can_be_of_an_older_snapshot(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    write(probe, [[2], ["b"]], base=first.state.base, run_id="r2")
    clone(probe, first)
    assert (probe.rows(ORDERS), probe.rows(DEV)) == ([(2, "b")], [(1, "a")])


def test_rows_are_added_to_a_clone(probe: Probe) -> None:
    made = clone(probe, write(probe, [[1], ["a"]]))
    stage = probe.lake.stage(DEV, ID_AND_NAME, made.state.base, "r2")
    probe.lake.fill(stage, [[2], ["b"]])
    added = probe.lake.publish(stage, {**OWN, "sqb.run_id": "r2"}, replaced_files=())
    assert probe.rows(DEV) == [(1, "a"), (2, "b")] and not added.state.drifted
    touched = probe.lake.touch(DEV, added.state.base, OWN)
    assert touched.state.same_rows == (touched.snapshot_id, added.snapshot_id)


def test_a_clone_takes_the_place_of_what_was_seen(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    there = write(probe, [[7], ["old"]], target=DEV)
    with pytest.raises(Conflict):
        clone(probe, first)
    made = clone(probe, first, base=there.state.base)
    assert probe.rows(DEV) == [(1, "a")] and state(probe, DEV) == made.state
    with pytest.raises(Conflict):
        clone(probe, first, base=there.state.base)
    assert len(probe.tags(ORDERS)) == 1, "what was refused holds nothing"


def test_a_clone_takes_the_place_of_a_view(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    probe.put_view(DEV, "SELECT 1 AS id", {})
    clone(probe, first, base=state(probe, DEV).base)
    assert probe.rows(DEV) == [(1, "a")]


def test_what_is_not_there_cannot_be_cloned(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    with pytest.raises(Conflict, match="snapshot 12345 no longer exists"):
        probe.lake.clone(ORDERS, 12345, DEV, OWN, None, "r9")
    probe.drop_as_stranger(ORDERS)
    with pytest.raises(Conflict):
        clone(probe, first)
    assert DEV not in probe.lake.list_pointers()


def test_a_clone_of_a_clone_holds_both(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    made = clone(probe, first)
    later = write(probe, [[2], ["b"]], base=made.state.base, run_id="r2", target=DEV)
    clone(probe, later, source=DEV, target=ANN)
    tag = probe.properties(ANN)["sqb.clone_tag"]
    assert probe.rows(ANN) == [(2, "b")] and probe.properties(ANN)["sqb.clone_of"] == "dev.orders"
    assert probe.tags(DEV) == {tag: later.snapshot_id}
    assert probe.tags(ORDERS)[tag] == first.snapshot_id and len(probe.tags(ORDERS)) == 2


def test_a_clone_writes_one_file_and_what_is_written_to_it_lands_in_its_own_place(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    before = sqlite.files()
    made = clone(sqlite, first)
    new = {f for f in sqlite.files() - before if not f.startswith("data/shop/")}
    assert len(new) == 1 and new.pop().startswith("data/dev/orders/metadata/00000-")
    known = sqlite.files()
    write(sqlite, [[2], ["b"]], base=made.state.base, run_id="r2", target=DEV)
    assert all(Path(f).parts[1] == "dev" for f in sqlite.files() - known)
    assert sqlite.garbage() == set()


def test_a_clone_that_was_refused_leaves_no_file(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    before = sqlite.files()
    with pytest.raises(Conflict):
        clone(sqlite, first, base=first.state.base)
    assert not [f for f in sqlite.files() - before if f.startswith("data/dev/")]
