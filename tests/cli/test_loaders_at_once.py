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
# Of more characters than a commit holds.
LONG = "x" * 70_000


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
        output = slow.communicate(timeout=120)[0]
    return slow.returncode, output


def test_appended_rows_come_once(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')
    load(shop)
    shop.write({"events.txt": "1 2 3"})

    def other() -> None:
        load(shop)
        shop.write({"events.txt": "1 2 3 4"})

    code, output = load_while(shop, other)
    assert code == 0 and OTHER in output, output
    assert rows(shop) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    load(shop)
    assert rows(shop) == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_where_the_other_one_has_loaded_all_there_is_nothing_new(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')
    code, output = load_while(shop, lambda: load(shop))
    assert code == 0 and OTHER in output and "nothing new" in output, output
    assert rows(shop) == [(1, 10), (2, 20)]


@pytest.mark.parametrize("options", ['mode="upsert", key="id"', 'mode="replace"'])
def test_rows_that_take_the_place_of_others_are_those_of_the_last_run(tmp_path: Path, options: str) -> None:
    shop = shop_with(tmp_path / "shop", options, wanted="True")
    load(shop)
    shop.write({"events.txt": "1 2 3"})

    def other() -> None:
        load(shop)
        shop.write({"events.txt": "2 3 4"})

    code, output = load_while(shop, other)
    # What the slow one had read before the other one came is not what it writes in the end.
    remaining = [(1, 10)] if "upsert" in options else []
    assert code == 0 and OTHER in output, output
    assert rows(shop) == [*remaining, (2, 20), (3, 30), (4, 40)]


def test_rows_of_somebody_else_are_a_conflict(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')
    load(shop)
    shop.write({"events.txt": "1 2 3"})
    theirs = pa.table({"id": pa.array([9], pa.int32()), "n": pa.array([0], pa.int32())})
    code, output = load_while(shop, lambda: catalog(shop).load_table("raw.events").append(theirs))
    assert code == 1 and "SQB-L007" in output and OTHER not in output
    assert "something else than this loader wrote to it" in output
    assert rows(shop) == [(1, 10), (2, 20), (9, 0)]
    # The memory is still that of what was loaded.
    load(shop)
    assert rows(shop) == [(1, 10), (2, 20), (3, 30), (9, 0)]


def test_another_definition_of_the_loader_is_a_conflict(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"')

    def other() -> None:
        shop_with(tmp_path / "shop", 'mode="append"', times=100)
        load(shop)

    code, output = load_while(shop, other)
    assert code == 1 and "SQB-L007" in output and "another definition of this loader wrote to it" in output
    assert rows(shop) == [(1, 100), (2, 200)]


def test_a_memory_that_is_too_long_for_a_commit_is_known_as_soon_as_the_rows_are(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"', more=LONG)
    shop.write({"events.txt": "1 2"})

    def other() -> None:
        # It is killed before its history is written.
        assert shop.sqb("load", env={"SQB_FAULT": "kill:published:fetch"}).code == -9
        shop.write({"events.txt": "1 2 3"})

    code, output = load_while(shop, other)
    assert code == 0 and OTHER in output, output
    assert rows(shop) == [(1, 10), (2, 20), (3, 30)]
    load(shop)
    assert rows(shop) == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.parametrize("step", ["before publish", "published", "before history"])
def test_a_kill_comes_never_between_rows_and_a_memory_that_is_too_long_for_a_commit(tmp_path: Path, step: str) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"', more=LONG)
    node = "" if step == "before history" else ":fetch"
    for events in ("1 2", "1 2 3"):
        shop.write({"events.txt": events})
        assert shop.sqb("load", env={"SQB_FAULT": f"kill:{step}{node}"}).code == -9
        # What was written down of a run that did not publish is no memory, and no run of the history.
        load(shop)
        assert rows(shop) == [(int(n), int(n) * 10) for n in events.split()]
        statuses = {n["status"] for r in shop.here("history", "--json").document["runs"] for n in r["nodes"]}
        assert statuses <= {"ok", "skipped"}, statuses


def test_a_memory_that_is_too_long_for_a_commit_survives_the_janitor(tmp_path: Path) -> None:
    shop = shop_with(tmp_path / "shop", 'mode="append"', more=LONG)
    assert shop.sqb("load", env={"SQB_FAULT": "kill:published:fetch"}).code == -9
    settings = (shop.root / "sqlbuild_project.toml").read_text()
    shop.write({"sqlbuild_project.toml": settings + '[janitor]\nhistory_retention = "1s"\n'})
    time.sleep(1.1)
    done = shop.here("janitor")
    assert done.code == 0, done.err
    shop.write({"events.txt": "1 2 3"})
    load(shop)
    assert rows(shop) == [(1, 10), (2, 20), (3, 30)]
