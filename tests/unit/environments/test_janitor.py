"""What of virtual environments may go, decided from facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sqb.environments.janitor import (
    StoreFacts,
    collect_references,
    exclude,
    filter_past_grace,
    find_dead_versions,
    find_expired,
    find_spare_checkpoints,
    find_unused,
)
from sqb.environments.model import Binding, Checkpoint, Environment, Journal, Ref, Status, Version
from sqb.names import Relation

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def table(name: str, version: str = "1", snapshot: int = 7) -> Binding:
    relation = Relation("dev__sqb_physical", f"{name}__v_{version}")
    return Binding(name, "model", "table", version, version, relation, snapshot, reads=((str(relation), snapshot),))


def at(name: str, version: str = "1") -> str:
    return f"dev__sqb_physical.{name}__v_{version}"


def environment(name: str, hours_ago: float = 0.0, ttl: float | None = 3600.0, **more: object) -> Environment:
    moment = NOW - hours_ago * HOUR
    values = {"status": Status.FINALIZED, "created_at": moment, "updated_at": moment, "ttl": ttl, **more}
    return Environment(name, **values)  # type: ignore[arg-type]


def version(binding: Binding, hours_ago: float = 0.0) -> Version:
    return Version(
        binding.name,
        binding.version_hash,
        "",
        "",
        "",
        "",
        "",
        relation=binding.relation,
        created_at=NOW - hours_ago * HOUR,
    )


def checkpoint(number: int, parent: int = 0, refs: list[Binding] | None = None, name: str = "dev") -> Checkpoint:
    by_name = {b.name: b.id for b in refs or ()}
    return Checkpoint(
        f"c{number}", name, f"c{parent}" if parent else "", NOW + number * HOUR, "build", "", "", "", by_name, number
    )


def known(shown: dict[str, list[Binding]], *others: Binding, **more: object) -> StoreFacts:
    """A store whose environments show some bindings, and that has heard of others."""
    bound = [b for bindings in shown.values() for b in bindings]
    return StoreFacts(
        environments={n: environment(n) for n in shown},
        refs={n: {b.name: Ref(b) for b in bindings} for n, bindings in shown.items()},
        bindings={b.id: b for b in (*bound, *others)},
        versions={(b.name, b.version_hash): version(b) for b in (*bound, *others)},
        **more,  # type: ignore[arg-type]
    )


# --- environments ---


@pytest.mark.parametrize(
    ("result", "goes"),
    [
        (environment("pr", 2), True),
        (environment("pr", 0.5), False),
        (environment("pr", 2, ttl=None), False),
        (environment("pr", 2, status=Status.DETACHED), False),
        (environment("pr", 2, status=Status.ACTIVE), True),
        (environment("dev", 2), False),
    ],
)
def test_an_environment_goes_when_its_time_is_over(result: Environment, goes: bool) -> None:
    facts = StoreFacts(environments={result.name: result})
    assert find_expired(facts, ["dev", ""], NOW) == ((result.name,) if goes else ())


def test_what_another_environment_began_as_stays() -> None:
    old, new = environment("staging", 2), environment("pr", 0, baseline="staging")
    assert find_expired(StoreFacts(environments={"staging": old, "pr": new}), ["dev"], NOW) == ()


# --- checkpoints ---


def test_the_newest_checkpoints_stay() -> None:
    line = [checkpoint(n, n - 1) for n in range(1, 6)]
    assert find_spare_checkpoints("c5", line, 3) == ("c1", "c2")
    assert find_spare_checkpoints("c5", line, 5) == ()


def test_where_an_environment_is_and_its_way_back_stay() -> None:
    line = [checkpoint(n, n - 1) for n in range(1, 11)]
    assert find_spare_checkpoints("c4", line, 2) == ("c1", "c2", "c5", "c6", "c7", "c8")


def test_one_checkpoint_stays_whatever_is_asked_for() -> None:
    assert find_spare_checkpoints("", [checkpoint(1), checkpoint(2, 1)], 0) == ("c1",)


def test_a_checkpoint_that_a_move_goes_to_stays() -> None:
    line = [checkpoint(n, n - 1) for n in range(1, 6)]
    assert find_spare_checkpoints("c5", line, 1, ["c2"]) == ("c1", "c3", "c4")


def test_parents_in_a_circle_end() -> None:
    assert find_spare_checkpoints("c1", [checkpoint(1, 2), checkpoint(2, 1)], 5) == ()


# --- what is needed ---


def test_refs_checkpoints_and_moves_need_versions_and_snapshots() -> None:
    shown, remaining, moving, spare = table("a", "1"), table("a", "2", 8), table("a", "3", 9), table("a", "4")
    journal = Journal("j", environment("new"), {"a": Ref(moving)}, ())
    facts = known(
        {"dev": [shown]},
        remaining,
        moving,
        spare,
        checkpoints=[checkpoint(1, 0, [remaining])],
        journals={"new": journal},
    )
    needed = collect_references(facts)
    assert needed.relations == {at("a", "1"), at("a", "2"), at("a", "3")}
    assert needed.snapshots == {at("a", "1"): {7}, at("a", "2"): {8}, at("a", "3"): {9}}
    assert find_unused(facts, [at("a", str(n)) for n in range(1, 5)], NOW) == {at("a", "4"): NOW}


def test_a_checkpoint_that_is_being_made_needs_what_it_refers_to() -> None:
    remaining = table("a", "2", 8)
    journal = Journal("j", environment("dev"), {}, (), checkpoint(1, 0, [remaining]))
    assert collect_references(known({"dev": []}, remaining, journals={"dev": journal})).relations == {at("a", "2")}


def test_a_view_needs_the_tables_that_it_shows_and_what_it_was_made_from() -> None:
    above, shown = table("a", "1"), table("t", "1", 3)
    view = replace(table("v"), kind="view", snapshot_id=None, reads=((at("t"), 3),), upstream={"a": "1", "gone": "5"})
    needed = collect_references(known({"dev": [view]}, above, shown))
    assert needed.relations == {at("v"), at("t"), at("a")}
    assert needed.snapshots == {at("t"): {3}}


def test_a_table_does_not_need_what_it_was_made_from() -> None:
    facts = known({"dev": [replace(table("b"), upstream={"a": "1"})]}, table("a"))
    assert collect_references(facts).relations == {at("b")}


def test_two_snapshots_of_one_version_are_both_needed() -> None:
    assert collect_references(known({"dev": [table("a")], "pr": [table("a", "1", 9)]})).snapshots == {at("a"): {7, 9}}


def test_a_function_has_no_table() -> None:
    function = Binding("f()", "function", "sql", "1", "1")
    assert collect_references(known({"dev": [function]})).relations == set()
    assert find_unused(known({"dev": [function]}), [], NOW) == {}


# --- what nothing refers to ---


def test_the_time_of_grace_begins_when_it_was_first_seen() -> None:
    facts = known({"dev": []}, table("a"), table("b"), unused={at("a"): NOW - 3 * HOUR, at("used"): NOW - 9 * HOUR})
    since = find_unused(facts, [at("a"), at("b")], NOW)
    assert since == {at("a"): NOW - 3 * HOUR, at("b"): NOW}
    assert filter_past_grace(since, 3600, NOW) == (at("a"),)
    assert filter_past_grace(since, 4 * 3600, NOW) == ()
    assert filter_past_grace(since, 0, NOW) == (at("a"), at("b"))


def test_what_is_used_again_begins_anew() -> None:
    facts = known({"dev": [table("a")]}, unused={at("a"): NOW - 9 * HOUR})
    assert find_unused(facts, [at("a")], NOW) == {}


def test_a_clock_that_was_wrong_is_not_believed() -> None:
    facts = known({"dev": []}, table("a"), unused={at("a"): NOW + 9 * HOUR})
    assert find_unused(facts, [at("a")], NOW) == {at("a"): NOW}


def test_only_tables_that_are_known_and_nobody_elses_go() -> None:
    facts = known({"dev": []}, table("a"), table("b"), foreign=frozenset([at("b")]))
    assert find_unused(facts, [at("a"), at("b"), at("strange")], NOW) == {at("a"): NOW}
    assert facts.owned == {at("a")}


def test_what_an_environment_or_checkpoint_needed_is_free_without_it() -> None:
    facts = known(
        {"dev": [table("a")], "pr": [table("a", "2")]},
        table("a", "3"),
        checkpoints=[checkpoint(1, 0, [table("a", "3")]), checkpoint(2, 1, [table("a", "2")], "pr")],
    )
    current = [at("a", v) for v in "123"]
    assert find_unused(facts, current, NOW) == {}
    assert list(find_unused(exclude(facts, ["pr"], []), current, NOW)) == [at("a", "2")]
    assert list(find_unused(exclude(facts, ["pr"], ["c1"]), current, NOW)) == [at("a", "2"), at("a", "3")]


def test_versions_without_a_table_are_forgotten_after_the_time_of_grace() -> None:
    facts = known({"dev": [table("a")]}, table("b"), table("c"), table("d"))
    facts = replace(facts, versions={**facts.versions, ("d", "1"): version(table("d"), 5)})
    facts = replace(facts, versions={**facts.versions, ("c", "1"): version(table("c"), 5)})
    assert find_dead_versions(facts, [at("c")], 3600, NOW) == (("d", "1"),)
