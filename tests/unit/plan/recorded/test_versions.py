"""Recorded versions: as JSON and back, in every form that was ever written, and whatever else is there."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqb.plan.observed import FreshnessValue, Version, is_same_version
from sqb.plan.recorded.versions import RecordedVersion, encode_sources, parse_sources

FRESH = FreshnessValue("token", "2026-01-01", "timestamp", unchanged=True)
FILES = (("a.csv", 10, 1), ("b.csv", 20, 2))
VERSIONS = {
    '[1,"n:1","t"]': Version(1, (), "n:1", "t"),
    '[1,null,"t",0]': Version(1, (), None, "t", schema_id=0),
    '[null,null,"t",3]': Version(None, (), None, "t", schema_id=3),
    '[1,"n:1","t",3,"token:2026-01-01"]': Version(1, (), "n:1", "t", schema_id=3, fresh=FRESH),
    '[1,"n:1","t",null,"token:2026-01-01"]': Version(1, (), "n:1", "t", fresh=FRESH),
    '["d","t"]': Version(definition="d", columns="t"),
    '["d","t","abc"]': Version(definition="d", columns="t", as_read="abc"),
    '["d","t",[["a.csv",10,1],["b.csv",20,2]]]': Version(definition="d", columns="t", files=FILES),
    '["d","t",[["a.csv",10,1],["b.csv",20,2]],"token:2026-01-01"]': Version(
        definition="d", columns="t", files=FILES, fresh=FRESH
    ),
    '["d","t",{"files":101,"bytes":1010}]': Version(definition="d", columns="t", files=(("a", 10, 1),) * 101),
    '["version:3","","version:3"]': Version(definition="version:3", fresh=FreshnessValue("version", "3", "version")),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("text", VERSIONS)
def test_every_form_is_written_as_it_always_was_and_read_back(text: str) -> None:
    version = VERSIONS[text]
    recorded = version.record()
    assert json.dumps(recorded.to_json(), separators=(",", ":")) == text
    assert RecordedVersion.from_json(json.loads(text)) == recorded and not recorded.unreadable
    assert recorded.is_table is (version.definition is None)
    assert is_same_version(recorded, version), "what was recorded of a version is that version"
    assert not is_same_version(recorded, Version(7, (), "n:7", "u", schema_id=9))
    assert Version(recorded=recorded).record() is recorded


@given(st.lists(JSON, max_size=6) | JSON)
def test_whatever_stands_there_comes_back_as_it_was(record: Any) -> None:
    recorded = RecordedVersion.from_json(record)
    assert recorded.to_json() == record
    for version in VERSIONS.values():
        is_same_version(recorded, version)


@pytest.mark.parametrize(
    "record", [None, [], [1], "d", 7, {}, [1, None], [1, 2, 3], ["d"], ["d", None], [[], "t", "u"]]
)
def test_what_has_no_known_form_is_no_version(record: Any) -> None:
    recorded = RecordedVersion.from_json(record)
    assert recorded.unreadable and not recorded.is_table and recorded.to_json() == record
    assert not any(is_same_version(recorded, version) for version in (*VERSIONS.values(), Version()))


def test_a_table_that_a_newer_version_records_in_another_way_is_still_known_by_its_snapshot() -> None:
    recorded = RecordedVersion.from_json([5, "n:1", "t", {"schema": 3}])
    assert recorded.snapshot_id == 5 and not is_same_version(recorded, Version(5, (), "n:1", "t", schema_id=3))


def test_a_newer_version_may_add_to_a_form() -> None:
    record = [1, "n:1", "t", 3, "token:2026-01-01", {"later": True}]
    recorded = RecordedVersion.from_json(record)
    assert recorded.values == ("token:2026-01-01", {"later": True}) and recorded.to_json() == record
    assert FRESH.get_recorded(recorded) == "2026-01-01"


def test_a_table_is_not_the_view_that_took_its_name() -> None:
    table, view = (
        Version(1, (), "n:1", "t", schema_id=0, fresh=FRESH),
        Version(definition="d", columns="t", fresh=FRESH),
    )
    assert not is_same_version(table.record(), view) and not is_same_version(view.record(), table)
    assert not is_same_version(table.record(), view, columns_only=True)


def test_sources_are_sorted_and_short() -> None:
    versions = {"b": RecordedVersion(1, None, "t"), "a": RecordedVersion(definition="d", columns="t")}
    text = encode_sources(versions)
    assert text == '{"a":["d","t"],"b":[1,null,"t"]}' and parse_sources(text) == versions


@pytest.mark.parametrize("text", ["", "not json", "[]", "null", "7", '"a"', "{"])
def test_damaged_sources_are_none(text: str) -> None:
    assert parse_sources(text) is None
