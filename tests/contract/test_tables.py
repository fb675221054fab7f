"""Tables: what is staged becomes visible in one commit, with its identity, and only on top of what was seen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, Probe, shape, state, write
from sqb.errors.lake import Conflict, LakeError, UnsupportedType
from sqb.lake.metadata.table_state import compute_text_token
from sqb.lake.port import STAGE_SCHEMA, format_shape_key
from sqb.names import Relation


def test_a_new_lake_holds_nothing(probe: Probe) -> None:
    assert probe.lake.list_pointers() == {}
    assert probe.lake.read_tables([]) == {}


def test_a_stage_is_not_the_target(probe: Probe) -> None:
    probe.lake.ensure_schemas(["shop"])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, None, "r1")
    probe.lake.fill(stage, [[1], ["a"]])
    assert ORDERS not in probe.lake.list_pointers()


def test_create(probe: Probe) -> None:
    published = write(probe, [[1, 2], ["a", "b"]])
    assert probe.rows(ORDERS) == [(1, "a"), (2, "b")]
    seen = state(probe)
    assert seen == published.state
    assert seen.snapshot_id == published.snapshot_id and seen.same_rows == (published.snapshot_id,)
    assert seen.identity.to_properties() == SUMMARY and not seen.drifted and seen.rows == 2
    assert [(c.name, c.type, c.id) for c in seen.columns] == [("id", '"long"', 1), ("name", '"string"', 2)]
    assert seen.columns == seen.snapshot_columns


def test_a_table_gets_another_name_in_one_step(probe: Probe) -> None:
    published = write(probe, [[1, 2], ["a", "b"]])
    seen, other = probe.lake.list_pointers()[ORDERS], Relation("elsewhere", "sales")
    assert probe.lake.rename(seen, other)
    assert set(probe.lake.list_pointers()) == {other}
    assert state(probe, other) == published.state and probe.rows(other) == [(1, "a"), (2, "b")]
    # It is not there any more, it is another version, or the name is taken: then nothing happens.
    assert not probe.lake.rename(seen, Relation("elsewhere", "more"))
    renamed = probe.lake.list_pointers()[other]
    again = write(probe, [[3], ["c"]], target=other, base=published.state.base, run_id="r2")
    assert not probe.lake.rename(renamed, ORDERS)
    write(probe, [[4], ["d"]])
    assert not probe.lake.rename(probe.lake.list_pointers()[other], ORDERS)
    assert state(probe, other) == again.state and probe.rows(ORDERS) == [(4, "d")]


def test_replace_rows(probe: Probe) -> None:
    first = write(probe, [[1, 2], ["a", "b"]])
    second = write(probe, [[3], ["c"]], base=first.state.base, run_id="r2")
    assert probe.rows(ORDERS) == [(3, "c")]
    assert state(probe) == second.state
    assert second.state.identity.run_id == "r2" and second.state.rows == 1
    assert second.state.uuid == first.state.uuid and second.state.columns == first.state.columns


def test_publish_without_rows(probe: Probe) -> None:
    created = write(probe, [])
    assert probe.rows(ORDERS) == [] and created.state.rows == 0 and state(probe) == created.state
    filled = write(probe, [[1], ["a"]], base=created.state.base, run_id="r2")
    emptied = write(probe, [], base=filled.state.base, run_id="r3")
    assert probe.rows(ORDERS) == [] and emptied.state.rows == 0 and state(probe) == emptied.state
    filled_again = write(probe, [[], []], base=emptied.state.base, run_id="r4")
    assert probe.rows(ORDERS) == [] and state(probe) == filled_again.state


def ids(probe: Probe) -> dict[str, int]:
    return {c.name: c.id for c in state(probe).columns}


@pytest.mark.parametrize(
    ("columns", "values", "remaining", "new"),
    [
        ((("id", "long"), ("name", "string"), ("at", "date")), [[1], ["a"], [None]], {"id", "name"}, {"at"}),
        ((("id", "long"),), [[1]], {"id"}, set()),
        ((("id", "long"), ("title", "string")), [[1], ["a"]], {"id"}, {"title"}),
        ((("name", "string"), ("id", "long")), [["a"], [1]], {"id", "name"}, set()),
        ((("id", "string"), ("name", "string")), [["1"], ["a"]], {"name"}, {"id"}),
        ((("id", "integer"), ("name", "string")), [[1], ["a"]], {"name"}, {"id"}),
    ],
    ids=["add", "drop", "rename", "reorder", "another type", "narrower type"],
)
def test_changed_schema_never_reuses_an_id(probe: Probe, columns, values, remaining, new) -> None:
    first = write(probe, [[7], ["old"]])
    before = ids(probe)
    second = write(probe, values, wanted=shape(*columns), base=first.state.base, run_id="r2")
    after = ids(probe)
    assert {n for n in after if after[n] == before.get(n)} == remaining
    assert all(after[name] > max(before.values()) for name in new)
    assert [c.name for c in state(probe).columns] == [name for name, _ in columns]
    assert probe.rows(ORDERS) == [tuple(v[0] for v in values)]
    assert state(probe) == second.state and second.state.schema_id != first.state.schema_id
    assert second.state.columns_token != first.state.columns_token and not second.state.drifted
    # What it had before is remembered, by which it can be told what changed.
    key = format_shape_key(first.state.schema_id, first.state.columns_token)
    assert second.state.former_columns[key] == first.state.columns


def test_a_column_that_comes_back_is_a_new_column(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    second = write(probe, [[1]], wanted=shape(("id", "long")), base=first.state.base, run_id="r2")
    write(probe, [[1], ["a"]], base=second.state.base, run_id="r3")
    assert ids(probe) == {"id": 1, "name": 3}
    assert probe.rows(ORDERS) == [(1, "a")]


def test_nested_types(probe: Probe) -> None:
    struct = {
        "type": "struct",
        "fields": [
            {"name": "x", "type": "integer", "nullable": True, "metadata": {}},
            {"name": "y", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
        ],
    }
    array = {"type": "array", "elementType": "long", "containsNull": True}
    wanted = shape(("id", "long"), ("s", struct), ("a", array), ("after", "string"))
    first = write(probe, [[1], [None], [[1, 2]], ["z"]], wanted=wanted)
    kinds = {c.name: c.type for c in state(probe).columns}
    assert kinds["s"] == '["struct",[["x","int",false],["y","decimal(10, 2)",false]]]'
    assert kinds["a"] == '["list","long",false]'
    second = write(probe, [[1], [None], [[1, 2]], ["z"]], wanted=wanted, base=first.state.base, run_id="r2")
    assert second.state.columns == first.state.columns and second.state.schema_id == first.state.schema_id


def test_types_that_cannot_be_stored(probe: Probe) -> None:
    probe.lake.ensure_schemas(["shop"])
    with pytest.raises(UnsupportedType, match='"n"'):
        probe.lake.stage(ORDERS, shape(("n", "void")), None, "r1")
    with pytest.raises(UnsupportedType, match='"i"'):
        probe.lake.stage(ORDERS, shape(("i", "interval day to second")), None, "r1")
    with pytest.raises(UnsupportedType, match="partitioned_by"):
        probe.lake.stage(ORDERS, shape(("id", "long"), partitioned_by=("day",)), None, "r1")
    with pytest.raises(UnsupportedType, match="sorted_by"):
        probe.lake.stage(ORDERS, shape(("id", "long"), sorted_by=("day",)), None, "r1")


def test_properties_are_set_and_taken_back(probe: Probe) -> None:
    with_one = shape(("id", "long"), ("name", "string"), properties={"write.parquet.compression-codec": "zstd"})
    first = write(probe, [[1], ["a"]], wanted=with_one)
    assert probe.properties(ORDERS)["write.parquet.compression-codec"] == "zstd"
    other = shape(("id", "long"), ("name", "string"), properties={"comment": "orders"})
    second = write(probe, [[1], ["a"]], wanted=other, base=first.state.base, run_id="r2")
    assert "write.parquet.compression-codec" not in probe.properties(ORDERS)
    assert probe.properties(ORDERS)["comment"] == "orders"
    write(probe, [[1], ["a"]], base=second.state.base, run_id="r3")
    assert "comment" not in probe.properties(ORDERS)
    assert probe.properties(ORDERS)["sqb.model"] == "shop.orders"


def test_a_stage_tells_whether_the_target_has_its_shape(probe: Probe) -> None:
    columns = (("id", "long"), ("name", "string"))
    wanted = shape(*columns, partitioned_by=("name",), sorted_by=("id",), properties={"comment": "x"})
    others = [
        shape(*columns, partitioned_by=("name",), sorted_by=("id",)),
        shape(*columns, sorted_by=("id",), properties={"comment": "x"}),
        shape(*columns, partitioned_by=("name",), properties={"comment": "x"}),
        shape(*reversed(columns), partitioned_by=("name",), sorted_by=("id",), properties={"comment": "x"}),
    ]
    probe.lake.ensure_schemas(["shop"])
    assert not probe.lake.stage(ORDERS, wanted, None, "r0").same_shape
    base = write(probe, [[1], ["a"]], wanted=wanted).state.base
    assert probe.lake.stage(ORDERS, wanted, base, "r1").same_shape
    for number, other in enumerate(others):
        assert not probe.lake.stage(ORDERS, other, base, f"other{number}").same_shape


def test_touch_keeps_rows_and_changes_identity(probe: Probe) -> None:
    first = write(probe, [[1, 2], ["a", "b"]])
    touched = probe.lake.touch(ORDERS, first.state.base, {**SUMMARY, "sqb.run_id": "r2"})
    assert probe.rows(ORDERS) == [(1, "a"), (2, "b")]
    seen = state(probe)
    assert seen == touched.state
    assert seen.identity.run_id == "r2" and seen.rows == 2 and not seen.drifted
    assert seen.same_rows == (touched.snapshot_id, first.snapshot_id)
    with pytest.raises(Conflict):
        probe.lake.touch(ORDERS, first.state.base, SUMMARY)
    again = probe.lake.touch(ORDERS, touched.state.base, SUMMARY)
    assert again.state.same_rows == (again.snapshot_id, touched.snapshot_id, first.snapshot_id)
    replaced = write(probe, [[1, 2], ["a", "b"]], base=again.state.base, run_id="r3")
    assert replaced.state.same_rows == (replaced.snapshot_id,)


def test_mark_says_something_of_a_table_without_a_snapshot(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    assert first.state.properties["sqb.model"] == "shop.orders"
    marked = probe.lake.set_properties(ORDERS, first.state.base, {"sqb.done": "r1", "other": "x"})
    seen = state(probe)
    assert seen == marked.state and marked.snapshot_id == first.snapshot_id
    assert seen.properties == {**first.state.properties, "sqb.done": "r1"}
    assert probe.properties(ORDERS)["other"] == "x" and probe.rows(ORDERS) == [(1, "a")]
    assert (seen.identity, seen.same_rows, seen.base) == (first.state.identity, first.state.same_rows, first.state.base)
    second = write(probe, [[2], ["b"]], base=seen.base, run_id="r2")
    assert second.state.properties["sqb.done"] == "r1"


def test_a_mark_holds_wherever_the_rows_have_got_to_but_not_for_another_table(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    probe.append_as_stranger(ORDERS, [[2], ["b"]])
    assert probe.lake.set_properties(ORDERS, first.state.base, {"sqb.done": "r1"}).state.drifted
    assert state(probe).properties["sqb.done"] == "r1"
    probe.drop_as_stranger(ORDERS)
    with pytest.raises(Conflict):
        probe.lake.set_properties(ORDERS, first.state.base, {"sqb.done": "r2"})
    write(probe, [[5], ["e"]], run_id="r3")
    with pytest.raises(Conflict):
        probe.lake.set_properties(ORDERS, first.state.base, {"sqb.done": "r2"})
    assert "sqb.done" not in state(probe).properties


def test_discard(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    probe.lake.fill(stage, [[2], ["b"]])
    probe.lake.discard(stage)
    assert probe.rows(ORDERS) == [(1, "a")] and state(probe) == first.state
    assert set(probe.lake.list_pointers()) == {ORDERS}
    probe.lake.discard(stage)


def test_discard_after_publish_takes_nothing_away(probe: Probe) -> None:
    probe.lake.ensure_schemas(["shop"])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, None, "r1")
    probe.lake.fill(stage, [[1], ["a"]])
    probe.lake.publish(stage, SUMMARY)
    probe.lake.discard(stage)
    assert probe.rows(ORDERS) == [(1, "a")]


def test_conflict_when_the_table_moved(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    probe.lake.fill(stage, [[2], ["b"]])
    probe.append_as_stranger(ORDERS, [[9], ["z"]])
    with pytest.raises(Conflict) as caught:
        probe.lake.publish(stage, SUMMARY)
    assert caught.value.hint
    probe.lake.discard(stage)
    assert probe.rows(ORDERS) == [(1, "a"), (9, "z")]
    with pytest.raises(Conflict):
        probe.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r3")


def test_conflict_when_the_columns_moved(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    probe.add_column_as_stranger(ORDERS, "extra")
    with pytest.raises(Conflict):
        probe.lake.publish(stage, SUMMARY)
    probe.lake.discard(stage)
    assert probe.rows(ORDERS) == [(1, "a", None)]


def test_conflict_when_the_table_was_dropped(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    probe.drop_as_stranger(ORDERS)
    with pytest.raises(Conflict):
        probe.lake.publish(stage, SUMMARY)
    probe.lake.discard(stage)
    assert probe.lake.list_pointers() == {}


def test_conflict_when_the_table_was_dropped_and_made_again(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, first.state.base, "r2")
    probe.drop_as_stranger(ORDERS)
    write(probe, [[5], ["e"]], run_id="r3")
    with pytest.raises(Conflict):
        probe.lake.publish(stage, SUMMARY)
    probe.lake.discard(stage)
    assert probe.rows(ORDERS) == [(5, "e")]


def test_conflict_when_the_table_was_created(probe: Probe) -> None:
    probe.lake.ensure_schemas(["shop"])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, None, "r1")
    probe.lake.fill(stage, [[1], ["a"]])
    other = write(probe, [[5], ["e"]], run_id="r2")
    with pytest.raises(Conflict):
        probe.lake.publish(stage, SUMMARY)
    probe.lake.discard(stage)
    assert probe.rows(ORDERS) == [(5, "e")] and state(probe) == other.state
    assert set(probe.lake.list_pointers()) == {ORDERS}


def test_a_strangers_append_is_drift(probe: Probe) -> None:
    write(probe, [[1], ["a"]])
    probe.append_as_stranger(ORDERS, [[2], ["b"]])
    seen = state(probe)
    assert seen.drifted and not seen.identity and seen.rows == 2
    repaired = write(probe, [[1], ["a"]], base=seen.base, run_id="r2")
    assert not repaired.state.drifted and probe.rows(ORDERS) == [(1, "a")]


def test_an_alter_is_drift(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    probe.add_column_as_stranger(ORDERS, "extra")
    seen = state(probe)
    assert seen.drifted and seen.snapshot_id == first.snapshot_id
    assert [c.name for c in seen.columns] == ["id", "name", "extra"]
    assert [c.name for c in seen.snapshot_columns] == ["id", "name"]
    repaired = write(probe, [[1], ["a"]], base=seen.base, run_id="r2")
    assert not repaired.state.drifted and [c.name for c in repaired.state.columns] == ["id", "name"]


def test_a_strangers_table_is_not_drift(probe: Probe) -> None:
    write(probe, [[1], ["a"]], wanted=replace(ID_AND_NAME, properties={}))
    probe.append_as_stranger(ORDERS, [[2], ["b"]])
    assert not state(probe).drifted and not state(probe).identity


VIEW = Relation("shop", "recent_orders")


def test_views(probe: Probe) -> None:
    text = "SELECT id FROM lake.shop.orders"
    identity = {"sqb.model": "shop.recent_orders", "sqb.view_text": compute_text_token(text)}
    probe.put_view(VIEW, text, {**identity, "comment": "x"})
    assert probe.lake.list_pointers()[VIEW].is_view
    seen = state(probe, VIEW)
    assert seen.is_view and seen.identity.to_properties() == identity and not seen.drifted
    other = Relation("shop", "other")
    probe.put_view(other, "SELECT 2 AS id", identity)
    assert state(probe, other).drifted
    theirs = Relation("shop", "theirs")
    probe.put_view(theirs, "SELECT 3 AS id", {})
    assert not state(probe, theirs).drifted


def test_a_table_in_the_place_of_a_view(probe: Probe) -> None:
    probe.put_view(VIEW, "SELECT 1 AS id", {})
    published = write(probe, [[1], ["a"]], target=VIEW, view=state(probe, VIEW).base)
    assert not probe.lake.list_pointers()[VIEW].is_view
    assert state(probe, VIEW) == published.state and probe.rows(VIEW) == [(1, "a")]


def test_a_table_does_not_take_the_place_of_a_view_that_nobody_saw(probe: Probe) -> None:
    probe.put_view(VIEW, "SELECT 1 AS id", {})
    seen = state(probe, VIEW)
    with pytest.raises(Conflict):
        write(probe, [[1], ["a"]], target=VIEW)
    probe.drop_as_stranger(VIEW)
    with pytest.raises(Conflict):
        write(probe, [[1], ["a"]], target=VIEW, view=seen.base, run_id="r2")
    probe.put_view(VIEW, "SELECT 2 AS id", {})
    with pytest.raises(Conflict):
        write(probe, [[1], ["a"]], target=VIEW, view=seen.base, run_id="r3")
    assert probe.lake.list_pointers()[VIEW].is_view


STAGED = Relation(STAGE_SCHEMA, "shop__recent_orders__r1")


def test_a_view_in_the_place_of_a_table(probe: Probe) -> None:
    at = write(probe, [[1], ["a"]], target=VIEW).state.base
    with pytest.raises(LakeError):
        probe.lake.publish_view(STAGED, VIEW, at)
    assert not probe.lake.list_pointers()[VIEW].is_view
    probe.put_view(STAGED, "SELECT 1 AS id", {"sqb.model": "shop.recent_orders"})
    probe.lake.publish_view(STAGED, VIEW, at)
    assert {r: p.is_view for r, p in probe.lake.list_pointers().items()} == {VIEW: True}
    assert state(probe, VIEW).identity.to_properties() == {"sqb.model": "shop.recent_orders"}


def test_a_view_takes_the_place_only_of_what_was_seen(probe: Probe) -> None:
    probe.put_view(STAGED, "SELECT 1 AS id", {})
    seen = write(probe, [[1], ["a"]], target=VIEW, run_id="r2").state
    probe.append_as_stranger(VIEW, [[2], ["b"]])
    for base in (seen.base, None):
        with pytest.raises(Conflict) as error:
            probe.lake.publish_view(STAGED, VIEW, base)
        assert error.value.hint is not None and "run the build again" in error.value.hint
    assert probe.rows(VIEW) == [(1, "a"), (2, "b")]
    probe.drop_as_stranger(VIEW)
    with pytest.raises(Conflict):
        probe.lake.publish_view(STAGED, VIEW, seen.base)
    probe.put_view(VIEW, "SELECT 1 AS id", {})
    first = state(probe, VIEW)
    probe.lake.publish_view(STAGED, VIEW, first.base)
    probe.put_view(STAGED, "SELECT 2 AS id", {})
    with pytest.raises(Conflict):
        probe.lake.publish_view(STAGED, VIEW, first.base)
    probe.lake.discard_view(STAGED)
    probe.lake.discard_view(STAGED)
    assert set(probe.lake.list_pointers()) == {VIEW}


def test_runs_are_known_while_they_are_alive(probe: Probe) -> None:
    assert probe.lake.list_runs() == {}
    with probe.lake.hold_run("r1", "shop dev") as mine:
        seen = probe.lake.list_runs()["r1"]
        assert seen.alive and seen.owner == "shop dev" and not seen.settled
        mine.finished = True
    assert probe.lake.list_runs() == {}
    with pytest.raises(ValueError), probe.lake.hold_run("r2", "shop dev"):
        raise ValueError
    assert {r.id: (r.alive, r.settled) for r in probe.lake.list_runs().values()} == {"r2": (False, False)}
    probe.lake.settle_run("r2")
    probe.lake.settle_run("r9")
    assert {r.id: (r.alive, r.settled) for r in probe.lake.list_runs().values()} == {"r2": (False, True)}


def test_what_was_left_before_something_else_wrote(probe: Probe) -> None:
    first = write(probe, [[1], ["a"]])
    assert not first.state.last_identity
    probe.append_as_stranger(ORDERS, [[2], ["b"]])
    probe.append_as_stranger(ORDERS, [[3], ["c"]])
    seen = state(probe)
    assert not seen.identity and seen.last_identity.to_properties().items() >= SUMMARY.items()
    again = write(probe, [[1], ["a"]], base=seen.base, run_id="r2")
    assert not again.state.last_identity


def test_when_a_commit_was_made(probe: Probe) -> None:
    published = write(probe, [[1], ["a"]])
    made = probe.lake.read_commit_time(ORDERS, published.snapshot_id)
    assert made is not None and abs((datetime.now(UTC) - made).total_seconds()) < 60
    assert probe.lake.read_commit_time(ORDERS, 12345) is None
    assert probe.lake.read_commit_time(VIEW, 1) is None
    probe.put_view(VIEW, "SELECT 1 AS id", {})
    assert probe.lake.read_commit_time(VIEW, 1) is not None


def test_many_threads(probe: Probe) -> None:
    def build(number: int) -> None:
        target = Relation(f"s{number % 3}", f"t{number}")
        published = write(probe, [[number], ["a"]], target=target, run_id=f"a{number}")
        if number % 4 == 0:
            published = write(probe, [[number], ["b"]], base=published.state.base, target=target, run_id=f"b{number}")
            probe.lake.touch(target, published.state.base, SUMMARY)

    # An object store of one process is slow.
    many = 8 if "://" in getattr(probe.lake, "warehouse", "") else 40
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(build, range(many)))
    pointers = probe.lake.list_pointers()
    assert len(pointers) == many
    for relation in pointers:
        number = int(relation.name[1:])
        assert probe.rows(relation) == [(number, "a" if number % 4 else "b")]
