"""What is promoted, node by node, and what stands in the way."""

from __future__ import annotations

from dataclasses import replace

from sqb.environments.model import Binding, NodeType, Ref, Status
from sqb.environments.promotion.three_way_merge import (
    Clash,
    Misfit,
    Promotion,
    PromotionCase,
    Step,
    compare_refs,
    decide_promotion,
    find_misfits,
    get_version,
)
from sqb.environments.views import update_bases


def ref(name: str, version: str, base: str = "", type: NodeType = "model", **upstream: str) -> Ref:
    return Ref(Binding(name, type, "table", f"local_{version}", version, upstream=upstream), base, f"{name}.json")


def refs(*result: Ref) -> dict[str, Ref]:
    return {r.binding.name: r for r in result}


PROD = refs(ref("stg", "s1"), ref("other", "o1"), ref("fct", "f1", stg="s1", other="o1"))
# The same with the bases that an environment has which began as it.
BEGUN = {name: replace(r, base=r.binding.version_hash) for name, r in PROD.items()}


def versions(promotion: Promotion) -> dict[str, str]:
    return {name: r.binding.version_hash for name, r in promotion.refs.items()}


def test_nothing_is_promoted_where_nothing_changed() -> None:
    decision = decide_promotion(PromotionCase(BEGUN, PROD))
    assert (
        decision.steps == () and decision.refs == PROD and decision.status is Status.FINALIZED and not decision.refused
    )


def test_what_only_the_source_changed_is_promoted_with_all_below_it() -> None:
    source = BEGUN | refs(ref("stg", "s2", "s1"), ref("fct", "f2", "f1", stg="s2", other="o1"))
    decision = decide_promotion(PromotionCase(source, PROD))
    assert decision.steps == (Step("fct", "changed", "f1", "f2"), Step("stg", "changed", "s1", "s2"))
    assert not decision.refused and decision.status is Status.FINALIZED and decision.misfits == ()
    assert decision.refs["stg"].binding is source["stg"].binding
    # The views are where they were until they move.
    assert decision.refs["stg"].location == "stg.json"


def test_what_only_the_target_changed_stays() -> None:
    target = PROD | refs(ref("other", "o2"), ref("fct", "f2", stg="s1", other="o2"))
    decision = decide_promotion(PromotionCase(BEGUN, target))
    assert decision.steps == () and decision.unchanged == ("fct", "other") and not decision.refused
    assert decision.refs == target


def test_the_checks_that_rows_have_passed_come_with_them() -> None:
    source = BEGUN | {"fct": replace(ref("fct", "f2", "f1", stg="s1", other="o1"), checks="mine")}
    assert decide_promotion(PromotionCase(source, PROD)).refs["fct"].checks == "mine"


def test_a_node_that_is_new_comes_and_one_that_left_goes() -> None:
    source = {n: r for n, r in BEGUN.items() if n != "fct"} | refs(ref("new", "n1", stg="s1"))
    decision = decide_promotion(PromotionCase(source, PROD, removed={"fct": "f1"}))
    assert decision.steps == (Step("fct", "removed", "f1", ""), Step("new", "added", "", "n1"))
    assert decision.promoted == ("new",) and decision.removed == ("fct",) and not decision.refused
    assert decision.refs["new"].location == "", "its view is not there yet"


def test_a_node_that_the_source_never_had_stays() -> None:
    target = PROD | refs(ref("theirs", "t1", stg="s1"))
    decision = decide_promotion(PromotionCase(BEGUN, target))
    assert decision.steps == () and decision.unchanged == ("theirs",)


def test_a_node_that_the_target_removed_does_not_come_back() -> None:
    target = {n: r for n, r in PROD.items() if n != "fct"}
    decision = decide_promotion(PromotionCase(BEGUN, target))
    assert decision.steps == () and decision.unchanged == ("fct",) and not decision.refused


def test_both_changed_is_a_clash() -> None:
    source = BEGUN | refs(ref("fct", "f2", "f1", stg="s1", other="o1"))
    target = PROD | refs(ref("fct", "f3", stg="s1", other="o1"))
    decision = decide_promotion(PromotionCase(source, target))
    assert decision.clashes == (Clash("fct", "f1", "f2", "f3"),) and decision.refused
    assert decide_promotion(PromotionCase(source, target, allow_partial=True)).refused, (
        "allowing a part does not settle a conflict"
    )


def test_both_changed_alike_is_none() -> None:
    source = BEGUN | refs(ref("fct", "f2", "f1", stg="s1", other="o1"))
    target = PROD | refs(ref("fct", "f2", stg="s1", other="o1"))
    assert decide_promotion(PromotionCase(source, target)).steps == ()


def test_changes_above_one_model_on_both_sides_clash_in_it() -> None:
    source = BEGUN | refs(ref("stg", "s2", "s1"), ref("fct", "f2", "f1", stg="s2", other="o1"))
    target = PROD | refs(ref("other", "o2"), ref("fct", "f3", stg="s1", other="o2"))
    assert [c.name for c in decide_promotion(PromotionCase(source, target)).clashes] == ["fct"]


