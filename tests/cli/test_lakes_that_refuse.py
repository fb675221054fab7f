"""A lake that cannot be read or written, is full, was moved, or is no lake at all."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.conftest import SEEDS, Done, Folder, build_all, can, new_project, quiet

MORE = {"seeds/people.csv": "id,name\n1,Ada\n2,Grace\n3,Edsger\n"}


@contextmanager
def mounted(path: Path, *options: str) -> Iterator[None]:
    """Something mounted at a folder for a while; skips where that is not allowed."""
    path.mkdir(exist_ok=True)
    if not can("mount", *options, str(path)):
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def errors(done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("error[")]


def test_a_catalog_that_is_not_a_database(tmp_path: Path) -> None:
    folder = new_project(tmp_path)
    folder.write({"lake/catalog.db": "this is just a text that somebody put here\n" * 20})
    before = (tmp_path / "lake/catalog.db").read_bytes()
    for command in ("plan", "build", "history"):
        done = folder.here(command)
        assert done.code == 1
        assert errors(done) == [
            f"error[SQB-L001]: {tmp_path}/lake/catalog.db is not an Iceberg catalog database: file is not a database"
        ]
        assert "hint: point `uri`" in done.err
    assert (tmp_path / "lake/catalog.db").read_bytes() == before
    assert [p.name for p in (tmp_path / "lake").iterdir()] == ["catalog.db"]


def test_a_database_that_is_not_a_catalog(tmp_path: Path) -> None:
    import sqlite3

    folder = new_project(tmp_path)
    (tmp_path / "lake").mkdir()
    with sqlite3.connect(tmp_path / "lake/catalog.db") as connection:
        connection.execute("CREATE TABLE orders (id INT)")
    done = folder.here("plan")
    assert done.code == 1 and errors(done)[0].startswith("error[SQB-L001]: ")


@pytest.mark.parametrize("name", ["lake", "lake/data"])
def test_a_file_where_a_folder_of_the_lake_should_be(tmp_path: Path, name: str) -> None:
    folder = new_project(tmp_path)
    folder.write({name: "a file"})
    done = folder.here("build")
    assert done.code == 1
    assert set(errors(done)) == {f"error[SQB-L002]: cannot write to {tmp_path}/{name}"}
    assert "hint: the lake needs a folder there, and something else has its name" in done.out + done.err
    assert done.lines[-1].startswith("Done: 0 ran, 0 skipped, 2 failed (0 rows,")
    assert (tmp_path / name).read_text() == "a file"


def test_a_lake_on_a_drive_that_is_not_there(tmp_path: Path) -> None:
    missing = "/proc/no-such-drive"
    connection = f'{{type = "jdbc", uri = "sqlite:///{missing}/catalog.db", warehouse = "{missing}/data"}}'
    toml = f'name = "shop"\n[connections.away]\ncatalog = {connection}\n'
    folder = new_project(tmp_path, {**SEEDS, "sqlbuild_project.toml": toml})
    assert folder.here("plan").code == 0
    done = folder.here("build")
    assert done.code == 1
    assert set(errors(done)) == {f"error[SQB-L002]: cannot write to {missing}"}


def test_a_lake_that_may_only_be_read(tmp_path: Path) -> None:
    folder = build_all(new_project(tmp_path))
    before = folder.lake()
    lake = tmp_path / "lake"
    with mounted(lake, "--bind", str(lake)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(lake)], check=True)
        assert folder.here("build").code == 0, "nothing to do needs nothing to be written"
        folder.write(MORE)
        done = folder.here("build")
        assert done.code == 1
        assert errors(done) == [f"error[SQB-L002]: cannot write to {lake}"]
    assert folder.lake() == before
    done = folder.here("build")
    assert done.code == 0 and done.lines[0].startswith("[OK] seeds.people (seed, backfill, 3 rows,")


def test_a_disk_that_is_full_while_a_seed_is_written(tmp_path: Path) -> None:
    rows = "".join(f"{i},{hash(str(i))}\n" for i in range(60_000))
    folder = new_project(tmp_path)
    with mounted(tmp_path / "lake", "-t", "tmpfs", "-o", "size=400k", "none"):
        build_all(folder)
        before = folder.lake()
        folder.write({"seeds/big.csv": "id,value\n" + rows})
        done = folder.here("build")
        assert done.code == 1
        assert errors(done) == [f"error[SQB-L004]: no space left in {tmp_path}/lake/data"]
        assert "hint: free some space" in done.err and "Traceback" not in done.err
        after = folder.lake()
        assert {k: v for k, v in after.items() if "/people/" in k or "/places/" in k} == {
            k: v for k, v in before.items() if "/people/" in k or "/places/" in k
        }
        assert not [k for k in after if "big" in k and "_sqlbuild" not in k]
        (tmp_path / "seeds/big.csv").unlink()
        assert folder.here("build").code == 0


def test_a_disk_that_is_full_while_spark_writes(tmp_path: Path, sqb_here: Callable[..., Done]) -> None:
    folder = new_project(tmp_path)
    with mounted(tmp_path / "lake", "-t", "tmpfs", "-o", "size=2m", "none"):
        build_all(folder)
        folder.write(
            {
                "models/big.sql": "SELECT id, sha2(CAST(id AS STRING), 512) AS h FROM range(200000)",
                "models/after.sql": "SELECT * FROM big",
            }
        )
        done = sqb_here(folder, "build")
        assert done.code == 1
        (result,) = errors(done)
        assert result.startswith("error[SQB-L004]: ") and "no space left" in result
        assert "[SKIP] default.after (upstream default.big failed)" in done.lines
        assert quiet(done)
        assert not [k for k in folder.lake() if "/big/" in k or "/after/" in k]
        plan = folder.here("plan", "--json").document
        assert {n["name"]: n["reason"] for n in plan["nodes"] if n["action"] == "run"} == {
            "default.big": "First run",
            "default.after": "First run",
        }


def test_a_project_that_was_moved_or_copied(tmp_path: Path) -> None:
    first = build_all(new_project(tmp_path / "first"))
    shutil.copytree(first.root, tmp_path / "copy")
    first.root.rename(tmp_path / "moved")
    for name in ("moved", "copy"):
        folder = Folder(tmp_path / name)
        before = folder.lake()
        folder.write(MORE)
        for command in ("plan", "build", "history"):
            done = folder.here(command)
            assert done.code == 1
            assert errors(done) == [
                f"error[SQB-L003]: this lake was made in {tmp_path}/first/lake/data,"
                f" but the project's warehouse is now {tmp_path}/{name}/lake/data"
            ]
            assert "hint: " in done.err
        assert folder.lake() == before
    shutil.rmtree(tmp_path / "copy" / "lake")
    assert Folder(tmp_path / "copy").sqb("build").code == 0
    (tmp_path / "moved").rename(first.root)
    assert first.here("build").code == 0, "a project that was moved back goes on"


def test_a_cache_folder_that_cannot_be_used_is_no_error(tmp_path: Path) -> None:
    folder = new_project(tmp_path, {**SEEDS, ".sqb": "a file"})
    assert folder.here("build").code == 0
    done = folder.here("build")
    assert (done.code, done.lines[-2]) == (0, "Nothing to do: everything is up to date.")
    assert (tmp_path / ".sqb").read_text() == "a file"


def test_a_cache_folder_that_may_only_be_read_is_no_error(tmp_path: Path) -> None:
    folder = build_all(new_project(tmp_path))
    cache = tmp_path / ".sqb"
    with mounted(cache, "--bind", str(cache)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(cache)], check=True)
        folder.write(MORE)
        done = folder.here("build")
        assert done.code == 0 and done.lines[0].startswith("[OK] seeds.people (seed, backfill, 3 rows,")
        assert folder.here("build").lines[-2] == "Nothing to do: everything is up to date."
