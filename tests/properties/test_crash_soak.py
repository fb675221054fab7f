"""Builds that are killed at random, one after the other, while somebody reads: what is lost is nothing.

Rows, columns and texts change between builds and while they run. Most kills come after something was published already,
which is counted by what stands in the catalog. `SQB_CRASH_BUILDS` says how many builds; `make soak` runs hundreds.
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
from collections.abc import Mapping
from pathlib import Path

from sqb.build.failpoints import STEPS
from sqb.names import Relation
from support.sandbox import Sandbox, SandboxMaker
from support.soak import (
    FUNCTIONS,
    SOURCES,
    TABLES,
    Memory,
    Story,
    assert_is_a_history,
    assert_keeps_what_left,
    assert_logs_are_whole,
    copy_of,
)
from support.warehouse import unreferenced

COMMAND = Path(sys.executable).with_name("sqb")
BUILDS = int(os.environ.get("SQB_CRASH_BUILDS", "1"))
# Starting Spark takes longer than a build: a few builds start their own, many share a warm one.
WARM = BUILDS > 4
# So often everything is compared with a project that was never built, beside the end.
ROUND = 50
# Steps that a build takes again and again, so that they also come after something was published.
LATE = ("before stage", "staged", "written", "before publish", "published", "before history", "history written")
RARE = ("view created", "post-hooks run")
# How many nodes are published before a build is killed: mostly few, as there may not be more to do.
PUBLISHES = (1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10)
# What Spark tells a reader whose query it analysed before the columns of the table changed: nothing was read; ask again
ASK_AGAIN = "INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS"
# What a build says of a seed whose file changed after it was planned: its rows are not those that were planned.
SEED_CHANGED = "changed while the build was running"
# Of all kills; the others come before anything, or at any moment.
SHARE_AFTER_A_PUBLISH = 0.5


class Reader(threading.Thread):
    """Reads everything again and again: rows must be those that some commit says it has."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(daemon=True)
        self.sandbox, self.stop = sandbox, threading.Event()
        self.looks = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.stop.wait(2):
            name = TABLES[number % len(TABLES)]
            number += 1
            try:
                self._look(name)
            except Exception as error:
                if ASK_AGAIN in str(error):
                    number -= 1
                    continue
                self.wrong.append(f"{name}: {type(error).__name__} {str(error)[:300]}")

    def _look(self, name: str) -> None:
        # Seeds are summed up otherwise; what a function of the project writes is there before sqb says what it is.
        if name in ("seeds.words", "s.t_custom") or Relation.parse(name) not in self.sandbox.lake().list_pointers():
            return
        seen = self.sandbox.content(name)
        catalog = self.sandbox.lake().open_for_writing().catalog
        snapshots = catalog.load_table(tuple(name.split("."))).metadata.snapshots
        recorded = {s.summary["sqb.content"] for s in snapshots if s.summary is not None}
        self.looks += 1
        if seen not in recorded:
            self.wrong.append(f"{name} has {seen}, which no commit has: {recorded}")


def start(sandbox: Sandbox, *arguments: str, fault: str = "", cold: bool = False) -> subprocess.Popen[str]:
    own = {"SQB_FAULT": fault, "NO_COLOR": "1", **({"SQB_ENGINE": "off"} if cold else {})}
    return subprocess.Popen(
        [COMMAND, *arguments, "--project-dir", str(sandbox.folder)],
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=3600)
    assert process.returncode == 0, output
    return output


