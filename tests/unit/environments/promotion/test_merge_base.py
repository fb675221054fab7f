"""Where two environments last agreed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqb.environments.model import Binding, Checkpoint, Environment, Ref, Status
from sqb.environments.promotion.merge_base import EnvironmentHistory, find_merge_base, find_since, list_past_versions

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(hours: int) -> datetime:
    return T0 + timedelta(hours=hours)


def environment(name: str, baseline: str = "", made: int = 0) -> Environment:
    return Environment(name, Status.FINALIZED, at(made), at(made), baseline=baseline)


def binding(name: str, version: str) -> Binding:
    return Binding(name, "model", "table", "l", version)


def refs(**versions: tuple[str, str]) -> dict[str, Ref]:
    return {n: Ref(binding(n, version), base) for n, (version, base) in versions.items()}


def known(of: Environment, shown: dict[str, Ref], **past: list[str]) -> EnvironmentHistory:
    return EnvironmentHistory(of, shown, past)


PROD = environment("prod")


def test_to_its_baseline_an_environment_knows_the_versions_itself() -> None:
    source = known(environment("pr", "prod"), refs(a=("a2", "a1"), new=("n1", "")), a=["a2", "a1"], dead=["d2", "d1"])
    merge_base = find_merge_base(source, known(PROD, refs(a=("a1", "a1"), dead=("d2", "d2"))))
    assert merge_base.bases == {"a": "a1", "new": ""} and merge_base.removed == {"dead": "d2"}


def test_from_its_baseline_too() -> None:
    target = known(environment("pr", "prod"), refs(a=("a2", "a1"), b=("b1", "b1"), own=("o1", "")), dropped=["x1"])
    merge_base = find_merge_base(known(PROD, refs(a=("a1", ""), dropped=("x1", ""))), target)
    assert merge_base.bases == {"a": "a1", "b": "b1", "own": "", "dropped": "x1"} and merge_base.removed == {"b": "b1"}


def test_two_beside_each_other_agree_on_what_one_has_shown_before() -> None:
    source = known(
        environment("pr", "prod"),
        refs(a=("a3", "a1"), b=("b2", "b1"), c=("c1", "c1"), d=("d1", "d1")),
        a=["a3", "a2", "a1"],
        b=["b2", "b1"],
    )
    target = known(environment("staging", "prod"), refs(a=("a2", "a1"), b=("b9", "b1"), c=("c1", "c1")))
    # a was promoted there before; b was changed there by somebody else; d was never there.
    assert find_merge_base(source, target).bases == {"a": "a2", "b": "b1", "c": "c1", "d": ""}


BINDINGS = {f"{n}{i}": binding(n, f"{n}{i}") for n in "ab" for i in (1, 2, 3)}


def checkpoint(name: str, hours: int, *ids: str) -> Checkpoint:
    shown = {i[0]: i for i in ids}
    return Checkpoint(f"{name}{hours}", name, "", at(hours), "build", "", "", "", shown, hours)


def test_the_past_of_an_environment_begins_with_its_baseline() -> None:
    history = [
        checkpoint("pr", 6, "a3"),
        checkpoint("prod", 5, "a3", "b3"),
        checkpoint("pr", 4, "a2", "b2"),
        checkpoint("prod", 2, "a1", "b2"),
        checkpoint("prod", 1, "a1", "b1"),
    ]
    pr = replace(environment("pr", "prod", 3), began=history[3].id)
    past = list_past_versions(pr, history, BINDINGS)
    assert past == {"a": ["a3", "a2", "a1"], "b": ["b2"]}
    # A baseline that had been rolled back was not at its newest checkpoint.
    began = replace(environment("pr", "prod", 3), began=history[-1].id)
    assert list_past_versions(began, history, BINDINGS) != past
    assert list_past_versions(PROD, history, BINDINGS) == {"a": ["a3", "a1"], "b": ["b3", "b2", "b1"]}


def test_since_when_a_version_is_shown() -> None:
    history = [
        checkpoint("prod", 4, "a2"),
        checkpoint("pr", 3, "a1"),
        checkpoint("prod", 2, "a2", "b1"),
        checkpoint("prod", 1, "a1", "b1"),
    ]
    assert find_since("a", "a2", "prod", history, BINDINGS) is history[2]
    assert find_since("b", "", "prod", history, BINDINGS) is history[0]
    assert find_since("a", "a9", "prod", history, BINDINGS) is None
