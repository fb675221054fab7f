"""Cache files: what was written under the same stamp is read, and everything else counts as not cached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqb.cache.files import EntryFile, read_entries, read_lines, read_value, write_entries, write_lines, write_value

LINES = ["", "é😀\t", '{"a": "end"}', "end"]


def test_lines_come_back_under_their_stamp(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache"
    assert read_lines(path, "code 1") is None
    write_lines(path, "code 1", LINES)
    assert read_lines(path, "code 1") == LINES == read_lines(path, None)
    assert read_lines(path, "code 2") is None
    write_lines(path, "code 1", [])
    assert read_lines(path, "code 1") == []


def test_a_file_that_was_cut_off_anywhere_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    write_lines(path, "stamp", ["one", "two"])
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_lines(path, "stamp") is None and read_value(path, "stamp", list[str]) is None


@pytest.mark.parametrize(
    "damage", [b"", b"\xff\xfe", b"stamp", b"stamp\n", b"end", b"stamp\n[\nend", b"stamp\nnul\nend"]
)
def test_damage_means_not_cached(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "cache"
    path.write_bytes(damage)
    assert read_value(path, "stamp", dict[str, str]) is None


def test_a_value_comes_back(tmp_path: Path) -> None:
    value = {"a\n\t": ("\ud800", "end")}
    write_value(tmp_path / "cache", "stamp", value, dict[str, tuple[str, str]])
    assert read_value(tmp_path / "cache", "stamp", dict[str, tuple[str, str]]) == value
    assert read_value(tmp_path / "cache", "other", dict[str, tuple[str, str]]) is None


def test_a_folder_or_nothing_writable_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "folder", tmp_path / "file" / "cache"):
        write_lines(path, "stamp", ["x"])
        assert read_lines(path, "stamp") is None
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_lines(tmp_path / "cache", "stamp", ["x"])
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_entries_by_their_keys(tmp_path: Path) -> None:
    entries = {"a b": "x\ty", "": "", "end": "end"}
    write_entries(tmp_path / "cache", "stamp", entries)
    assert read_entries(tmp_path / "cache", "stamp") == entries and read_entries(tmp_path / "cache", "other") == {}


def test_an_entry_file_forgets_what_is_not_live(tmp_path: Path) -> None:
    file = EntryFile(tmp_path / "cache", "stamp")
    file.put({"a": "1", "b": "2", "odd\tkey": "3", "odd\nkey": "4"})
    file.save()
    again = EntryFile(tmp_path / "cache", "stamp")
    assert again.get(["a", "b", "odd\tkey", "odd\nkey", "c"]) == {"a": "1", "b": "2"}
    again.put({"c": "5"}, live={"b", "c"})
    again.save()
    assert EntryFile(tmp_path / "cache", "stamp").get("abc") == {"b": "2", "c": "5"}
    again.clear()
    assert again.get("abc") == {}
