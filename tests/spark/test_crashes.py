"""Builds that are killed, interrupted or in each other's way: nothing half done is seen, the next build is right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from sqb.build.failpoints import RENAME_STEPS, STEPS
from sqb.build.result import BuildResult
from support.sandbox import Sandbox, SandboxMaker, names_by_status

COMMAND = Path(sys.executable).with_name("sqb")
PROJECT_FILE = """
name = "crashes"

[connections.local.spark]
master = "local[2]"

[connections.local.spark.conf]
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "2"
"""
TABLES = ("seeds.numbers", "staging.numbers", "marts.total")

# Where builds are cut off, one after the other: each goes on from what the one before has left, and gets further. Those
# in a seed need no Spark. When all is published there is nothing left to be cut off in but the history.
CHAINS = {
    "in a seed": [
        ("planned", ""),
        ("before stage", "seeds.numbers"),
        ("staged", "seeds.numbers"),
        ("written", "seeds.numbers"),
        ("before publish", "seeds.numbers"),
        ("published", "seeds.numbers"),
        ("engine started", "staging.numbers"),
    ],
    "in a table": [
        ("staged", "staging.numbers"),
        ("written", "staging.numbers"),
        ("published", "staging.numbers"),
    ],
    "in the last nodes": [("post-hooks run", "marts.total"), ("view created", "marts.seen")],
    "before the history": [("before history", "")],
    "after the history": [("history written", "")],
}
IN_THE_FIRST_BUILD = [
    ("before stage", "seeds.numbers"),
    ("written", "seeds.numbers"),
    ("published", "staging.numbers"),
]


def write_version(sandbox: Sandbox, version: int) -> None:
    """A project in which every node, and the columns of a table, differ from version to version."""
    sandbox.write("sqlbuild_project.toml", PROJECT_FILE)
    sandbox.write("seeds/numbers.csv", f"id,n\n1,{version}\n2,20\n")
    sandbox.write("models/staging/numbers.sql", f"SELECT id, n * 2 AS n, {version} AS v{version} FROM seeds.numbers")
    hook = f"-- @post_hook: ALTER TABLE @@this SET TBLPROPERTIES ('hooked' = '{version}')\n"
    sandbox.write("models/marts/total.sql", f"{hook}SELECT sum(n) + {version} AS total FROM staging.numbers")
    sandbox.write("models/marts/seen.sql", f"-- @kind: view\nSELECT total, {version} AS version FROM marts.total")


def rows_of(version: int) -> dict[str, list[tuple[int, ...]]]:
    """The rows of each table when that version has been built."""
    return {
        "seeds.numbers": [(1, version), (2, 20)],
        "staging.numbers": [(1, version * 2, version), (2, 40, version)],
        "marts.total": [(version * 2 + 40 + version,)],
    }


def start(sandbox: Sandbox, fault: str = "", *arguments: str) -> subprocess.Popen[str]:
    """The real command, in a process and a process group of its own."""
    return subprocess.Popen(
        [COMMAND, "build", "--project-dir", str(sandbox.folder), *arguments],
        env={**os.environ, "SQB_FAULT": fault, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def killed_at(sandbox: Sandbox, step: str, node: str) -> None:
    # What is to be cut off in a seed does not begin to start a Spark for what would come after it.
    chosen = ("--select", node) if node.startswith("seeds.") else ()
    process = start(sandbox, f"kill:{step}:{node}", *chosen)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, output


def java_of(sandbox: Sandbox) -> list[int]:
    """Java processes that were started for this project."""
    running = psutil.process_iter(["pid", "name", "cmdline"])
    java = [p.info for p in running if p.info["name"] == "java"]
    return [i["pid"] for i in java if any(f"{sandbox.folder}/" in word for word in i["cmdline"] or ())]


def assert_no_java(sandbox: Sandbox, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while (left := java_of(sandbox)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


def assert_old_or_new(sandbox: Sandbox, old: int | None, new: int) -> None:
    """What a reader sees right after a crash is a version that was published as a whole."""
    current = set(sandbox.relations())
    for table in TABLES:
        possible = [rows_of(version)[table] for version in (old, new) if version is not None]
        if table in current:
            assert sandbox.rows(table) in possible
        else:
            assert old is None
    if "marts.seen" in current:
        totals = [rows_of(version)["marts.total"][0][0] for version in (old, new) if version is not None]
        ((total, version),) = sandbox.rows("marts.seen")
        assert total in totals and version in (old, new)


def assert_same_end(sandbox: Sandbox, undisturbed: Sandbox, version: int) -> None:
    """The end is that of a build that nothing happened to."""
    for table, rows in rows_of(version).items():
        assert sandbox.rows(table) == rows
        assert sandbox.columns(table) == undisturbed.columns(table)
    assert sandbox.rows("marts.seen") == undisturbed.rows("marts.seen")
    assert sandbox.identities() == undisturbed.identities()
    assert sandbox.plan().nothing_to_do


class Pair:
    """A project that builds are killed in, and one that goes from version to version undisturbed."""

    def __init__(self, killed: Sandbox, undisturbed: Sandbox) -> None:
        self.killed, self.undisturbed = killed, undisturbed
        self.version = 0

    def write_next(self) -> None:
        self.version += 1
        for sandbox in (self.killed, self.undisturbed):
            write_version(sandbox, self.version)


@pytest.fixture(scope="module")
def pair(new_sandbox: SandboxMaker, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("crashes")
    return Pair(new_sandbox(folder / "killed"), new_sandbox(folder / "undisturbed"))


def test_every_step_is_a_place_to_be_killed_at() -> None:
    assert {step for chain in CHAINS.values() for step, _ in chain} == set(STEPS)


@pytest.mark.parametrize("chain", CHAINS)
def test_killed_while_something_changed(pair: Pair, chain: str) -> None:
    if pair.version == 0:
        pair.write_next()
    # The test before has left this version behind, unless it failed.
    assert pair.killed.build().ok
    assert pair.undisturbed.build().ok
    pair.write_next()
    assert pair.undisturbed.build().ok
    for step, node in CHAINS[chain]:
        killed_at(pair.killed, step, node)
        assert_old_or_new(pair.killed, pair.version - 1, pair.version)
        assert_no_java(pair.killed)
    assert pair.killed.build().ok
    assert_same_end(pair.killed, pair.undisturbed, pair.version)


def test_killed_in_the_first_build(pair: Pair, sandbox: Sandbox) -> None:
    pair.write_next()
    assert pair.undisturbed.build().ok
    write_version(sandbox, pair.version)
    for step, node in IN_THE_FIRST_BUILD:
        killed_at(sandbox, step, node)
        assert_old_or_new(sandbox, None, pair.version)
    assert sandbox.build().ok
    assert_same_end(sandbox, pair.undisturbed, pair.version)


def write_slow(sandbox: Sandbox) -> None:
    """A quick model, and one that would run for hours."""
    sandbox.write("sqlbuild_project.toml", PROJECT_FILE)
    sandbox.write("models/quick.sql", "SELECT 1 AS id")
    sandbox.write(
        "models/slow.sql",
        "SELECT count(*) AS n, max(q.id) AS id FROM range(1000000) AS a CROSS JOIN range(10000000) AS b\n"
        "CROSS JOIN quick AS q WHERE hash(a.id, b.id) = 7",
    )
    sandbox.write("models/below.sql", "SELECT n FROM slow")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_interrupted_in_a_slow_model(sandbox: Sandbox, number: signal.Signals) -> None:
    write_slow(sandbox)
    process = start(sandbox)
    end = time.monotonic() + 100
    while not any("slow" in stage for stage in sandbox.stages()) and time.monotonic() < end:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    time.sleep(1)
    # Ctrl-C reaches every process of the terminal, a signal of a scheduler only the one that it started.
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1, output
    assert "Interrupted" in output and "Traceback" not in output
    assert_no_java(sandbox)
    assert sandbox.stages() == []
    assert sandbox.rows("default.quick") == [(1,)]
    assert not {"default.slow", "default.below"} & set(sandbox.relations())
    assert {n.name for n in sandbox.plan().nodes if n.action == "run"} == {"default.slow", "default.below"}
    assert list((sandbox.folder / "lake" / "data" / "default" / "slow").rglob("*.parquet")) == []


def test_interrupted_while_spark_starts(sandbox: Sandbox) -> None:
    write_slow(sandbox)
    process = start(sandbox)
    end = time.monotonic() + 30
    while not java_of(sandbox) and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1, output
    assert "Traceback" not in output
    assert_no_java(sandbox)
    assert sandbox.relations() == []


def build_twice_at_once(sandbox: Sandbox, node: str, **options: bool) -> list[BuildResult]:
    """Two builds that have both written a node's rows before either publishes them."""
    barrier = threading.Barrier(2)
    results: list[BuildResult] = []

    def announce(step: str, at: str) -> None:
        if (step, at) == ("written", node):
            barrier.wait(60)

    def build() -> None:
        results.append(sandbox.build(announce=announce, **options))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def assert_one_made_it(results: list[BuildResult], node: str) -> None:
    """Both builds end well: one has made the node, and the other takes over what that one made."""
    assert all(result.ok for result in results)
    slow, quick = sorted((n for r in results for n in r.nodes if n.name == node), key=lambda n: n.status, reverse=True)
    assert (quick.status, slow.status) == ("ok", "skipped")
    assert slow.detail == "another build has made it meanwhile"


