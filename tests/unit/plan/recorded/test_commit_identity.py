"""What a commit says of its rows, as properties and back; and that nothing else knows the keys."""

import ast
from collections import defaultdict
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sqb
from sqb.plan.recorded.commit_identity import CommitIdentity

NAMES = [f.name for f in fields(CommitIdentity) if f.name != "other"]
# What sqb 0.1 wrote: the keys of a stored format are never others.
WRITTEN = {
    "sqb.model": "shop.orders",
    "sqb.local_hash": "l",
    "sqb.version_hash": "v",
    "sqb.query_hash": "q",
    "sqb.config_hash": "c",
    "sqb.canonical": "sqlglot 1",
    "sqb.sources": '{"raw.orders":[1,null,"t",0]}',
    "sqb.run_id": "r1",
    "sqb.run_type": "full",
    "sqb.seconds": "1.500",
    "sqb.version": "0.1.0",
    "sqb.identity_version": "1",
    "sqb.git": "abc",
    "sqb.content": "n:2:abc",
    "sqb.kept": "[]",
    "sqb.functions": "{}",
    "sqb.written_hash": "w",
    "sqb.settings": '{"list":"1"}',
    "sqb.checks": "h.t",
    "sqb.figures": "{}",
    "sqb.replays": "[[]]",
    "sqb.replays_seen": '{"a":"r0"}',
    "sqb.cursor_max": "2026-01-01",
    "sqb.cursor_floor": "2025-01-01",
    "sqb.window": "[a, b)",
    "sqb.group_state": '[7, "t"]',
    "sqb.group_state_of": "marts.revenue",
    "sqb.timings": '{"full": [1.5, 10, 0]}',
    "sqb.post_hooks": "due",
    "sqb.reused_from": "prod.orders 7",
    "sqb.adopted": "shop.orders",
    "sqb.loader": "fetch",
    "sqb.loader_result": "null",
    "sqb.making": "r2",
}


def test_every_property_is_a_field() -> None:
    identity = CommitIdentity.from_properties(WRITTEN)
    assert not identity.other and all(getattr(identity, name) for name in NAMES) and len(NAMES) == len(WRITTEN)
    assert identity.to_properties() == WRITTEN
    assert (identity.content, identity.unchanged_columns, identity.in_progress) == ("n:2:abc", "[]", "r2")


@given(st.builds(CommitIdentity, **{name: st.text() for name in NAMES}))
def test_an_identity_comes_back_as_it_was(identity: CommitIdentity) -> None:
    assert CommitIdentity.from_properties(identity.to_properties()) == identity


@given(
    st.dictionaries(st.one_of(st.sampled_from(sorted(WRITTEN)), st.from_regex(r"sqb\.\w*", fullmatch=True)), st.text())
)
def test_properties_come_back_as_they_were(properties: dict[str, str]) -> None:
    identity = CommitIdentity.from_properties(properties)
    assert identity.to_properties() == properties and bool(identity) is bool(properties)


def test_what_another_version_wrote_survives() -> None:
    identity = CommitIdentity.from_properties({"sqb.run_id": "r1", "sqb.later": "x", "engine-name": "spark"})
    assert identity.other == {"sqb.later": "x"}
    assert replace(identity, run_id="r2").to_properties() == {"sqb.later": "x", "sqb.run_id": "r2"}


@pytest.mark.parametrize("value", [None, 7, [], {}, True])
def test_a_value_that_is_not_text_is_no_field(value: object) -> None:
    identity = CommitIdentity.from_properties({"sqb.content": value, "sqb.run_id": "r1"})  # type: ignore[dict-item]
    assert identity == CommitIdentity(run_id="r1", other={"sqb.content": value})  # type: ignore[dict-item]


def test_a_commit_of_another_writer_has_no_identity() -> None:
    assert not CommitIdentity() and not CommitIdentity.from_properties({"operation": "append", "sqbx": "1"})
    assert CommitIdentity.from_properties({"sqb.later": ""}), "sqb made it, whatever it says"


def test_identities_are_merged_and_taken_apart_by_what_they_record() -> None:
    rows = CommitIdentity(content="n:1", cursor_max="5", other={"sqb.later": "x"})
    run = CommitIdentity(content="n:2", run_id="r2")
    assert rows.merge(run) == CommitIdentity(content="n:2", run_id="r2", cursor_max="5", other={"sqb.later": "x"})
    assert rows.exclude(run) == CommitIdentity(cursor_max="5", other={"sqb.later": "x"})


@pytest.mark.parametrize(("text", "seconds"), [("1.500", 1.5), ("", 0.0), ("soon", 0.0)])
def test_a_duration_that_cannot_be_read_is_none(text: str, seconds: float) -> None:
    assert CommitIdentity(seconds=text).duration == seconds


def test_each_stored_key_stands_in_one_module() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    root = Path(sqb.__file__).parent
    for path in root.rglob("*.py"):
        for part in ast.walk(ast.parse(path.read_text())):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and is_stored_key(part.value):
                owners[part.value].add(str(path.relative_to(root)))
    assert {key: sorted(modules) for key, modules in owners.items() if len(modules) > 1} == {}
    assert {key for key in WRITTEN if owners[key] != {"plan/recorded/commit_identity.py"}} == set()


def is_stored_key(text: str) -> bool:
    """Whether a text is a key of what is stored, and not the name of a module."""
    prefix, _, name = text.partition(".")
    return prefix == "sqb" and name.isidentifier() and (text in WRITTEN or find_spec(text) is None)
