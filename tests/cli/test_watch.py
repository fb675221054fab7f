"""`sqb watch` as a process: it builds at once and at every save, goes on after mistakes, and ends with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.conftest import SQB, run_sqb
from unit.folders import write

# Whatever starts Java fails with this.
NO_JAVA = {"JAVA_HOME": "/nonexistent", "SQB_ENGINE": "off", "NO_COLOR": "1"}


class Watched:
    """A watch that runs, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log

    def wait_for(self, words: str, count: int = 1) -> str:
        until = time.monotonic() + 120
        while self.log.read_text().count(words) < count:
            assert time.monotonic() < until, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        return self.log.read_text()


@contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[Watched]:
    log = folder.parent / "watch.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [str(SQB), "watch", *arguments],
            cwd=folder,
            env={**os.environ, **NO_JAVA},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        yield Watched(process, log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_every_save_is_built_and_mistakes_do_not_end_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", {"seeds/a.csv": "id\n1\n", "seeds/b.csv": "id\n1\n"})
    with watching(folder, "-s", "a") as watched:
        out = watched.wait_for("Waiting for the next save")
        assert "[OK] seeds.a (seed, backfill, 1 row" in out and "seeds.b" not in out
        assert "seeds.a: new, 1 row\n" in out
        (folder / "seeds/a.csv").write_text("id,id\n1,2\n")
        out = watched.wait_for("Waiting for the next save", 2)
        assert " seeds/a.csv\n" in out and "error[SQB-P011]" in out
        (folder / "seeds/a.csv").write_text("id\n1\n")
        out = watched.wait_for("Waiting for the next save", 3)
        assert "Nothing to do: everything is up to date." in out
        os.killpg(watched.process.pid, signal.SIGINT)
        assert watched.process.wait(60) == 0
        assert watched.log.read_text().endswith("\nStopped watching.\n")


def test_one_round(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", {"seeds/a.csv": "id\n1\n", "models/x/m.sql": "SELECT id FROM a"})
    done = run_sqb("watch", "--once", "--plan-only", "-s", "a", cwd=folder, env=NO_JAVA)
    assert done.code == 0
    assert "first look" in done.out
    write(folder, {"models/x/m.sql": "SELECT id FROM nothing"})
    assert run_sqb("watch", "--once", "--plan-only", cwd=folder, env=NO_JAVA).code == 2


def test_a_virtual_environment(tmp_path: Path) -> None:
    toml = 'name = "shop"\n[virtual]\nenabled = true\n'
    folder = write(tmp_path / "shop", {"sqlbuild_project.toml": toml, "seeds/a.csv": "id\n1\n"})
    once = ("watch", "--once", "--virtual-env", "me")
    first = run_sqb("watch", "--once", cwd=folder, env=NO_JAVA)
    assert (first.code, first.lines[-1]) == (0, "seeds.a: new, 1 row")
    unchanged = run_sqb(*once, cwd=folder, env=NO_JAVA)
    assert unchanged.code == 0 and "seeds.a: " not in unchanged.out, unchanged.out
    (folder / "seeds/a.csv").write_text("id\n1\n2\n")
    done = run_sqb(*once, cwd=folder, env=NO_JAVA)
    assert "Virtual environment me: " in done.out
    assert done.lines[-1] == "seeds.a: 1 row before, 2 rows now (`sqb diff seeds.a --from me`)"
    baseline = run_sqb("watch", "--once", cwd=folder, env=NO_JAVA)
    assert baseline.lines[-1] == "seeds.a: 1 row before, 2 rows now (a new version of the model)"
    outside = write(tmp_path / "other", {"seeds/a.csv": "id\n1\n"})
    wrong = run_sqb(*once, cwd=outside, env=NO_JAVA)
    assert wrong.code == 2 and "SQB-V002" in wrong.err
