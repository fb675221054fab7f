"""The warm engine as people use it: one that is started, used by builds, killed under one, replaced, and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.conftest import SQB, Done, Folder, new_project, quiet

TOML = """
name = "shop"
default_target = "one"
[targets.one]
schema = "one"
[targets.two]
schema = "two"
[connections.local]
spark = { master = "local[2]", conf = { "spark.driver.memory" = "1g", "spark.sql.shuffle.partitions" = "2" } }
"""
FILES = {
    "sqlbuild_project.toml": TOML,
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "functions/greetings.py": ("def greeting(name: str) -> str:\n    return f'Hello {name}'\n"),
    "models/guests.sql": ("-- @constraint: unique(id)\nSELECT id, greeting(name) AS text FROM people WHERE id > 0"),
    "models/counts.sql": "SELECT count(*) AS n FROM guests",
    # Keys that Spark would take for variables.
    "seeds/keys.csv": "k,n\n${env:HOME},1\n${spark.app.name},1\n",
    "models/sums.sql": "-- @refresh: incremental\nSELECT k, sum(n) AS n FROM keys GROUP BY k",
}
SLOW = "SELECT count(*) AS n FROM range(400000) a CROSS JOIN range(4000000) b WHERE hash(a.id, b.id) = 7"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Folder]:
    folder = new_project(tmp_path / "shop", FILES)
    yield folder
    folder.sqb("engine", "stop", "--now")
    for process in psutil.process_iter(["cmdline"]):
        assert str(folder.root) not in " ".join(process.info["cmdline"] or []), process


def status(folder: Folder) -> dict[str, Any]:
    return folder.sqb("engine", "status", "--json").document


def rows(folder: Folder, sql: str) -> list[dict[str, Any]]:
    entry: list[dict[str, Any]] = folder.sqb("query", sql, "--json").document["rows"]
    return entry


def own_sparks(folder: Folder) -> list[str]:
    """The logs of Sparks that commands have started for themselves."""
    logs = folder.root / ".sqb" / "logs"
    return [path.name for path in logs.glob("*.log") if not path.name.startswith("engine_")]


def test_a_day_with_an_engine(shop: Folder) -> None:
    assert shop.sqb("engine", "status").code == 1
    started = shop.sqb("engine", "start", "--idle-timeout", "10m")
    assert started.code == 0 and quiet(started)
    assert started.out.startswith("Started the engine: connection local, pid ")
    assert shop.sqb("engine", "status").code == 0
    _only_for_its_owner(shop)
    _two_builds_at_once(shop)
    _an_edit(shop)
    _killed_under_a_build(shop)
    assert own_sparks(shop) == []
    assert shop.sqb("engine", "stop").out == "Stopped the engine.\n"


def _only_for_its_owner(shop: Folder) -> None:
    path = shop.root / ".sqb" / "engine.json"
    engine = json.loads(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    server = psutil.Process(engine["server_pid"])
    listening = {c.laddr.ip.removeprefix("::ffff:") for c in server.net_connections("tcp") if c.status == "LISTEN"}
    assert listening == {"127.0.0.1"}
    for process in (server, psutil.Process(engine["pid"])):
        assert engine["token"] not in " ".join(process.cmdline())
    assert engine["token"] not in Path(engine["log"]).read_text()


def _two_builds_at_once(shop: Folder) -> None:
    done: dict[str, Done] = {}

    def build(target: str) -> None:
        done[target] = shop.sqb("build", "--target", target, "--json")

    threads = [threading.Thread(target=build, args=(target,)) for target in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in done.values():
        assert one.code == 0 and quiet(one), one.out + one.err
        assert one.document["summary"]["ran"] == 5
    both = rows(shop, "SELECT text FROM one.guests UNION ALL SELECT text FROM two.guests ORDER BY text")
    assert [row["text"] for row in both] == ["Hello Ada", "Hello Ada", "Hello Grace", "Hello Grace"]


def _an_edit(shop: Folder) -> None:
    functions = shop.root / "functions" / "greetings.py"
    functions.write_text(functions.read_text().replace("Hello", "Good morning"))
    keys = shop.root / "seeds" / "keys.csv"
    keys.write_text(keys.read_text() + "${env:HOME},2\n")
    done = shop.sqb("build")
    assert done.code == 0 and quiet(done), done.out + done.err
    sums = rows(shop, "SELECT k, n FROM sums ORDER BY k")
    assert sums == [{"k": "${env:HOME}", "n": 3}, {"k": "${spark.app.name}", "n": 1}]
    assert "[OK] default.counts (table, skip — upstream identical in the columns that it reads)" in done.lines


def _killed_under_a_build(shop: Folder) -> None:
    shop.write({"models/slow.sql": SLOW, "models/quick.sql": "SELECT 1 AS one"})
    with subprocess.Popen(
        [str(SQB), "build"], cwd=shop.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as build:
        assert build.stdout is not None
        out = ""
        while "[OK] default.quick" not in out:
            line = build.stdout.readline()
            assert line, out
            out += line
        busy = status(shop)
        assert busy["in_use"]
        os.kill(busy["server_pid"], signal.SIGKILL)
        out += build.communicate(timeout=60)[0]
    assert build.returncode == 1
    assert "[FAIL] default.slow" in out and "error[SQB-N224]" in out and "Traceback" not in out
    assert "build again: a new one is started" in out
    assert status(shop)["status"] == "dead"
    shop.write({"models/slow.sql": "SELECT 2 AS n"})
    again = shop.sqb("build")
    assert again.code == 0 and "replacing the engine: its process is gone" in again.out
    content = rows(shop, "SELECT n + one AS three, max(text) AS text FROM slow, quick, guests GROUP BY 1")
    assert content == [{"three": 3, "text": "Good morning Grace"}]
    assert status(shop)["server_pid"] != busy["server_pid"]
