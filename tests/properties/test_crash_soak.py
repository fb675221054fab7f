"""Builds that are killed at random, one after the other, while somebody reads: what is lost is nothing.

`SQB_CRASH_BUILDS` says how many; `make soak` runs a hundred.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqb.build.steps import STEPS
from sqb.names import Relation
from support.sandbox import Sandbox, SandboxMaker
from support.warehouse import unreferenced

COMMAND = Path(sys.executable).with_name("sqb")
BUILDS = int(os.environ.get("SQB_CRASH_BUILDS", "1"))
PROJECT_FILE = """
name = "soak"

[janitor]
file_retention = "0s"
snapshot_retention = "1h"
keep_snapshots = 3

[connections.local.spark]
master = "local[2]"

[connections.local.spark.conf]
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "2"
"""
MODELS = {
    "t_table": "SELECT g, count(*) AS c, sum(n) AS n FROM raw.x GROUP BY g",
    "t_joined": "SELECT x.id, x.n, s.word FROM raw.x AS x JOIN seeds.words AS s ON x.g = s.g",
    "t_merge": "-- @kind: merge\n-- @unique_key: id\nSELECT id, g, n FROM raw.x",
    "t_tracked": "-- @kind: tracked\n-- @group_key: g\nSELECT g, id, n FROM raw.x",
    "t_scd2": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, n FROM raw.x",
    # Nothing ever leaves this source, so that the log must be the whole of it, each row once.
    "t_append": "-- @kind: append\nSELECT id, n FROM raw.events",
    "t_view": "-- @kind: view\nSELECT g, c FROM s.t_table",
    "t_below": "SELECT sum(c) AS c FROM s.t_view",
}
# What is made from the sources alone, and so can be made anew and compared.
FUNCTIONS = [
    "seeds.words",
    "s.t_table",
    "s.t_joined",
    "s.t_merge",
    "s.t_tracked",
    "s.t_append",
    "s.t_view",
    "s.t_below",
]
WITH_CONTENT = ["s.t_table", "s.t_joined", "s.t_merge", "s.t_tracked", "s.t_scd2", "s.t_append", "s.t_below"]


class Chance:
    """The random choices of one story, each as little as it can be."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.next_id = 100

    def fault(self) -> str:
        step = self.random.choice(STEPS)
        nodes = ["", "seeds.words", *(f"s.{name}" for name in MODELS)]
        whole = step in ("planned", "before history", "history written")
        return f"kill:{step}:{'' if whole else self.random.choice(nodes)}"

    def change(self, sandbox: Sandbox) -> None:
        """Something changes in the sources or in the project."""
        pick = self.random.random()
        self.next_id += 1
        n = self.random.randrange(100)
        sandbox.sql(f"INSERT INTO raw.events VALUES ({self.next_id}, {n})")
        if pick < 0.35:
            sandbox.sql(f"INSERT INTO raw.x VALUES ({self.next_id}, 'g{n % 4}', {n})")
        elif pick < 0.6:
            sandbox.sql(f"UPDATE raw.x SET n = n + {n} WHERE id % 3 = {n % 3}")
        elif pick < 0.75:
            sandbox.sql(f"DELETE FROM raw.x WHERE id = (SELECT max(id) FROM raw.x WHERE id % 5 = {n % 5})")
        elif pick < 0.9:
            words = "".join(f"g{i},w{self.random.randrange(5)}\n" for i in range(4))
            sandbox.write("seeds/words.csv", f"g,word\n{words}")
        else:
            sandbox.write("models/s/t_table.sql", MODELS["t_table"].replace("sum(n)", f"sum(n) + {n}"))