def test_two_that_added_one_name_clash() -> None:
    source, target = BEGUN | refs(ref("new", "n1")), PROD | refs(ref("new", "n2"))
    assert decide_promotion(PromotionCase(source, target)).clashes == (Clash("new", "", "n1", "n2"),)


def test_removed_here_and_changed_there_clash_both_ways() -> None:
    without = {n: r for n, r in BEGUN.items() if n != "fct"}
    changed = PROD | refs(ref("fct", "f2", stg="s1", other="o1"))
    assert decide_promotion(PromotionCase(without, changed, removed={"fct": "f1"})).clashes == (
        Clash("fct", "f1", "", "f2"),
    )
    mine = BEGUN | refs(ref("fct", "f2", "f1", stg="s1", other="o1"))
    theirs = {n: r for n, r in PROD.items() if n != "fct"}
    assert decide_promotion(PromotionCase(mine, theirs)).clashes == (Clash("fct", "f1", "f2", ""),)


def test_a_new_model_on_a_version_that_the_target_has_moved_past_is_a_clash() -> None:
    source = BEGUN | refs(ref("new", "n1", stg="s1"))
    target = PROD | refs(ref("stg", "s9"), ref("fct", "f9", stg="s9", other="o1"))
    decision = decide_promotion(PromotionCase(source, target))
    assert decision.clashes == (Clash("new", "s1", "s1", "s9", through="stg"),) and decision.refused


def test_a_model_that_the_target_got_meanwhile_and_that_would_not_fit_any_more() -> None:
    source = BEGUN | refs(ref("stg", "s2", "s1"), ref("fct", "f2", "f1", stg="s2", other="o1"))
    target = PROD | refs(ref("theirs", "t1", stg="s1"))
    decision = decide_promotion(PromotionCase(source, target))
    assert decision.misfits == (Misfit("theirs", ("stg",)),) and decision.clashes == () and decision.refused
    allowed = decide_promotion(PromotionCase(source, target, allow_partial=True))
    assert not allowed.refused and allowed.status is Status.ACTIVE and versions(allowed)["theirs"] == "t1"


def test_a_removed_model_that_others_of_the_target_read() -> None:
    source = {n: r for n, r in BEGUN.items() if n not in ("stg", "fct")} | refs(ref("fct", "f2", "f1", other="o1"))
    target = PROD | refs(ref("theirs", "t1", stg="s1"))
    decision = decide_promotion(PromotionCase(source, target, removed={"stg": "s1"}))
    assert decision.removed == ("stg",) and decision.misfits == (Misfit("theirs", ("stg",)),) and decision.refused


CHANGED = BEGUN | refs(ref("stg", "s2", "s1"), ref("fct", "f2", "f1", stg="s2", other="o1"))


def test_a_selected_model_needs_what_it_is_made_from() -> None:
    decision = decide_promotion(PromotionCase(CHANGED, PROD, selected=frozenset({"fct"})))
    assert decision.stale_upstreams == ("stg",) and decision.refused
    whole = decide_promotion(PromotionCase(CHANGED, PROD, selected=frozenset({"fct"}), include_stale_upstreams=True))
    assert whole.included == ("stg",) and versions(whole) == {"stg": "s2", "other": "o1", "fct": "f2"}
    assert not whole.refused and whole.status is Status.FINALIZED


def test_only_what_is_needed_is_included() -> None:
    source = CHANGED | refs(ref("other", "o2", "o1"), ref("fct", "f2", "f1", stg="s2", other="o2"))
    source |= refs(ref("leaf", "l2", "l1", stg="s2"))
    target = PROD | refs(ref("leaf", "l1", stg="s1"))
    decision = decide_promotion(
        PromotionCase(source, target, selected=frozenset({"leaf"}), include_stale_upstreams=True)
    )
    assert decision.included == ("stg",) and decision.promoted == ("leaf", "stg")
    assert decision.misfits == (Misfit("fct", ("stg",)),) and decision.unselected == ("fct", "other")


def test_an_unselected_model_below_is_left_behind() -> None:
    decision = decide_promotion(PromotionCase(CHANGED, PROD, selected=frozenset({"stg"})))
    assert decision.misfits == (Misfit("fct", ("stg",)),) and decision.refused and decision.unselected == ("fct",)
    allowed = decide_promotion(PromotionCase(CHANGED, PROD, selected=frozenset({"stg"}), allow_partial=True))
    assert allowed.status is Status.ACTIVE and versions(allowed) == {"stg": "s2", "other": "o1", "fct": "f1"}
    rest = decide_promotion(
        PromotionCase(update_bases(CHANGED, allowed.refs), allowed.refs, target_status=Status.ACTIVE)
    )
    assert rest.promoted == ("fct",) and rest.status is Status.FINALIZED


def test_a_part_that_fits_leaves_the_target_finalized_if_it_was() -> None:
    source = BEGUN | refs(ref("fct", "f2", "f1", stg="s1", other="o1"), ref("more", "m1"))
    decision = decide_promotion(PromotionCase(source, PROD, selected=frozenset({"more"})))
    assert not decision.refused and decision.status is Status.FINALIZED and decision.unselected == ("fct",)
    remaining = decide_promotion(PromotionCase(source, PROD, selected=frozenset({"more"}), target_status=Status.ACTIVE))
    assert remaining.status is Status.ACTIVE