@pytest.mark.parametrize("first", [True, False], ids=["first build", "changed"])
def test_two_builds_at_once(sandbox: Sandbox, first: bool) -> None:
    write_version(sandbox, 1)
    if not first:
        assert sandbox.build().ok
        sandbox.edit("models/staging/numbers.sql", "n * 2", "n * 2 + 0")
        sandbox.edit("models/marts/total.sql", "+ 1", "+ 7")
    else:
        assert sandbox.build(select=["seeds.numbers"]).ok
    assert_one_made_it(build_twice_at_once(sandbox, "staging.numbers"), "staging.numbers")
    assert sandbox.stages() == []
    assert sandbox.plan().nothing_to_do
    assert sandbox.rows("staging.numbers") == rows_of(1)["staging.numbers"]
    assert sandbox.rows("marts.total") == ([(43,)] if first else [(49,)])


def test_two_builds_that_load_one_seed(sandbox: Sandbox) -> None:
    write_version(sandbox, 1)
    assert sandbox.build().ok
    write_version(sandbox, 2)
    assert_one_made_it(build_twice_at_once(sandbox, "seeds.numbers"), "seeds.numbers")
    assert sandbox.plan().nothing_to_do
    assert {table: sandbox.rows(table) for table in TABLES} == rows_of(2)


