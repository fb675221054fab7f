"""Opening a project: from the cache when nothing changed, and never from it when something did."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqb.compile import project
from sqb.errors.base import SqbError
from sqb.errors.call import NoProject, UnknownTarget
from sqb.workspace import Workspace, _hash_content, compute_code_stamp, open_workspace
from unit.folders import TOML, write

LONG_AGO = 1_600_000_000

FILES = {
    "sqlbuild_project.toml": TOML + "[vars]\nn = 1\n[targets.dev]\n[targets.prod]\nschema = 'prod'\n",
    "models/a.sql": "SELECT @@n AS x, @one() AS y",
    "models/b.sql": "SELECT x, @@ENV:SQB_TEST_REGION AS region FROM a",
    "seeds/s.csv": "id\n1\n",
    "macros/m.py": "def one():\n    return '1'\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose files are old, so that their stamps can be relied on."""
    monkeypatch.setenv("SQB_TEST_REGION", "eu")
    write(tmp_path, FILES)
    age(tmp_path)
    return tmp_path


def age(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file() and ".sqb" not in path.parts:
            os.utime(path, (LONG_AGO, LONG_AGO))


def cached_files(root: Path) -> list[Path]:
    return sorted((root / ".sqb" / "cache").glob("project-*.json"))


def sql(workspace: Workspace, name: str) -> str:
    return workspace.project.nodes[name].sql


def test_the_second_opening_comes_from_the_cache_and_is_the_same(root: Path) -> None:
    first, second = open_workspace(root), open_workspace(root)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert list(first.project) == list(second.project)
    assert first.connection == second.connection and first.concurrency == second.concurrency


def test_a_process_looks_once_at_its_own_code(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[str, ...]] = []

    def look(*parts: str, also: tuple[Path, ...]) -> str:
        looks.append(parts)
        return "code"

    monkeypatch.setattr("sqb.workspace.stamp_code", look)
    compute_code_stamp.cache_clear()
    try:
        open_workspace(root)
        (root / "models/b.sql").write_text("SELECT x FROM a")
        assert sql(open_workspace(root), "default.b") == "SELECT x FROM a"
        assert len(looks) == 1 and cached_files(root)[0].read_text().startswith("code\n")
    finally:
        compute_code_stamp.cache_clear()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("models/a.sql", "SELECT @@n AS z, @one() AS y"),
        ("models/a.sql", "SELECT @@n AS xx, @one() AS y"),
        ("seeds/s.csv", "id\n2\n"),
        ("macros/m.py", "def one():\n    return '2'\n"),
        ("sqlbuild_project.toml", FILES["sqlbuild_project.toml"].replace("n = 1", "n = 2")),
    ],
)
def test_an_edited_file_is_seen(root: Path, file: str, text: str) -> None:
    before = open_workspace(root)
    write(root, {**FILES, file: text})
    after = open_workspace(root)
    assert not after.from_cache
    assert [n.local_hash for n in after.project] != [n.local_hash for n in before.project]


def test_an_edit_of_the_same_size_within_the_clocks_grain_is_seen(root: Path) -> None:
    path = root / "models/a.sql"
    path.write_text("SELECT 1 AS x, 1 AS y")
    stamp = path.stat()
    assert "1 AS x" in sql(open_workspace(root), "default.a")
    path.write_text("SELECT 2 AS x, 1 AS y")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert "2 AS x" in sql(open_workspace(root), "default.a")


def test_a_file_from_the_future_is_always_looked_into(root: Path) -> None:
    path = root / "models/a.sql"
    future = (4_000_000_000, 4_000_000_000)
    path.write_text("SELECT 1 AS x, 1 AS y")
    os.utime(path, future)
    open_workspace(root)
    assert open_workspace(root).from_cache
    path.write_text("SELECT 2 AS x, 1 AS y")
    os.utime(path, future)
    assert "2 AS x" in sql(open_workspace(root), "default.a")


def test_a_file_that_was_only_touched_is_not_compiled_again(root: Path) -> None:
    open_workspace(root)
    os.utime(root / "models/a.sql")
    assert open_workspace(root).from_cache


def test_a_file_that_was_replaced_by_itself_is_not_compiled_again(root: Path) -> None:
    open_workspace(root)
    write(root, FILES)
    assert open_workspace(root).from_cache


