"""Several processes, and processes that die: nobody overwrites anybody, and nothing half done is ever seen."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from contract.lakes import ORDERS, SqliteProbe, state, write

_SETUP = """
import os, sys
from pathlib import Path
from contract.lakes import *
from sqb.errors.lake import Conflict
from sqb.lake.state.rows import Fingerprint, NodeResult
probe = SqliteProbe(Path(sys.argv[1]))
me = sys.argv[2]
"""
_WAIT = """
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
"""


def start(script: str, root: Path, name: str) -> subprocess.Popen[str]:
    paths = [str(Path(__file__).parents[1]), *sys.path]
    code = f"import sys; sys.path[:0] = {paths!r}\n{_SETUP}\n{textwrap.dedent(script)}"
    return subprocess.Popen(
        [sys.executable, "-c", code, str(root), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def race(script: str, root: Path, names: list[str]) -> list[str]:
    """Start a process per name, let all go on at the same moment, and collect what they say."""
    processes = [start(script, root, name) for name in names]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=60)[0].strip() for process in processes]


_REPLACE = f"""
base = state(probe).base if ORDERS in probe.lake.list_pointers() else None
stage = probe.lake.stage(ORDERS, ID_AND_NAME, base, me)
probe.lake.fill(stage, [[1], [me]])
{_WAIT}
try:
    probe.lake.publish(stage, SUMMARY)
    print("won")
except Conflict:
    probe.lake.discard(stage)
    print("lost")
"""


def test_of_two_writers_one_wins(sqlite: SqliteProbe) -> None:
    write(sqlite, [[1], ["before"]])
    message = race(_REPLACE, sqlite.root, ["x", "y"])
    assert sorted(message) == ["lost", "won"]
    assert sqlite.rows(ORDERS) == [(1, "x" if message[0] == "won" else "y")]
    assert sqlite.garbage() == set()


def test_of_two_creators_one_wins(sqlite: SqliteProbe) -> None:
    sqlite.lake.ensure_schemas(["shop"])
    message = race(_REPLACE, sqlite.root, ["x", "y"])
    assert sorted(message) == ["lost", "won"]
    assert sqlite.rows(ORDERS) == [(1, "x" if message[0] == "won" else "y")]
    assert sqlite.garbage() == set()


def test_a_process_that_dies_before_it_publishes(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    dying = start(
        """
        stage = probe.lake.stage(ORDERS, shape(("other", "date")), state(probe).base, me)
        probe.lake.fill(stage, [[None]])
        os._exit(9)
        """,
        sqlite.root,
        "r2",
    )
    assert dying.wait(60) == 9
    assert state(sqlite) == first.state and sqlite.rows(ORDERS) == [(1, "a")]
    again = write(sqlite, [[2], ["b"]], base=state(sqlite).base, run_id="r3")
    assert sqlite.rows(ORDERS) == [(2, "b")] and state(sqlite) == again.state


def test_a_process_that_dies_in_the_middle_of_a_commit(sqlite: SqliteProbe) -> None:
    first = write(sqlite, [[1], ["a"]])
    dying = start(
        """
        from sqb.lake.catalog.pyiceberg_sql import SqliteCatalog
        stage = probe.lake.stage(ORDERS, ID_AND_NAME, state(probe).base, me)
        probe.lake.fill(stage, [[2], ["b"]])
        real = SqliteCatalog._write_metadata
        def die(self, **what):
            real(self, **what)
            os._exit(9)
        SqliteCatalog._write_metadata = die
        probe.lake.publish(stage, SUMMARY)
        """,
        sqlite.root,
        "r2",
    )
    assert dying.wait(60) == 9
    assert state(sqlite) == first.state and sqlite.rows(ORDERS) == [(1, "a")]
    write(sqlite, [[3], ["c"]], base=state(sqlite).base, run_id="r3")
    assert sqlite.rows(ORDERS) == [(3, "c")]


def test_processes_append_state_at_once(sqlite: SqliteProbe) -> None:
    message = race(
        f"""
        from datetime import UTC, datetime
        {_WAIT.strip()}
        now = datetime(2026, 1, 1, tzinfo=UTC)
        for n in range(8):
            name = f"{{me}}{{n}}"
            row = Fingerprint("model", name, "dev", name, me, "l", "v", "s", "d", "", now)
            probe.lake.state.append_fingerprints([row])
        print("done")
        """,
        sqlite.root,
        ["x", "y", "z"],
    )
    assert message == ["done"] * 3
    fingerprints = sqlite.lake.state.read_fingerprints(["dev"])
    assert {key[1] for key in fingerprints} == {f"{me}{n}" for me in "xyz" for n in range(8)}
    assert sqlite.garbage() == set()
