"""An engine has workers for as long as it may be used, and leaves none behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sqb.engine.call import SOCKET
from sqb.engine.descriptor import EngineDescriptor
from sqb.engine.start import start_engine
from sqb.engine.stop import stop_engine
from sqb.workspace import Workspace, open_workspace
from support.fake_engine import COMMAND
from unit.folders import write

# The thin client alone: 99 when the process that was called would have to do the work.
CLIENT = (
    "import os; from sqb.engine.hand_over import hand_over; code = hand_over(['plan']);"
    " os._exit(99 if code is None else code)"
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("FAKE_ENGINE", "works")
    monkeypatch.delenv("SQB_ENGINE", raising=False)
    opened = open_workspace(write((tmp_path / "shop").resolve(), {"seeds/a.csv": "id\n1\n"}))
    yield opened
    stop_engine(opened.folder, True, lambda _: None)
    wait_for(lambda: not find_workers(opened))


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def find_workers(workspace: Workspace) -> list[int]:
    words = ["sqb.cli.zygote", str(workspace.root)]
    return [p.pid for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [])[-2:] == words]


def start(workspace: Workspace) -> EngineDescriptor:
    engine = start_engine(workspace, None, 600.0, lambda _: None, COMMAND).description
    wait_for((workspace.folder / SOCKET).exists)
    return engine


def plan(workspace: Workspace) -> int:
    return subprocess.run(
        [sys.executable, "-c", CLIENT], cwd=workspace.root, stdin=subprocess.DEVNULL, timeout=120, check=False
    ).returncode


def test_an_engine_that_is_stopped_takes_its_workers_along(workspace: Workspace) -> None:
    start(workspace)
    assert plan(workspace) == 0
    stop_engine(workspace.folder, False, lambda _: None)
    assert not (workspace.folder / SOCKET).exists()
    assert plan(workspace) == 99
    wait_for(lambda: not find_workers(workspace))


def test_an_engine_that_is_killed_leaves_no_workers(workspace: Workspace) -> None:
    engine = start(workspace)
    os.kill(engine.pid, signal.SIGKILL)
    wait_for(lambda: not find_workers(workspace))
    assert plan(workspace) == 99


def test_a_project_that_is_removed_takes_all_along(workspace: Workspace) -> None:
    start(workspace)
    workspace.folder.rename(workspace.root / ".gone")
    wait_for(lambda: not find_workers(workspace))
