"""Files as a source: which they are, and whether they are still the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqb.lake.storage.file_sources import Listing, list_files
from unit.folders import write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    names = ("in/a.csv", "in/b.csv", "in/c.json", "in/.d.csv", "in/_e.csv", "in/day=1/f.csv", "in/_tmp/g.csv")
    return write(tmp_path, {**dict.fromkeys(names, "id\n1\n"), "odd/x [1].csv": "1"})


def listed(root: Path, path: str) -> Listing:
    files = list_files("s", root, path, "csv", {})
    assert files is not None
    return files


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("in/a.csv", ["a.csv"]),
        ("in/*.csv", ["a.csv", "b.csv"]),
        ("./in/[ab].csv", ["a.csv", "b.csv"]),
        ("in/?.csv", ["a.csv", "b.csv"]),
        ("in", ["a.csv", "b.csv", "c.json", "day=1/f.csv"]),
        ("in/", ["a.csv", "b.csv", "c.json", "day=1/f.csv"]),
        ("in/**/*.csv", ["a.csv", "b.csv", "day=1/f.csv"]),
        ("in/day=*", ["day=1/f.csv"]),
        ("i*/a.csv", ["in/a.csv"]),
        ("odd/x [1].csv", ["x [1].csv"]),
        ("in/*.parquet", []),
        ("nothing/*.csv", []),
    ],
)
def test_which_files(root: Path, path: str, names: list[str]) -> None:
    assert [name for name, _, _ in listed(root, path).files] == names
    assert [name for name, _, _ in listed(root, str(root / path)).files] == names
    assert [name for name, _, _ in listed(root, f"file://{root / path}").files] == names


def test_a_path_with_nothing_there(root: Path) -> None:
    assert list_files("s", root, "in/nope.csv", "csv", {}) is None


def test_paths_lead_to_the_files(root: Path) -> None:
    assert listed(root, "in/**/*.csv").paths == tuple(str(root / "in" / n) for n in ("a.csv", "b.csv", "day=1/f.csv"))


def test_a_version_is_the_names_sizes_and_times(root: Path) -> None:
    before = listed(root, "in/*.csv")
    assert listed(root, "in/*.csv").version == before.version
    os.utime(root / "in/a.csv", ns=(1, 1))
    touched = listed(root, "in/*.csv")
    assert touched.version != before.version
    (root / "in/a.csv").write_text("id\n12\n")
    os.utime(root / "in/a.csv", ns=(1, 1))
    assert listed(root, "in/*.csv").version != touched.version
    other = list_files("s", root, "in/*.csv", "csv", {"header": "true"})
    assert other is not None and other.shape != before.shape


def test_a_project_may_be_moved(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("moved") / "project"
    before = listed(root, "in/*.csv")
    os.rename(root, elsewhere)
    assert listed(elsewhere, "in/*.csv").version == before.version


def test_what_moved(root: Path) -> None:
    before = listed(root, "in/*.csv")
    assert before.find_changed_files() == ()
    write(root, {"in/new.csv": "does no harm"})
    assert before.find_changed_files() == ()
    os.utime(root / "in/a.csv", ns=(1, 1))
    (root / "in/b.csv").unlink()
    assert before.find_changed_files() == ("a.csv", "b.csv")


def test_the_youngest_file_tells_the_age(root: Path) -> None:
    os.utime(root / "in/a.csv", ns=(5_000_000_000, 5_000_000_000))
    os.utime(root / "in/b.csv", ns=(7_000_000_000, 7_000_000_000))
    assert listed(root, "in/*.csv").modified_at == 7.0
    assert listed(root, "in/*.orc").modified_at is None