class Reader(threading.Thread):
    """Reads everything again and again: rows must be those that some commit says it has."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(daemon=True)
        self.sandbox, self.stop = sandbox, threading.Event()
        self.looks = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.stop.wait(0.5):
            for name in WITH_CONTENT:
                try:
                    self._look(name)
                except Exception as error:
                    self.wrong.append(f"{name}: {type(error).__name__} {str(error)[:300]}")

    def _look(self, name: str) -> None:
        if Relation.parse(name) not in self.sandbox.lake().pointers():
            return
        seen = self.sandbox.content(name)
        catalog = self.sandbox.lake().open_for_writing().catalog
        snapshots = catalog.load_table(tuple(name.split("."))).metadata.snapshots
        recorded = {s.summary["sqb.content"] for s in snapshots if s.summary is not None}
        self.looks += 1
        if seen not in recorded:
            self.wrong.append(f"{name} has {seen}, which no commit has: {recorded}")


def start(sandbox: Sandbox, *arguments: str, fault: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, *arguments, "--project-dir", str(sandbox.folder)],
        env={**os.environ, "SQB_FAULT": fault, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    return output


def disturbed_build(sandbox: Sandbox, chance: Chance) -> str:
    """A build that is killed at a step or at a moment, sometimes beside a janitor; how it ended."""
    at_a_step = chance.random.random() < 0.7
    process = start(sandbox, "build", fault=chance.fault() if at_a_step else "")
    janitor = start(sandbox, "janitor") if chance.random.random() < 0.3 else None
    if not at_a_step:
        try:
            process.wait(chance.random.uniform(0.3, 14))
        except subprocess.TimeoutExpired:
            process.kill()
    output, _ = process.communicate(timeout=180)
    assert process.returncode in (0, -signal.SIGKILL), output
    if janitor is not None:
        finished(janitor)
    if chance.random.random() < 0.3:
        # Java may still be writing for a moment.
        finished(start(sandbox, "janitor"))
    return "finished" if process.returncode == 0 else "killed at a step" if at_a_step else "killed at a moment"


def write_project(sandbox: Sandbox) -> None:
    sandbox.write("sqlbuild_project.toml", PROJECT_FILE)
    sandbox.write("seeds/words.csv", "g,word\ng0,zero\ng1,one\ng2,two\ng3,three\n")
    for name, sql in MODELS.items():
        sandbox.write(f"models/s/{name}.sql", sql)
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql(
        "CREATE TABLE raw.x AS SELECT id, concat('g', id % 4) AS g, CAST(id * 7 % 13 AS INT) AS n FROM range(20)"
    )
    sandbox.sql("CREATE TABLE raw.events AS SELECT id, CAST(id AS INT) AS n FROM range(5)")


def copy_of(sandbox: Sandbox, scratch: Sandbox) -> None:
    """The same project and sources, never built."""
    for path in ("sqlbuild_project.toml", "seeds/words.csv", *(f"models/s/{name}.sql" for name in MODELS)):
        scratch.write(path, (sandbox.folder / path).read_text())
    scratch.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    for name in ("raw.x", "raw.events"):
        columns = ", ".join(sandbox.columns(name))
        scratch.sql(f"CREATE TABLE {name} ({columns})")
        rows = ", ".join(repr(row) if len(row) > 1 else f"({row[0]!r})" for row in sandbox.rows(name))
        scratch.sql(f"INSERT INTO {name} VALUES {rows}")


def assert_history_is_whole(sandbox: Sandbox) -> None:
    """Whatever died, every table's last commit is written down."""
    lake = sandbox.lake()
    pointers = lake.pointers()
    rows = {(r.target_schema, r.target_name): r.run_id for r in lake.fingerprints(["s", "seeds"]).values()}
    for name in FUNCTIONS:
        relation = Relation.parse(name)
        state = lake.tables([pointers[relation]])[relation]
        assert rows[relation.schema, relation.name] == state.identity["sqb.run_id"], name


def assert_is_a_history(rows: list[tuple[Any, ...]], current: list[tuple[Any, ...]]) -> None:
    """Each key has versions one after the other, and those that are current are the query's rows."""
    assert sorted(row[:2] for row in rows if row[4]) == sorted(current)
    by_key: dict[Any, list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2])):
        by_key.setdefault(row[0], []).append(row)
    for versions in by_key.values():
        for earlier, later in pairwise(versions):
            assert earlier[3] is not None and earlier[3] <= later[2], versions
        assert all((row[3] is None) == row[4] for row in versions)


def test_nothing_is_lost(new_sandbox: SandboxMaker, tmp_path: Path) -> None:
    seed = int(os.environ.get("SQB_CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    print(f"SQB_CRASH_SEED={seed}")
    chance = Chance(seed)
    sandbox = new_sandbox(tmp_path / "killed")
    write_project(sandbox)
    reader = Reader(sandbox)
    reader.start()
    ends: Counter[str] = Counter()
    began = time.monotonic()
    try:
        for number in range(BUILDS):
            ends[disturbed_build(sandbox, chance)] += 1
            chance.change(sandbox)
            print(f"{number + 1}/{BUILDS} {dict(ends)} {time.monotonic() - began:.0f} s", flush=True)
            assert reader.wrong == []
        finished(start(sandbox, "build"))
    finally:
        reader.stop.set()
        reader.join(60)
    assert reader.wrong == []
    assert "Nothing to do" in finished(start(sandbox, "build"))
    assert_history_is_whole(sandbox)
    time.sleep(3)  # until the last Java is gone
    finished(start(sandbox, "janitor"))
    assert sandbox.stages() == [] and unreferenced(sandbox.folder) == set()
    assert sandbox.lake().runs() == {}
    scratch = new_sandbox(tmp_path / "scratch")
    copy_of(sandbox, scratch)
    assert scratch.build().ok
    for name in FUNCTIONS:
        assert sandbox.rows(name) == scratch.rows(name), name
    assert_is_a_history(sandbox.rows("s.t_scd2"), [row[:2] for row in scratch.rows("s.t_scd2")])
    assert sandbox.plan().nothing_to_do
    print(f"{BUILDS} builds: {dict(ends)}; {reader.looks} looks of a reader; lost: nothing")