def test_added_and_removed_files_are_seen(root: Path) -> None:
    open_workspace(root)
    write(root, {**FILES, "models/c.sql": "SELECT 1 AS x"})
    assert "default.c" in open_workspace(root).project.nodes
    (root / "models/c.sql").unlink()
    assert "default.c" not in open_workspace(root).project.nodes
    (root / "seeds/s.csv").unlink()
    assert "seeds.s" not in open_workspace(root).project.nodes


def test_a_renamed_file_is_seen(root: Path) -> None:
    open_workspace(root)
    (root / "models/b.sql").rename(root / "models/c.sql")
    assert set(open_workspace(root).project.nodes) == {"default.a", "default.c", "seeds.s"}


def test_a_local_override_that_appears_and_goes_is_seen(root: Path) -> None:
    open_workspace(root)
    write(root, {**FILES, "sqlbuild_local.toml": "concurrency = 3\n[vars]\nn = 7\n"})
    changed = open_workspace(root)
    assert changed.concurrency == 3 and "7 AS x" in sql(changed, "default.a")
    (root / "sqlbuild_local.toml").unlink()
    assert open_workspace(root).concurrency is None


def test_an_environment_variable_that_a_model_uses_is_part_of_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_workspace(root)
    monkeypatch.setenv("SQB_TEST_OTHER", "x")
    assert open_workspace(root).from_cache
    monkeypatch.setenv("SQB_TEST_REGION", "us")
    changed = open_workspace(root)
    assert not changed.from_cache and "'us'" in sql(changed, "default.b")
    monkeypatch.delenv("SQB_TEST_REGION")
    with pytest.raises(SqbError, match="SQB_TEST_REGION is not set"):
        open_workspace(root)


def test_variables_of_the_call_are_part_of_it(root: Path) -> None:
    assert "1 AS x" in sql(open_workspace(root), "default.a")
    assert "5 AS x" in sql(open_workspace(root, None, {"n": 5}), "default.a")
    assert "'5' AS x" in sql(open_workspace(root, None, {"n": "5"}), "default.a")
    again = open_workspace(root, None, {"n": 5})
    assert again.from_cache and "5 AS x" in sql(again, "default.a")
    assert "1 AS x" in sql(open_workspace(root), "default.a")


def test_each_target_has_its_own_cache(root: Path) -> None:
    assert str(open_workspace(root, "dev").project.nodes["default.a"].relation) == "default.a"
    assert str(open_workspace(root, "prod").project.nodes["default.a"].relation) == "prod.a"
    again = open_workspace(root, "prod")
    assert again.from_cache and again.project.target == "prod"


def test_an_unknown_target_is_an_error_with_the_nearest(root: Path) -> None:
    with pytest.raises(UnknownTarget, match='there is no target "prd"') as caught:
        open_workspace(root, "prd")
    assert caught.value.hint == "did you mean 'prod'?"
    with pytest.raises(UnknownTarget) as caught:
        open_workspace(root, "elsewhere")
    assert caught.value.hint == "targets: dev, prod"


DAMAGE: list[Any] = [
    b"",
    b"{}",
    b"not json\n[]",
    b"\xff\xfe",
    b"null\nnull",
    b"[]\n[]",
    b"\x00" * 100,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_as_good_as_none(root: Path, damage: bytes) -> None:
    first = open_workspace(root)
    for path in (*cached_files(root), root / ".sqb/cache/queries.json"):
        path.write_bytes(damage)
    again = open_workspace(root)
    assert not again.from_cache
    assert list(again.project) == list(first.project)
    assert open_workspace(root).from_cache


def test_a_cache_that_was_cut_off_anywhere_is_as_good_as_none(root: Path) -> None:
    first = open_workspace(root)
    (path,) = cached_files(root)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:length])
        assert list(open_workspace(root).project) == list(first.project)


@pytest.mark.parametrize("line", [0, 1, 2, 3])
@pytest.mark.parametrize("other", ["another", "", "[]", "null", "[[],[]]", "{}"])
def test_a_cache_of_other_code_is_as_good_as_none(root: Path, line: int, other: str) -> None:
    open_workspace(root)
    (path,) = cached_files(root)
    lines = path.read_text().split("\n")
    lines[line] = other
    path.write_text("\n".join(lines))
    assert not open_workspace(root).from_cache
    assert open_workspace(root).from_cache


