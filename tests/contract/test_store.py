"""What every store of environments does, whatever database is behind it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contract.stores import (
    NOW,
    SCOPE,
    StoreMaker,
    binding,
    checkpoint,
    environment,
    fingerprint,
    freshness,
    journal,
    move,
    version,
)
from sqb.environments.model import Binding, Ref, Status
from sqb.environments.state.store import Store
from sqb.errors.base import InternalError
from sqb.errors.environments import BadEnvironmentName, EnvironmentLocked, LockLost

A, B, B2 = binding("a"), binding("b"), binding("b", "v2", 8)


@pytest.fixture
def store(stores: StoreMaker) -> Store:
    return stores(SCOPE)


def test_an_empty_store_has_nothing(store: Store) -> None:
    assert store.read_environments() == {} and store.read_refs("dev") == {} and store.count_refs() == {}
    assert store.read_journal("dev") is None
    assert store.read_bindings() == {} and store.read_bindings(["x"]) == {} and store.read_versions() == {}
    assert list(store.read_checkpoints()) == [] and list(store.read_checkpoints("dev")) == []
    assert list(store.read_freshness("dev")) == [] and list(store.read_fingerprints("dev")) == []
    assert store.read_unused() == {} and store.read_locks() == {}
    assert store.read_schema_version() == 3 and store.prepare() is False


def test_a_state_has_an_id_and_knows_the_lake_of_a_scope(store: Store, stores: StoreMaker) -> None:
    assert len(store.read_state_id()) == 32 and stores(SCOPE).read_state_id() == store.read_state_id()
    assert stores("shop/prod").read_state_id() == store.read_state_id() and store.read_lake_id() == ""
    store.set_lake_id("one")
    store.set_lake_id("two")
    assert stores(SCOPE).read_lake_id() == "two" and stores("shop/prod").read_lake_id() == ""


# --- environments -----------------------------------------------------------------------------------------------------


def test_an_environment_comes_back_as_it_was(store: Store, stores: StoreMaker) -> None:
    full = environment("pr_1", 5, created_by="anna", baseline="dev", checkpoint="c", run_id="r", ttl=1.5, was="active")
    plain = environment("dev", status=Status.DETACHED)
    for one in (full, plain):
        with store.lock(one.name, "me") as token:
            store.set_environment(one, token)
    assert stores(SCOPE).read_environments() == {"dev": plain, "pr_1": full}
    assert list(store.read_environments()) == ["dev", "pr_1"]


def test_setting_an_environment_leaves_its_refs_and_numbers_alone(store: Store) -> None:
    move(store, "j1", [A])
    with store.lock("dev", "me") as token:
        store.set_environment(environment("dev", status=Status.DETACHED), token)
    assert store.read_environments()["dev"].status is Status.DETACHED and set(store.read_refs("dev")) == {"a"}
    move(store, "j2", [A])
    assert [c.number for c in store.read_checkpoints("dev")] == [2, 1]


def test_scopes_never_meet(stores: StoreMaker) -> None:
    one, other = stores(SCOPE), stores("shop/prod")
    move(one, "j1", [A])
    one.add_versions([version("a")])
    one.add_freshness("dev", [freshness("orders", "1")])
    one.set_unused({"x.y": NOW})
    assert other.read_environments() == {} and other.read_refs("dev") == {} and other.read_bindings() == {}
    assert other.read_versions() == {} and not other.read_freshness("dev") and other.read_unused() == {}
    with one.lock("dev", "me"), other.lock("dev", "you"):
        assert one.read_locks()["dev"].owner == "me" and other.read_locks()["dev"].owner == "you"


def test_what_other_scopes_refer_to_is_told(stores: StoreMaker) -> None:
    mine, other = stores("shop/dev"), stores("shop/prod")
    move(mine, "1", [binding("a")])
    assert mine.scope == "shop/dev"
    assert mine.read_foreign_relations() == set()
    assert other.read_foreign_relations() == {"dev__sqb_physical.a__v_v1", "dev__sqb_physical.a"}


def test_a_removed_environment_leaves_nothing_but_what_others_need(store: Store) -> None:
    move(store, "j1", [A, B], "dev")
    move(store, "j2", [A, B2], "pr_1")
    store.add_freshness("pr_1", [freshness("orders", "1")])
    with store.lock("pr_1", "me") as token:
        store.begin_journal(journal("j3", [A, B2], "pr_1"), token)
        store.remove_environment("pr_1", token)
    assert (
        set(store.read_environments()) == {"dev"}
        and store.read_refs("pr_1") == {}
        and store.read_journal("pr_1") is None
    )
    assert [c.id for c in store.read_checkpoints()] == ["c_j1"] and not store.read_freshness("pr_1")
    assert set(store.read_bindings()) == {A.id, B.id}


def test_those_that_began_as_a_removed_environment_forget_where_they_agreed(store: Store, stores: StoreMaker) -> None:
    move(store, "j1", [A, B], "dev")
    for name, baseline in (("pr_1", "dev"), ("pr_2", "other")):
        move(store, f"of_{name}", [A, B], name)
        with store.lock(name, "me") as token:
            store.set_environment(environment(name, baseline=baseline, began="c_j1"), token)
    with store.lock("dev", "me") as token:
        store.remove_environment("dev", token)
    there = stores(SCOPE).read_environments()
    assert (there["pr_1"].began, there["pr_1"].baseline, there["pr_2"].began) == ("", "dev", "c_j1")
    assert {r.base for r in store.read_refs("pr_1").values()} == {""}
    assert {r.base for r in store.read_refs("pr_2").values()} == {"v0"}


# --- moving -----------------------------------------------------------------------------------------------------------


def test_a_move_makes_the_environment_what_the_journal_says(store: Store, stores: StoreMaker) -> None:
    made = journal("j1", [A, B])
    with store.lock("dev", "me") as token:
        store.begin_journal(made, token)
        assert stores(SCOPE).read_journal("dev") == made
        assert store.read_environments() == {} and store.read_refs("dev") == {}
        assert store.finish_journal(made, {"a": "after/a"})
    assert store.read_environments() == {"dev": made.environment} and store.read_journal("dev") is None
    assert store.read_refs("dev") == {"a": Ref(A, "v0", "after/a"), "b": Ref(B, "v0", "before/b")}
    assert [c.refs for c in store.read_checkpoints()] == [{"a": A.id, "b": B.id}]


def test_a_later_move_replaces_all_refs(store: Store) -> None:
    move(store, "j1", [A, B])
    move(store, "j2", [B2], with_checkpoint=False)
    assert store.read_refs("dev") == {"b": Ref(B2, "v0", "after/b")}
    move(store, "j3", [A, B], "pr_1")
    assert store.count_refs() == {"dev": 1, "pr_1": 2}
    assert [c.id for c in store.read_checkpoints("dev")] == ["c_j1"]


def test_a_function_has_no_relation(store: Store) -> None:
    function = Binding("f", "function", "sql", "l", "v")
    move(store, "j1", [function])
    assert store.read_refs("dev")["f"].binding == function


def test_a_journal_is_finished_once(store: Store, stores: StoreMaker) -> None:
    made = journal("j1", [A])
    with store.lock("dev", "me") as token:
        store.begin_journal(made, token)
        assert stores(SCOPE).finish_journal(made, {"a": "theirs"})
        assert not store.finish_journal(made, {"a": "mine"})
    assert store.read_refs("dev")["a"].location == "theirs" and len(store.read_checkpoints()) == 1


def test_journals_of_all_environments(store: Store) -> None:
    made = journal("1", [binding("a")], "new")
    with store.lock("new", "tester") as token:
        store.begin_journal(made, token)
    assert store.read_journals() == {"new": made}
    assert store.read_environments() == {}


def test_another_journal_waits_for_the_first(store: Store) -> None:
    with store.lock("dev", "me") as token:
        store.begin_journal(journal("j1", [A]), token)
        store.begin_journal(journal("j1", [B]), token)
        with pytest.raises(InternalError, match="before what was begun there had been finished"):
            store.begin_journal(journal("j2", [A]), token)
    result = store.read_journal("dev")
    assert result is not None and set(result.refs) == {"b"}


def test_an_abandoned_journal_changes_nothing(store: Store) -> None:
    move(store, "j1", [A])
    made = journal("j2", [B])
    with store.lock("dev", "me") as token:
        store.begin_journal(made, token)
        store.abandon_journal(journal("j9", [B]))
        assert store.read_journal("dev") == made
        store.abandon_journal(made)
        assert not store.finish_journal(made, {})
    assert store.read_journal("dev") is None and set(store.read_refs("dev")) == {"a"}


def test_what_was_begun_outlives_its_lock(store: Store) -> None:
    made = journal("j1", [A])
    with store.lock("dev", "me") as token:
        store.begin_journal(made, token)
    with store.lock("dev", "you"):
        result = store.read_journal("dev")
        assert result == made and store.finish_journal(made, {})
    assert set(store.read_refs("dev")) == {"a"}


# --- versions and checkpoints -----------------------------------------------------------------------------------------


def test_versions_stay_as_they_were_first_kept(store: Store) -> None:
    first = version("a")
    store.add_versions([first, version("b")])
    store.add_versions([version("a", definition="SELECT 2"), version("a", "v2")])
    store.add_versions([])
    assert set(store.read_versions()) == {("a", "v1"), ("b", "v1"), ("a", "v2")}
    assert store.read_versions([("a", "v1"), ("b", "v2")]) == {("a", "v1"): first}
    store.remove_versions([("a", "v1"), ("b", "v2")])
    assert set(store.read_versions()) == {("b", "v1"), ("a", "v2")} and store.read_versions([]) == {}


def test_checkpoints_are_numbered_and_newest_first(store: Store) -> None:
    move(store, "j1", [A])
    move(store, "j2", [A], "pr_1")
    made = journal("j3", [A])
    later = checkpoint("c_j3", [A], minutes=5, parent="c_j1")
    with store.lock("dev", "me") as token:
        changed = type(made)(made.id, made.environment, made.refs, made.moves, later)
        store.begin_journal(changed, token)
        store.finish_journal(changed, {})
    assert [(c.id, c.number, c.parent) for c in store.read_checkpoints("dev")] == [("c_j3", 2, "c_j1"), ("c_j1", 1, "")]
    assert {c.id for c in store.read_checkpoints()} == {"c_j1", "c_j2", "c_j3"}


def test_a_number_is_never_given_twice(store: Store) -> None:
    move(store, "j1", [A])
    move(store, "j2", [A])
    store.remove_checkpoints(["c_j2"])
    move(store, "j3", [A])
    assert [c.number for c in store.read_checkpoints("dev")] == [3, 1]


def test_bindings_go_when_nothing_refers_to_them(store: Store) -> None:
    other = binding("b", "v3")
    move(store, "j1", [A, B])
    move(store, "j2", [A, B2])
    with store.lock("dev", "me") as token:
        store.begin_journal(journal("j3", [other]), token)
    assert set(store.read_bindings()) == {A.id, B.id, B2.id, other.id}
    assert store.read_bindings([B.id, "nothing"]) == {B.id: B}
    store.remove_checkpoints(["c_j1", "nothing"])
    assert set(store.read_bindings()) == {A.id, B2.id, other.id}


def test_unused_relations_are_replaced_as_a_whole(store: Store) -> None:
    store.set_unused({"a.b": NOW, "a.c": NOW})
    store.set_unused({"a.b": NOW, "a.d": NOW + timedelta(days=1)})
    assert store.read_unused() == {"a.b": NOW, "a.d": NOW + timedelta(days=1)}


# --- observations -----------------------------------------------------------------------------------------------------


def test_the_latest_observation_stays(store: Store) -> None:
    store.add_freshness("dev", [freshness("orders", "1"), freshness("orders", "2", 5), freshness("orders", "3", 2)])
    store.add_freshness("dev", [freshness("orders", "0", -1), freshness("orders", "9", schema="other")])
    assert [r.data_version for r in store.read_freshness("dev")] == ["2", "9"]
    store.add_freshness("dev", [freshness("orders", "4", 5)])
    assert list(store.read_freshness("dev")) == [freshness("orders", "4", 5), freshness("orders", "9", schema="other")]
    store.add_fingerprints("dev", [fingerprint("load", "h2", 2), fingerprint("load", "h1")])
    assert list(store.read_fingerprints("dev")) == [fingerprint("load", "h2", 2)]


def test_observations_are_of_one_environment_until_they_are_copied(store: Store) -> None:
    store.add_freshness("dev", [freshness("orders", "1"), freshness("people", "1")])
    store.add_fingerprints("dev", [fingerprint("load", "h1")])
    store.add_freshness("pr_1", [freshness("people", "2", 5)])
    assert list(store.read_fingerprints("pr_1")) == []
    store.copy_observations("dev", "pr_1")
    assert {(r.source_name, r.data_version) for r in store.read_freshness("pr_1")} == {("orders", "1"), ("people", "2")}
    assert list(store.read_fingerprints("pr_1")) == [fingerprint("load", "h1")]
    store.copy_observations("nothing", "pr_1")
    assert len(store.read_freshness("dev")) == 2


def test_several_questions_are_answered_in_one_go(store: Store) -> None:
    move(store, "j1", [A])
    with store.read_consistently():
        assert set(store.read_environments()) == {"dev"} and set(store.read_refs("dev")) == {"a"}
        assert store.read_journal("dev") is None and store.read_bindings([A.id]) == {A.id: A}
        assert store.read_locks() == {} and store.read_schema_version() == 3
        with store.read_consistently():
            assert store.count_refs() == {"dev": 1}
        assert store.count_refs() == {"dev": 1}
    move(store, "j2", [B])
    assert set(store.read_refs("dev")) == {"b"}


# --- locks ------------------------------------------------------------------------------------------------------------


def test_one_at_a_time_works_on_an_environment(store: Store, stores: StoreMaker) -> None:
    with store.lock("dev", "anna@laptop (pid 7, sqb build)") as token:
        with pytest.raises(EnvironmentLocked) as caught, stores(SCOPE).lock("dev", "ben"):
            pass
        assert caught.value.message.startswith("dev is being worked on by anna@laptop (pid 7, sqb build), for 0 second")
        assert "--take-over" in str(caught.value.hint)
        with stores(SCOPE).lock("pr_1", "ben"):
            assert {name: lock.owner for name, lock in store.read_locks().items()} == {
                "dev": "anna@laptop (pid 7, sqb build)",
                "pr_1": "ben",
            }
        locks = stores(SCOPE).read_locks()
        assert list(locks) == ["dev"] and locks["dev"].token == token and locks["dev"].alive
    assert store.read_locks() == {}
    with stores(SCOPE).lock("dev", "ben"):
        pass


def test_a_lock_ends_with_an_error_too(store: Store, stores: StoreMaker) -> None:
    with pytest.raises(ValueError), store.lock("dev", "anna"):
        raise ValueError
    with stores(SCOPE).lock("dev", "ben"):
        pass


def test_a_lock_that_was_taken_over_is_worth_nothing(store: Store, stores: StoreMaker) -> None:
    other = stores(SCOPE)
    with store.lock("dev", "anna") as old, other.lock("dev", "ben", take_over=True) as new:
        for refused in (
            lambda: store.begin_journal(journal("j1", [A]), old),
            lambda: store.set_environment(environment(), old),
            lambda: store.remove_environment("dev", old),
        ):
            with pytest.raises(LockLost, match="dev was taken over by ben"):
                refused()
        assert store.read_journal("dev") is None and store.read_environments() == {}
        other.begin_journal(journal("j2", [A]), new)
        assert {name: lock.owner for name, lock in store.read_locks().items()} == {"dev": "ben"}


def test_the_end_of_the_first_holder_is_not_the_end_of_the_second(store: Store, stores: StoreMaker) -> None:
    other, third = stores(SCOPE), stores(SCOPE)
    first = store.lock("dev", "anna")
    first.__enter__()
    with other.lock("dev", "ben", take_over=True) as token:
        first.__exit__(None, None, None)
        assert third.read_locks()["dev"].owner == "ben"
        with pytest.raises(EnvironmentLocked, match="ben"), third.lock("dev", "cleo"):
            pass
        other.set_environment(environment(), token)
    with third.lock("dev", "cleo"):
        pass


def test_what_nobody_has_can_be_taken_over_too(store: Store) -> None:
    with store.lock("dev", "ben", take_over=True) as token:
        store.set_environment(environment(), token)
    assert store.read_locks() == {}


def test_a_token_is_worth_nothing_when_the_lock_has_ended(store: Store) -> None:
    with store.lock("dev", "anna") as token:
        pass
    with pytest.raises(LockLost):
        store.set_environment(environment(), token)


def test_the_name_of_a_lock_is_the_name_of_an_environment(store: Store) -> None:
    with pytest.raises(BadEnvironmentName), store.lock("../dev", "anna"):
        pass