def test_conflicts_of_what_was_not_selected_do_not_matter() -> None:
    source = BEGUN | refs(ref("fct", "f2", "f1", stg="s1", other="o1"), ref("more", "m1"))
    target = PROD | refs(ref("fct", "f3", stg="s1", other="o1"))
    assert not decide_promotion(PromotionCase(source, target, selected=frozenset({"more"}))).refused
    # Unless what was selected needs it.
    source |= refs(ref("more", "m1", fct="f2"))
    decision = decide_promotion(PromotionCase(source, target, selected=frozenset({"more"})))
    assert [c.name for c in decision.clashes] == ["fct"] and decision.stale_upstreams == ()


def test_functions_follow_the_models_that_use_them() -> None:
    target = refs(ref("cents", "c1", type="function"), ref("a", "a1", cents="c1"), ref("b", "b1", cents="c1"))
    source = {n: replace(r, base=r.binding.version_hash) for n, r in target.items()}
    source |= refs(
        ref("cents", "c2", "c1", "function"), ref("a", "a2", "a1", cents="c2"), ref("b", "b2", "b1", cents="c2")
    )
    one = decide_promotion(PromotionCase(source, target, selected=frozenset({"a"})))
    assert one.stale_upstreams == () and one.promoted == ("a", "cents") and one.misfits == (Misfit("b", ("cents",)),)
    both = decide_promotion(PromotionCase(source, target, selected=frozenset({"a", "b"})))
    assert not both.refused and both.promoted == ("a", "b", "cents") and both.included == ()


def test_functions_that_are_only_in_queries_follow_too_and_leave_nothing_behind() -> None:
    target = refs(ref("cents()", "c1", type="function"), ref("a", "a1"), ref("b", "b1"))
    source = refs(ref("cents()", "c2", "c1", "function"), ref("a", "a2", "a1"), ref("b", "b2", "b1"))
    uses = {"a": {"cents()": "c2"}, "b": {"cents()": "c2"}}
    one = decide_promotion(PromotionCase(source, target, selected=frozenset({"a"}), functions=uses))
    assert one.promoted == ("a",) and one.misfits == () and not one.refused, "b still has the function as it was"
    rest = decide_promotion(PromotionCase(source, one.refs, selected=frozenset({"b"}), functions=uses))
    assert rest.promoted == ("b", "cents()")
    both = decide_promotion(PromotionCase(source, target, selected=frozenset({"a", "b"}), functions=uses))
    assert both.promoted == ("a", "b", "cents()") and both.included == ()
    # A model that was made with a function which the target has changed since.
    source = BEGUN | refs(ref("cents()", "c1", "c1", "function"), ref("new", "n1"))
    target = PROD | refs(ref("cents()", "c9", type="function"))
    decision = decide_promotion(PromotionCase(source, target, functions={"new": {"cents()": "c1"}}))
    assert decision.clashes == (Clash("new", "c1", "c1", "c9", through="cents()"),)


def test_an_environment_that_is_not_finalized_is_promoted_only_as_a_part() -> None:
    source = BEGUN | refs(ref("more", "m1"))
    assert decide_promotion(PromotionCase(source, PROD, Status.ACTIVE)).refused
    decision = decide_promotion(PromotionCase(source, PROD, Status.ACTIVE, allow_partial=True))
    assert not decision.refused and decision.status is Status.ACTIVE and decision.promoted == ("more",)


def test_what_does_not_fit_in_the_source_does_not_fit_in_the_target() -> None:
    source = BEGUN | refs(ref("stg", "s2", "s1"))
    decision = decide_promotion(PromotionCase(source, PROD, Status.ACTIVE, allow_partial=True))
    assert decision.promoted == ("stg",) and decision.misfits == (Misfit("fct", ("stg",)),)


def test_only_data_differs() -> None:
    newer = {n: replace(r, binding=replace(r.binding, snapshot_id=7)) for n, r in BEGUN.items()}
    decision = decide_promotion(PromotionCase(newer, PROD))
    assert decision.steps == () and decision.refs == PROD


def test_steps_tell_other_rows_from_other_versions() -> None:
    newer = PROD | {"stg": replace(PROD["stg"], binding=replace(PROD["stg"].binding, snapshot_id=7))}
    assert compare_refs(PROD, newer) == (Step("stg", "data", "s1", "s1"),)


def test_misfits_and_bases() -> None:
    assert find_misfits(PROD) == ()
    assert find_misfits({n: r for n, r in PROD.items() if n != "stg"}) == (Misfit("fct", ("stg",)),)
    moved = update_bases(CHANGED, PROD)
    assert {n: r.base for n, r in moved.items()} == {"stg": "s1", "other": "o1", "fct": "f1"}
    assert {n: r.base for n, r in update_bases(CHANGED, CHANGED).items()} == {"stg": "s2", "other": "o1", "fct": "f2"}
    assert get_version(PROD, "nowhere") == ""
