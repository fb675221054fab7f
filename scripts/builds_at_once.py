"""Builds of one target at once, on one kept Spark, while their sources change: all must end well, all must be exact.

    python scripts/builds_at_once.py FOLDER [ROUNDS] [BUILDS]

A round begins builds one after the other, with a change of the sources before each, and waits for them. Then every
table is compared with its query, computed here from the rows of the sources, and a plan must find nothing to do.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

MODELS = {
    "staging/kept": "SELECT id, g, n FROM raw.x WHERE n % 3 <> 0",
    "marts/sums": "-- @kind: merge\n-- @unique_key: g\nSELECT g, count(*) AS c, sum(n) AS total FROM kept GROUP BY g",
    "marts/log": "-- @kind: append\nSELECT id, n FROM kept",
    "marts/history": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, n FROM kept",
    "marts/groups": "-- @kind: tracked\n-- @group_key: g\nSELECT g, n FROM kept",
    "marts/joined": "SELECT k.id, k.n, x.n AS direct, y.label FROM kept k JOIN raw.x x ON k.id = x.id "
    "LEFT JOIN raw.y y ON k.g = y.g",
    "marts/shown": "-- @kind: view\nSELECT * FROM sums WHERE c > 1",
}


class Lake:
    """The sources as somebody else changes them, and the tables as somebody else reads them."""

    def __init__(self, folder: Path) -> None:
        (folder / "lake").mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{folder}/lake/catalog.db"
        self.catalog = SqlCatalog("lake", uri=uri, warehouse=f"{folder}/lake/data")
        self.random = random.Random(7)
        self.next = 0

    def make(self) -> None:
        self.catalog.create_namespace_if_not_exists("raw")
        self.catalog.create_table("raw.x", pa.schema([("id", pa.int64()), ("g", pa.int64()), ("n", pa.int64())]))
        self.catalog.create_table("raw.y", pa.schema([("g", pa.int64()), ("label", pa.string())]))
        self.add(20)
        self.catalog.load_table("raw.y").append(pa.table({"g": list(range(5)), "label": [f"l{i}" for i in range(5)]}))

    def add(self, count: int) -> None:
        ids = list(range(self.next, self.next + count))
        self.next += count
        rows = {"id": ids, "g": [i % 5 for i in ids], "n": [self.random.randrange(100) for _ in ids]}
        self.catalog.load_table("raw.x").append(pa.table(rows))

    def change(self) -> None:
        """One change of the sources; those that only add keep the log's rows a function of the source."""
        kind = self.random.choice(["add", "add", "label"])
        if kind == "add":
            self.add(self.random.randrange(1, 4))
        else:
            g = self.random.randrange(5)
            labels = pa.table({"g": [g], "label": [f"m{self.random.randrange(1000)}"]})
            self.catalog.load_table("raw.y").overwrite(labels, overwrite_filter=f"g = {g}")

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        found = self.catalog.load_table(name).scan().to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=str)


def expected(lake: Lake) -> dict[str, list[tuple[Any, ...]]]:
    kept = [(i, g, n) for i, g, n in lake.rows("raw.x") if n % 3]
    labels = dict(lake.rows("raw.y"))
    groups = sorted({g for _, g, _ in kept})
    found: dict[str, list[tuple[Any, ...]]] = {
        "staging.kept": kept,
        "marts.sums": [(g, len(ns := [n for _, h, n in kept if h == g]), sum(ns)) for g in groups],
        "marts.log": [(i, n) for i, _, n in kept],
        "marts.history": [(i, n) for i, _, n in kept],
        "marts.groups": [(g, n) for _, g, n in kept],
        "marts.joined": [(i, n, n, labels.get(g)) for i, g, n in kept],
    }
    return {name: sorted(rows, key=str) for name, rows in found.items()}


def check(lake: Lake) -> list[str]:
    """The tables that are not their queries."""
    wrong = []
    for name, rows in expected(lake).items():
        have = lake.rows(name)
        if name == "marts.history":
            have = sorted(((r[0], r[1]) for r in have if r[4]), key=str)
        if have != rows:
            wrong.append(f"{name}: {len(have)} rows, {len(rows)} expected")
    return wrong


def sqb(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).with_name("sqb")), *words, "--project-dir", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def write_project(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sqlbuild_project.toml").write_text('name = "at_once"\n')
    for path, text in MODELS.items():
        file = folder / "models" / f"{path}.sql"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def main(folder: Path, rounds: int, builds: int) -> int:
    write_project(folder)
    lake = Lake(folder)
    lake.make()
    print(sqb(folder, "engine", "start").communicate()[0], flush=True)
    seen: Counter[str] = Counter()
    began = time.monotonic()
    try:
        for number in range(rounds):
            running = []
            for _ in range(builds):
                lake.change()
                running.append(sqb(folder, "build"))
                time.sleep(lake.random.random() * 1.5)
            ended = [(b.communicate(timeout=900)[0], b.returncode) for b in running]
            for text, code in ended:
                seen[f"exit {code}"] += 1
                seen["made meanwhile"] += text.count("made it meanwhile")
                seen["made from newer versions"] += text.count("from newer versions")
                if code:
                    print(text)
            wrong = check(lake)
            said, code = (b := sqb(folder, "plan")).communicate()[0], b.returncode
            seen["not exact"] += bool(wrong)
            seen["not all done"] += code != 0 or "Nothing to do" not in said
            print(f"round {number + 1}: {dict(seen)} {wrong} {time.monotonic() - began:.0f}s", flush=True)
            if "Nothing to do" not in said:
                print(said, *(text for text, _ in ended), sep="\n", flush=True)
    finally:
        print(sqb(folder, "engine", "stop").communicate()[0], flush=True)
    return int(any(seen[bad] for bad in ("exit 1", "exit 2", "not exact", "not all done")))


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(Path(words[0]).resolve(), int((words[1:] or ["20"])[0]), int((words[2:] or ["3"])[0])))