def test_a_table_written_by_hand_while_it_is_built(sandbox: Sandbox) -> None:
    write_version(sandbox, 1)
    assert sandbox.build().ok
    write_version(sandbox, 2)

    def announce(step: str, node: str) -> None:
        if (step, node) == ("written", "staging.numbers"):
            sandbox.sql("INSERT INTO staging.numbers VALUES (9, 9, 9)")

    result = sandbox.build(announce=announce)
    assert names_by_status(result)["failed"] == ["staging.numbers"]
    (error,) = [n.error for n in result.nodes if n.error is not None]
    assert error.code == "SQB-L007"
    assert sandbox.rows("staging.numbers") == [*rows_of(1)["staging.numbers"], (9, 9, 9)]
    assert sandbox.stages() == []
    assert sandbox.build().ok
    assert {table: sandbox.rows(table) for table in TABLES} == rows_of(2)


def write_renamed_models(sandbox: Sandbox) -> None:
    """Two models whose rows cannot be computed again, under new names, and their reader."""
    sandbox.remove("models/shop/log.sql")
    sandbox.remove("models/shop/history.sql")
    sandbox.write("models/shop/journal.sql", "MODEL (kind append, renamed_from log);\nSELECT id, n FROM raw.numbers")
    versions = "MODEL (kind scd2, unique_key id, renamed_from history);\nSELECT id, n FROM raw.numbers"
    sandbox.write("models/shop/versions.sql", versions)
    sandbox.write("models/shop/total.sql", "SELECT sum(n) AS total FROM journal")


def test_killed_around_every_rename(sandbox: Sandbox) -> None:
    sandbox.write("sqlbuild_project.toml", PROJECT_FILE)
    sandbox.write("models/shop/log.sql", "MODEL (kind append);\nSELECT id, n FROM raw.numbers")
    sandbox.write("models/shop/history.sql", "MODEL (kind scd2, unique_key id);\nSELECT id, n FROM raw.numbers")
    sandbox.write("models/shop/total.sql", "SELECT sum(n) AS total FROM log")
    sandbox.sql("CREATE SCHEMA raw")
    sandbox.sql("CREATE TABLE raw.numbers AS SELECT * FROM VALUES (1, 10), (2, 20) AS t(id, n)")
    assert sandbox.build().ok
    # Only the log and the history know these rows from now on.
    sandbox.sql("DELETE FROM raw.numbers WHERE id = 1")
    assert sandbox.build().ok
    log, history = sandbox.rows("shop.log"), sandbox.rows("shop.history")
    assert len(log) == 2 and len(history) == 2
    identities = sandbox.identities()
    write_renamed_models(sandbox)
    names = [("shop.log", "shop.journal", log), ("shop.history", "shop.versions", history)]
    for _, model, _ in names:
        for step in RENAME_STEPS:
            killed_at(sandbox, step, model)
            there = set(sandbox.relations())
            for old, new, rows in names:
                # One of the two names has it, with all rows.
                (name,) = {old, new} & there
                assert sandbox.rows(name) == rows
    assert {"shop.journal", "shop.versions"} <= set(sandbox.relations())
    assert names_by_status(sandbox.build()).get("ok", []) == []
    assert sandbox.plan().nothing_to_do
    assert sandbox.identities() == {
        {"shop.log": "shop.journal", "shop.history": "shop.versions"}.get(name, name): identity
        for name, identity in identities.items()
    }
    sandbox.sql("INSERT INTO raw.numbers VALUES (3, 30)")
    assert sandbox.build().ok
    assert sandbox.rows("shop.journal") == [*log, (3, 30)]
    assert sandbox.rows("shop.total") == [(60,)]
    assert len(sandbox.rows("shop.versions")) == 3
