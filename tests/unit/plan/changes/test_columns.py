"""Columns that change above a node: which of them are a reason to run, and what the plan says of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sqb.compile.model import Node, Project
from sqb.names import Relation
from sqb.plan.changes.columns import Field, parse_unchanged_columns, resolve_column_reads
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Reason
from sqb.plan.observed import RelationState, Version
from unit.plan.worlds import built, built_node, node, observed, project, source

Shape = tuple[Field, ...]


def shape(text: str) -> Shape:
    """`id 1 long, name 2 string`: the columns of a table, with their ids."""
    fields = (part.split() for part in text.split(", ") if part)
    return tuple((name, json.dumps(kind), int(number)) for name, number, kind in fields)


def token(columns: Shape) -> str:
    return repr([field[:2] for field in columns])


def at(
    text: str,
    snapshot: int = 1,
    schema: int = 0,
    before: tuple[str, ...] = (),
    content: str | None = None,
    remaining: str = "",
) -> Version:
    """A version of a table with these columns, which it had others before."""
    columns = shape(text)
    former = {f"{i}:{token(shape(old))}": shape(old) for i, old in enumerate(before)}
    return Version(snapshot, (), content, token(columns), None, schema or len(before), columns, former, remaining)


def reader(*read: str, kind: str = "table", name: str = "s.r", of: str = "raw.x") -> Node:
    """A node that reads these columns of one input."""
    return replace(node(name, of, kind=kind), reads=(of,), reading=(read,))


OLD = "id 1 long, name 2 string, price 3 int"


def decided(read: tuple[str, ...], now: Version, kind: str = "table", then: str = OLD) -> tuple[str, str, str]:
    world = project(reader(*read, kind=kind), externals=("raw.x",))
    raw = Relation("raw", "x")
    lake = built(world, {raw: RelationState(version=at(then))})
    entry = make_plan(world, observed({**lake, raw: RelationState(version=now)})).nodes[0]
    return entry.action, str(entry.reason), entry.detail


RUNS = [
    # What is read, the columns now, what the plan says.
    (("id",), "id 1 int, name 2 string, price 3 int", 'raw.x changed the column "id" from bigint to int'),
    (("id",), "name 2 string, price 3 int", 'raw.x lost the column "id"'),
    (("id", "new"), f"{OLD}, new 4 int", 'raw.x has a new column "new"'),
    (("name",), "id 1 long, NAME 2 string, price 3 int", 'raw.x renamed the column "name" to "NAME"'),
    (("name",), "id 1 long, title 2 string, price 3 int", 'raw.x lost the column "name"'),
    (
        ("id", "price"),
        "name 2 string, price 3 long",
        'raw.x lost the column "id", changed the column "price" from int to bigint',
    ),
    (("*",), f"{OLD}, new 4 int", 'raw.x has a new column "new"'),
    (("**",), f"{OLD}, new 4 int", 'raw.x has a new column "new"'),
    (("**",), "id 1 long, name 2 string", 'raw.x lost the column "price"'),
    (("**",), "name 2 string, id 1 long, price 3 int", "raw.x has its columns in another order"),
    (("id", "*"), f"{OLD}, new 4 int", 'raw.x has a new column "new"'),
]


@pytest.mark.parametrize(("read", "now", "detail"), RUNS)
@pytest.mark.parametrize("kind", ["table", "view", "merge", "append"])
def test_columns_that_are_read_and_change_are_a_reason(read: tuple[str, ...], now: str, detail: str, kind: str) -> None:
    assert decided(read, at(now, before=(OLD,)), kind) == ("run", "Schema changed", detail)


STAYS = [
    (("id",), f"{OLD}, new 4 int"),
    (("id",), "id 1 long"),
    (("id",), "id 1 long, name 2 string, price 3 long"),
    (("id",), "id 1 long, title 2 string, price 3 int"),
    (("id",), "price 3 int, name 2 string, id 1 long"),
    (("id", "nowhere"), f"{OLD}, new 4 int"),
    ((), "other 9 string"),
]


@pytest.mark.parametrize(("read", "now"), STAYS)
@pytest.mark.parametrize("kind", ["table", "view"])
def test_columns_that_are_not_read_may_change(read: tuple[str, ...], now: str, kind: str) -> None:
    assert decided(read, at(now, before=(OLD,)), kind) == ("skip", "Normal", "")


def test_a_column_that_was_dropped_and_added_again_has_other_values() -> None:
    now = at("id 1 long, name 9 string, price 3 int", schema=2, before=(OLD, "id 1 long, price 3 int"))
    assert decided(("id",), now) == ("skip", "Normal", "")
    assert decided(("name",), now)[1:] == ("Source changed", "raw.x dropped columns and added others of their names")
    assert decided(("**",), now)[1] == "Source changed"
    # A view has no rows of its own.
    assert decided(("name",), now, "view") == ("skip", "Normal", "")


def test_columns_that_nobody_remembers_are_others() -> None:
    assert decided(("id",), at(f"{OLD}, new 4 int", schema=1))[1:] == ("Schema changed", "raw.x has other columns")


def test_new_rows_are_a_change_whatever_the_columns_are() -> None:
    moved = ("run", "Source changed", "raw.x moved from snapshot 1 to 2")
    assert decided(("id",), at(f"{OLD}, new 4 int", 2, before=(OLD,))) == moved
    assert decided(("id",), at(OLD, 2)) == moved
    assert decided(("id",), at(f"{OLD}, new 4 int", 2, before=(OLD,)), "view")[0] == "skip"


def test_a_recreated_table_is_another_one() -> None:
    # Its schemas count from 0 again: 0 is not the schema that was read.
    assert decided(("id",), at("id 1 long", 2))[1] == "Schema changed"
    assert decided(("id",), at(OLD, 2))[1] == "Source changed"


def test_what_was_recorded_before_schemas_were_still_counts() -> None:
    world = project(reader("id"), externals=("raw.x",))
    raw = Relation("raw", "x")
    lake = built(world, {raw: RelationState(version=replace(at(OLD), schema_id=None))})
    for now, action in ((at(f"{OLD}, new 4 int", before=(OLD,)), "skip"), (at("name 2 string", before=(OLD,)), "run")):
        assert make_plan(world, observed({**lake, raw: RelationState(version=now)})).nodes[0].action == action


# --- models above -------------------------------------------------------------------------------------------------

UP = node("s.u")
RELATION = UP.relation


def rebuilt(read: tuple[str, ...], now: Version) -> tuple[str, str]:
    """What becomes of a reader of a model that was rebuilt since."""
    world = project(UP, reader(*read, of="s.u"))
    lake = built(world)
    lake[RELATION] = replace(lake[RELATION], version=at(OLD, content="c1"))
    lake[Relation("s", "r")] = built_node(world.nodes["s.r"], world, lake, 7)
    lake[RELATION] = replace(lake[RELATION], version=now)
    entry = {n.name: n for n in make_plan(world, observed(lake)).nodes}["s.r"]
    return entry.action, str(entry.reason)


def encode_entries(*entries: tuple[str, str, str]) -> str:
    return json.dumps([[content, token(shape(columns)), names.split()] for content, columns, names in entries])


GROWN = f"{OLD}, new 4 int"
KEPT = [
    # What the commit says of earlier contents, what is read, what becomes of the reader.
    (encode_entries(("c1", OLD, "id name price")), ("id",), "Normal"),
    (encode_entries(("c1", OLD, "id name price")), ("id", "price", "alias"), "Normal"),
    (encode_entries(("c1", OLD, "id price")), ("id", "price"), "Normal"),
    (encode_entries(("c1", OLD, "id price")), ("id", "name"), "Upstream changed"),
    (encode_entries(("c1", OLD, "id name price")), ("new",), "Schema changed"),
    (encode_entries(("c1", OLD, "id name price")), ("*",), "Schema changed"),
    (encode_entries(("c0", OLD, "id name price")), ("id",), "Upstream changed"),
    (encode_entries(("c1", "id 1 long", "id")), ("id",), "Upstream changed"),
    (encode_entries(("c0", OLD, "id"), ("c1", OLD, "name id")), ("id",), "Normal"),
    ("", ("id",), "Upstream changed"),
    ("broken", ("id",), "Upstream changed"),
    ("[1]", ("id",), "Upstream changed"),
]


@pytest.mark.parametrize(("remaining", "read", "reason"), KEPT)
def test_a_model_that_only_got_more_columns_does_not_run_its_readers(
    remaining: str, read: tuple[str, ...], reason: str
) -> None:
    now = at(GROWN, 500, before=(OLD,), content="c2", remaining=remaining)
    assert rebuilt(read, now)[1] == reason


def test_other_values_in_columns_that_are_not_read_do_not_matter() -> None:
    now = at(OLD, 500, content="c2", remaining=encode_entries(("c1", OLD, "id name")))
    assert rebuilt(("id", "name"), now) == ("skip", "Normal")
    assert rebuilt(("id", "price"), now) == ("run", "Upstream changed")
    assert rebuilt(("**",), now) == ("run", "Upstream changed")


def test_columns_of_a_model_that_is_about_to_run_are_decided_about_then() -> None:
    world = project(UP, reader("id", of="s.u"))
    lake = built(world)
    lake[RELATION] = replace(lake[RELATION], version=at(OLD, content="c1"))
    lake[Relation("s", "r")] = built_node(world.nodes["s.r"], world, lake, 7)
    lake[RELATION] = replace(lake[RELATION], version=at("name 2 string", 500, before=(OLD,), content="c2"))
    edited = project(replace(UP, query_hash="new", local_hash="new"), world.nodes["s.r"])
    entry = {n.name: n for n in make_plan(edited, observed(lake)).nodes}["s.r"]
    assert (entry.reason, entry.pending, entry.detail) == (
        Reason.UPSTREAM_CHANGED,
        True,
        "s.u runs; if its output changes",
    )
    alone = make_plan(edited, observed(lake), Options(frozenset({"s.r"})))
    assert alone.nodes[0].reason is Reason.SCHEMA_CHANGED
    assert alone.warnings == ("s.r reads s.u, which is out of date and not selected: s.u: Query changed",)


def test_columns_that_may_come_back_hide_no_other_reason() -> None:
    world = project(UP, reader("id", of="s.u"))
    lake = built(world)
    lake[RELATION] = replace(lake[RELATION], version=at(OLD, content="c1"))
    mine = lake[Relation("s", "r")] = built_node(world.nodes["s.r"], world, lake, 7)
    lake[RELATION] = replace(lake[RELATION], version=at("name 2 string", 500, before=(OLD,), content="c2"))
    edited = project(replace(UP, query_hash="new", local_hash="new"), world.nodes["s.r"])
    forced = make_plan(edited, observed(lake), Options(force=True)).nodes[1]
    assert (forced.reason, forced.pending) == (Reason.FORCED, False)
    drifted = make_plan(edited, observed({**lake, Relation("s", "r"): replace(mine, drifted=True)})).nodes[1]
    assert (drifted.reason, drifted.pending) == (Reason.CHANGED_OUTSIDE, False)


def test_two_inputs_with_other_columns() -> None:
    both = replace(node("s.r", "raw.x", "raw.y"), reads=("raw.x", "raw.y"), reading=(("id",), ("**",)))
    world = project(both, externals=("raw.x", "raw.y"))
    x, y = Relation("raw", "x"), Relation("raw", "y")
    lake = built(world, {x: RelationState(version=at(OLD)), y: RelationState(version=at(OLD))})
    lake = {
        **lake,
        x: RelationState(version=at("name 2 string", before=(OLD,))),
        y: RelationState(version=at(GROWN, before=(OLD,))),
    }
    entry = make_plan(world, observed(lake)).nodes[0]
    assert (str(entry.reason), entry.detail) == ("Schema changed", 'raw.x lost the column "id"; and 1 more')


# --- through views ------------------------------------------------------------------------------------------------


def through_views(*read: str, star: str) -> Project:
    view = replace(node("s.v", "raw.x", kind="view"), reads=("raw.x",), reading=((star, "flag"),))
    return project(view, reader(*read, of="s.v"), externals=("raw.x",))


@pytest.mark.parametrize(
    ("star", "read", "expected"),
    [
        ("*", ("id",), {"id", "flag"}),
        ("*", ("**",), {"**", "flag"}),
        ("**", ("id",), {"**", "flag"}),
        ("name", ("id",), {"name", "flag"}),
    ],
)
def test_what_is_read_of_a_table_through_a_view(star: str, read: tuple[str, ...], expected: set[str]) -> None:
    world = through_views(*read, star=star)
    assert resolve_column_reads(world.nodes["s.r"], world) == {"view s.v": set(read), "raw.x": expected}
    assert resolve_column_reads(world.nodes["s.v"], world)["raw.x"] == {"**" if star == "*" else star, "flag"}


def test_a_new_column_beneath_a_view_of_everything_runs_the_view_and_not_its_readers() -> None:
    world = through_views("id", star="*")
    raw = Relation("raw", "x")
    lake = built(world, {raw: RelationState(version=at(OLD))})
    plan = make_plan(world, observed({**lake, raw: RelationState(version=at(GROWN, before=(OLD,)))}))
    assert [(n.name, n.action, str(n.reason)) for n in plan.nodes] == [
        ("s.v", "run", "Schema changed"),
        ("s.r", "skip", "Normal"),
    ]


VIEW = replace(
    node("s.v", "raw.x", kind="view"),
    reads=("raw.x",),
    reading=(("id", "name"),),
    columns={"": "rest", "id": "1", "name": "2"},
)


@pytest.mark.parametrize(
    ("columns", "read", "reason"),
    [
        # A view with more columns, others or another rest, for who reads some of them.
        ({"": "rest", "id": "1", "name": "2", "price": "3"}, ("id",), "Normal"),
        ({"": "rest", "id": "1"}, ("id",), "Normal"),
        ({"": "rest", "id": "1", "name": "other"}, ("id",), "Normal"),
        ({"": "rest", "id": "1", "name": "2", "price": "3"}, ("id", "alias"), "Normal"),
        ({"": "rest", "id": "1", "name": "2", "alias": "3"}, ("id", "alias"), "Upstream changed"),
        ({"": "rest", "id": "other", "name": "2"}, ("id",), "Upstream changed"),
        ({"": "rest", "name": "2"}, ("id",), "Upstream changed"),
        ({"": "other", "id": "1", "name": "2"}, ("id",), "Upstream changed"),
        ({"": "rest", "id": "1", "name": "2", "price": "3"}, ("*",), "Upstream changed"),
        ({"": "rest", "id": "1", "name": "2", "price": "3"}, ("**",), "Upstream changed"),
        ({}, ("id",), "Upstream changed"),
    ],
)
@pytest.mark.parametrize("between", [False, True])
def test_columns_of_a_view_that_are_not_read(
    columns: dict[str, str], read: tuple[str, ...], reason: str, between: bool
) -> None:
    above = replace(reader("*", kind="view", name="s.w", of="s.v"), columns={"": "a star"}) if between else None
    last = reader(*read, of="s.w" if between else "s.v")
    others = (*([above] if above else []), last)
    raw = {Relation("raw", "x"): RelationState(version=at(OLD))}
    lake = built(project(VIEW, *others, externals=("raw.x",)), raw)
    edited = replace(VIEW, columns=columns, local_hash="new", query_hash="new")
    plan = make_plan(project(edited, *others, externals=("raw.x",)), observed(lake))
    by_name = {n.name: str(n.reason) for n in plan.nodes}
    assert (by_name["s.v"], by_name["s.r"]) == ("Query changed", reason)


def test_a_query_that_nothing_is_known_of_reads_everything() -> None:
    world = project(replace(reader("id"), reading=()), externals=("raw.x",))
    assert resolve_column_reads(world.nodes["s.r"], world) == {"raw.x": {"**"}}
    assert make_plan(world, observed(built(world, {Relation("raw", "x"): source(1)}))).nothing_to_do


def test_what_a_commit_says_of_contents_before_it() -> None:
    assert parse_unchanged_columns('[["n:1","t",["a"]]]') == [("n:1", "t", ["a"])]
    assert parse_unchanged_columns("") == parse_unchanged_columns("{") == parse_unchanged_columns('[["a"]]') == []
