"""Two builds that run one loader at the same time: no row is loaded twice, and none is lost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from cli.conftest import SQB, Folder, new_project

LOADER = """
import os
import time
from pathlib import Path

from sqb import loader


@loader(source="raw.events", {options})
def fetch(ctx):
    seen = (ctx.last_result or {{"seen": 0}})["seen"]
    rows = [{{"id": n, "n": n * {times}}} for n in map(int, Path("events.txt").read_text().split()) if {wanted}]
    if "WAIT" in os.environ:
        Path("started").write_text("")
        while not Path("go").exists():
            time.sleep(0.05)
    if not rows:
        ctx.skip(reason="nothing new")
    ctx.write(rows)
    return ctx.result({{"seen": max(r["id"] for r in rows), "more": "{more}"}})
"""
OTHER = "another build has loaded at the same time"


def shop_with(root: Path, options: str, wanted: str = "n > seen", more: str = "", times: int = 10) -> Folder:
    code = LOADER.format(options=options, wanted=wanted, more=more, times=times)
    return new_project(root, {"sqlbuild_project.toml": 'name = "shop"\n', "python/a.py": code, "events.txt": "1 2"})


def load(shop: Folder) -> None:
    done = shop.here("load")
    assert done.code == 0, done.out + done.err


def rows(shop: Folder) -> list[tuple[int, int]]:
    table = catalog(shop).load_table("raw.events").scan().to_arrow().to_pylist()
    return sorted((r["id"], r["n"]) for r in table)


def catalog(shop: Folder) -> SqlCatalog:
    folder = shop.root / "lake"
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "data"))


def load_while(shop: Folder, act: Callable[[], None]) -> tuple[int, str]:
    """A load whose function has begun when something else happens, and goes on after it."""
    slow = subprocess.Popen(
        [SQB, "load", "--project-dir", str(shop.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "WAIT": "1"},
    )
    until = time.monotonic() + 60
    while not (shop.root / "started").exists():
        assert slow.poll() is None and time.monotonic() < until, slow.communicate()[0]
        time.sleep(0.05)
    try:
        act()
    finally:
        (shop.root / "go").write_text("")
        said = slow.communicate(timeout=120)[0]
    return slow.returncode, said


def test_appended_rows_come_once(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')
    load(shop)
    shop.write({"events.txt": "1 2 3"})

    def other() -> None:
        load(shop)
        shop.write({"events.txt": "1 2 3 4"})

    code, said = load_while(shop, other)
    assert code == 0 and OTHER in said, said
    assert rows(shop) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    load(shop)
    assert rows(shop) == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_where_the_other_one_has_loaded_all_there_is_nothing_new(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')
    code, said = load_while(shop, lambda: load(shop))
    assert code == 0 and OTHER in said and "nothing new" in said, said
    assert rows(shop) == [(1, 10), (2, 20)]


@pytest.mark.parametrize("options", ['mode="upsert", key="id"', 'mode="replace"'])
def test_rows_that_take_the_place_of_others_are_those_of_the_last_run(tmp_path: Path, options: str) -> None:
    shop = shop_with(tmp_path / "shop", options, wanted="True")
    load(shop)
    shop.write({"events.txt": "1 2 3"})

    def other() -> None:
        load(shop)
        shop.write({"events.txt": "2 3 4"})

    code, said = load_while(shop, other)
    # What the slow one had read before the other one came is not what it writes in the end.
    kept = [(1, 10)] if "upsert" in options else []
    assert code == 0 and OTHER in said, said
    assert rows(shop) == [*kept, (2, 20), (3, 30), (4, 40)]


def test_rows_of_somebody_else_are_a_conflict(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')
    load(shop)
    shop.write({"events.txt": "1 2 3"})
    theirs = pa.table({"id": pa.array([9], pa.int32()), "n": pa.array([0], pa.int32())})
    code, said = load_while(shop, lambda: catalog(shop).load_table("raw.events").append(theirs))
    assert code == 1 and "SQB-L007" in said and OTHER not in said
    assert rows(shop) == [(1, 10), (2, 20), (9, 0)]
    # The memory is still that of what was loaded.
    load(shop)
    assert rows(shop) == [(1, 10), (2, 20), (3, 30), (9, 0)]


def test_another_definition_of_the_loader_is_a_conflict(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')

    def other() -> None:
        shop_with(tmp_path / "shop", 'mode="append"', times=100)
        load(shop)

    code, said = load_while(shop, other)
    assert code == 1 and "SQB-L007" in said
    assert rows(shop) == [(1, 100), (2, 200)]


def test_a_memory_that_is_too_long_for_a_commit_is_not_guessed(tmp_path: Path) -> None:
    """What the other build remembers is not known before that has ended: this one does not load the same rows."""
    shop = shop_with(tmp_path / "shop", 'mode="append"', more="x" * 70_000)
    code, said = load_while(shop, lambda: load(shop))
    assert code == 1 and "SQB-L007" in said
    assert rows(shop) == [(1, 10), (2, 20)]
    load(shop)
    assert rows(shop) == [(1, 10), (2, 20)]


def test_a_memory_that_is_too_long_for_a_commit_is_told_of(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"', more="x" * 70_000)
    done = shop.here("load")
    size = len('{"seen": 2, "more": ""}') + 70_000
    assert done.code == 0 and f"fetch: its payload has {size:,} characters, and a commit holds 64,000" in done.out
    # Rows that take the place of others come again as they are.
    other = shop_with(tmp_path / "other", 'mode="upsert", key="id"', more="x" * 70_000)
    done = other.here("load")
    assert done.code == 0 and "characters" not in done.out + done.err