@pytest.mark.parametrize("position", range(16))
def test_a_cache_whose_origin_is_damaged_is_as_good_as_none(root: Path, position: int) -> None:
    open_workspace(root)
    (path,) = cached_files(root)
    stamp, origin, *rest = path.read_text().split("\n")
    values = json.loads(origin)
    assert len(values) == 16
    path.write_text("\n".join([stamp, json.dumps(values[:position] + values[position + 1 :]), *rest]))
    assert not open_workspace(root).from_cache


def test_a_cache_folder_that_cannot_be_written_is_no_error(root: Path) -> None:
    (root / ".sqb").write_text("a file where the folder should be")
    assert list(open_workspace(root).project.nodes) == list(open_workspace(root).project.nodes)
    assert not open_workspace(root).from_cache


def test_nothing_is_kept_of_a_project_with_errors(root: Path) -> None:
    write(root, {**FILES, "models/a.sql": "SELECT FROM"})
    for _ in range(2):
        with pytest.raises(SqbError):
            open_workspace(root)
    assert cached_files(root) == []


def test_only_the_edited_file_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_workspace(root)
    write(root, {**FILES, "models/a.sql": "SELECT 3 AS x"})
    parsed = []
    from sqb.sql.analysis import parse

    original = parse.read_query_with_outline

    def counted(text: str, forced: Any) -> Any:
        parsed.append(text)
        return original(text, forced)

    monkeypatch.setattr(parse, "read_query_with_outline", counted)
    open_workspace(root)
    assert parsed == ["SELECT 3 AS x"]


def test_the_project_is_found_from_a_folder_inside_it(root: Path) -> None:
    assert open_workspace(root / "models").root == root
    (root / "seeds" / "deep").mkdir(parents=True)
    assert open_workspace(root / "seeds" / "deep").root == root
    with pytest.raises(NoProject, match="there is no folder"):
        open_workspace(root / "seeds" / "nowhere")


def test_no_project_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoProject, match=r"no sqlbuild_project\.toml in ") as caught:
        open_workspace(tmp_path)
    assert caught.value.hint is not None and "sqb init" in caught.value.hint


def test_paths_of_the_lake_are_relative_to_the_project(root: Path) -> None:
    workspace = open_workspace(root / "models")
    assert workspace.lake_location.database == root / "lake/catalog.db"
    assert workspace.lake_location.folder == root / "lake/data"
    connection = (
        '[connections.x]\ncatalog = {type = "jdbc", uri = "sqlite:////srv/c.db", warehouse = "file:///srv/d"}\n'
    )
    write(root, {**FILES, "sqlbuild_project.toml": TOML + "[vars]\nn = 1\n" + connection})
    workspace = open_workspace(root)
    assert (str(workspace.lake_location.database), workspace.lake_location.warehouse) == ("/srv/c.db", "/srv/d")


OUTSIDE = {"present": ("X = 1\n", True), "changed": ("X = 2\n", False), "gone": (None, False)}


@pytest.mark.parametrize("case", OUTSIDE)
@pytest.mark.parametrize("recent", [False, True])
def test_modules_outside_of_the_project_are_looked_at(
    case: str, recent: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, same = OUTSIDE[case]
    inside = root / "below"
    write(inside, FILES)
    module = root / "lib.py"
    module.write_text("X = 1\n")
    age(root)
    _with_outside(monkeypatch, {"../lib.py": _hash_content(root, "lib.py"), "../missing.py": ""})
    assert not open_workspace(inside).from_cache
    assert open_workspace(inside).from_cache
    if text is None:
        module.unlink()
    else:
        module.write_text(text)
        if not recent:
            os.utime(module, (LONG_AGO + 9, LONG_AGO + 9))
    assert open_workspace(inside).from_cache == same


def test_a_module_that_comes_outside_of_the_project_is_seen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_outside(monkeypatch, {"missing.py": ""})
    open_workspace(root)
    assert open_workspace(root).from_cache
    (root / "missing.py").write_text("")
    assert not open_workspace(root).from_cache


def _with_outside(monkeypatch: pytest.MonkeyPatch, outside: dict[str, str]) -> None:
    real = project.compile_project
    monkeypatch.setattr(project, "compile_project", lambda *a: replace(real(*a), outside=outside))
