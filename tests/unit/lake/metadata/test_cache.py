"""Caches: what they hold is what was put in, and whatever is wrong with them is no reason to fail."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sqb.cache.files import read_lines, write_lines
from sqb.lake.metadata.cache import Cache
from sqb.lake.port import Columns, ColumnState, TableState
from sqb.lake.state.rows import Fingerprint
from sqb.plan.recorded.commit_identity import CommitIdentity

COLUMNS = Columns.of([ColumnState("id", '"long"', 1), ColumnState('o"dd\té\n', '["list","int",false]', 7)])
STATE = TableState(
    "u-1", False, "/w/shop/orders", 9_007_199_254_740_993, (9_007_199_254_740_993, 5), 3, COLUMNS, COLUMNS, "tok", 12,
    CommitIdentity(model="shop.orders", sources='{"a": [1]}\n\t', other={"sqb.later": "x"}), False, {"sqb.done": "r1"},
)  # fmt: skip
OTHER = replace(
    STATE,
    uuid="u-2",
    snapshot_id=None,
    same_rows=(),
    rows=None,
    drifted=True,
    snapshot_columns=Columns(),
    properties={},
    former_columns={"0:before": Columns.of([ColumnState("id", '"int"', 1)]), "1:empty": Columns()},
)
FINGERPRINT = Fingerprint(
    "model",
    "a",
    "dev",
    "a",
    "r1",
    "l",
    "v",
    "s",
    "SELECT 'é\n\t'",
    "{}",
    datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
)


def test_states_come_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "deep" / "cache")
    cache.put_states({"/a b": STATE, "/b": OTHER})
    cache.save()
    states = Cache(tmp_path / "deep" / "cache").get_states(["/a b", "/b", "/c"])
    assert states == {"/a b": STATE, "/b": OTHER}
    assert list(states["/a b"].columns) == list(COLUMNS) and states["/a b"].columns[1].id == 7


def test_states_that_nothing_points_to_are_forgotten(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put_states({"/a": STATE, "/b": STATE})
    cache.put_states({"/c": OTHER}, live={"/b", "/c"})
    cache.save()
    assert set(Cache(tmp_path).get_states(["/a", "/b", "/c"])) == {"/b", "/c"}


def test_fingerprints_hold_for_one_pointer(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put_fingerprints("dev", "/1", [FINGERPRINT])
    cache.put_fingerprints("prod", "/9", [])
    cache.save()
    again = Cache(tmp_path)
    assert again.get_fingerprints("dev", "/1") == (FINGERPRINT,)
    assert again.get_fingerprints("dev", "/2") is None
    assert again.get_fingerprints("prod", "/9") == ()
    assert again.get_fingerprints("other", "/1") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sqb table states 0\n/a\t[]",
        "HEADER\n/a\nend",
        "HEADER\n/a\t\nend",
        "HEADER\n/a\t[1,2\nend",
        "HEADER\n/a\t[1,2]\t[]\t[]\nend",
        "HEADER\n/a\tnull\nend",
        "HEADER\n/a\t{}\t\t\nend",
        "HEADER\n/a\t[1]],[[1]\nend",
        "\x00\x01\udcff",
    ],
)
def test_damage_is_ignored(tmp_path: Path, text: str) -> None:
    cache = Cache(tmp_path)
    cache.put_states({"/a": STATE})
    cache.put_fingerprints("/a", "/1", [FINGERPRINT])
    cache.save()
    for name in ("tables", "fingerprints"):
        path = tmp_path / name
        header = path.read_text().split("\n")[0]
        path.write_bytes(text.replace("HEADER", header).encode("utf-8", "surrogateescape"))
    damaged = Cache(tmp_path)
    assert damaged.get_states(["/a"]) == {} and damaged.get_fingerprints("/a", "/1") is None
    damaged.put_states({"/a": STATE})
    damaged.put_fingerprints("/a", "/1", [FINGERPRINT])
    damaged.save()
    assert Cache(tmp_path).get_states(["/a"]) == {"/a": STATE}
    assert Cache(tmp_path).get_fingerprints("/a", "/1") == (FINGERPRINT,)


def test_a_cut_off_file_is_ignored(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put_states({f"/{n}": STATE for n in range(3)})
    cache.save()
    whole = (tmp_path / "tables").read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "tables").write_bytes(whole[:length])
        assert Cache(tmp_path).get_states(["/0", "/1", "/2"]) == {}


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file" / "cache")
    cache.put_states({"/a": STATE})
    cache.save()
    assert cache.get_states(["/a"]) == {"/a": STATE}


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "f", "stamp", ["old"])

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    write_lines(tmp_path / "f", "stamp", ["new"])
    assert read_lines(tmp_path / "f", "stamp") == ["old"] and os.listdir(tmp_path) == ["f"]