class Soak:
    """A story that is told by builds which are killed."""

    def __init__(self, story: Story) -> None:
        self.story, self.sandbox, self.random = story, story.sandbox, story.random
        self.memory = Memory(story.sandbox)
        # How builds ended, and how many of those that were killed had published something.
        self.ends: Counter[str] = Counter()
        self.after_a_publish = 0

    @property
    def killed(self) -> int:
        return sum(n for end, n in self.ends.items() if end.startswith("killed"))

    def build(self) -> str:
        """A build that may be killed, beside a janitor or a change of the sources; how it ended, for people."""
        before = self._published()
        way, fault = self._fate()
        process = start(self.sandbox, "build", fault=fault, cold=not WARM or self.random.random() < 0.05)
        janitor = start(self.sandbox, "janitor") if self.random.random() < 0.15 else None
        what = self._change_meanwhile()
        if way == "killed at a moment":
            try:
                process.wait(self.random.uniform(0.3, 8))
            except subprocess.TimeoutExpired:
                process.kill()
        output, _ = process.communicate(timeout=3600)
        refused = what == "a seed" and process.returncode == 1 and output.count("error[") == output.count(SEED_CHANGED)
        assert refused or process.returncode in (0, -signal.SIGKILL), output
        if janitor is not None:
            finished(janitor)
        was_killed = process.returncode == -signal.SIGKILL
        end = way if was_killed else "refused a changed seed" if refused else "finished"
        self.ends[end] += 1
        published = sum(self._published()[name] != before.get(name) for name in self._published())
        self.after_a_publish += was_killed and published > 0
        if self.random.random() < 0.1:
            finished(start(self.sandbox, "janitor"))
        self.memory.look()
        return f"{end} {fault.removeprefix('kill:')} with {published} published; meanwhile {what}"

    def _change_meanwhile(self) -> str:
        if self.random.random() > 0.4:
            return "nothing"
        time.sleep(self.random.uniform(0, 3))
        return self.story.change()

    def _fate(self) -> tuple[str, str]:
        pick = self.random.random()
        if pick < 0.75:
            step = self.random.choice((*LATE, *LATE, *RARE))
            return "killed after a publish", f"kill:{step}::{self.random.choice(PUBLISHES)}"
        if pick < 0.82:
            return "killed at a step", f"kill:{self.random.choice(STEPS)}::"
        if pick < 0.92:
            return "killed at a moment", ""
        return "finished", ""

    def _published(self) -> Mapping[str, object]:
        pointers = self.sandbox.lake().list_pointers()
        return {str(r): p for r, p in pointers.items() if r.schema in ("s", "seeds") and not r.name.startswith("_")}

    def judge(self, scratch: Sandbox) -> None:
        """A build that nobody disturbs makes everything right that was left."""
        finished(start(self.sandbox, "build", cold=not WARM))
        assert "Nothing to do" in finished(start(self.sandbox, "build"))
        self.memory.look()
        assert_history_is_whole(self.sandbox)
        assert_logs_are_whole(self.story)
        assert_is_a_history(self.story)
        assert_keeps_what_left(self.story)
        copy_of(self.story, scratch)
        assert scratch.build().ok
        for name in FUNCTIONS:
            assert self.sandbox.rows(name) == scratch.rows(name), name
            assert self.sandbox.columns(name) == scratch.columns(name), name
        scratch.close()


def assert_history_is_whole(sandbox: Sandbox) -> None:
    """Whatever died, every table's last commit is written down."""
    lake = sandbox.lake()
    pointers = lake.list_pointers()
    rows = {(r.target_schema, r.target_name): r.run_id for r in lake.state.read_fingerprints(["s", "seeds"]).values()}
    for name in (*FUNCTIONS, *TABLES):
        relation = Relation.parse(name)
        state = lake.read_tables([pointers[relation]])[relation]
        assert rows[relation.schema, relation.name] == state.identity.run_id, name


def test_nothing_is_lost(new_sandbox: SandboxMaker, tmp_path: Path) -> None:
    seed = int(os.environ.get("SQB_CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    print(f"SQB_CRASH_SEED={seed}")
    sandbox = new_sandbox(tmp_path / "killed")
    story = Story(sandbox, random.Random(seed))
    story.begin()
    soak = Soak(story)
    if WARM:
        finished(start(sandbox, "engine", "start"))
    reader = Reader(sandbox)
    reader.start()
    began = time.monotonic()
    try:
        for number in range(1, BUILDS + 1):
            end = soak.build()
            what = story.change()
            if number % 5 == 0:
                story.forget()
            seconds = time.monotonic() - began
            print(f"{number}/{BUILDS} {end}; then {what}; {dict(soak.ends)} {seconds:.0f} s", flush=True)
            assert reader.wrong == []
            if number % ROUND == 0 or number == BUILDS:
                soak.judge(new_sandbox(tmp_path / f"scratch_{number}"))
    finally:
        reader.stop.set()
        reader.join(60)
        if WARM:
            finished(start(sandbox, "engine", "stop"))
    assert reader.wrong == []
    time.sleep(3)  # until the last Java is gone
    finished(start(sandbox, "janitor"))
    assert sandbox.stages() == [] and unreferenced(sandbox.folder) <= files_of_sources(sandbox)
    assert sandbox.lake().list_runs() == {}
    assert sandbox.plan().nothing_to_do
    if BUILDS >= 10:
        assert soak.after_a_publish >= SHARE_AFTER_A_PUBLISH * soak.killed
    print(
        f"{BUILDS} builds: {dict(soak.ends)}; {soak.after_a_publish} of {soak.killed} killed after something was "
        f"published; {reader.looks} looks of a reader; lost: nothing"
    )


def files_of_sources(sandbox: Sandbox) -> set[str]:
    """What is in the folders of sources is not sqb's to remove."""
    folders = [sandbox.folder / "lake" / "data" / name.replace(".", "/") for name in SOURCES]
    return {str(path) for folder in folders for path in folder.rglob("*")}
