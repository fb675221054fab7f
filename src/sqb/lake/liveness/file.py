"""Which runs are alive: a build holds a file locked while it runs, and the kernel lets go of it whatever ends it.

The files lie in the warehouse, so that everybody who shares the lake on one machine sees them. Where a run is of
another machine this one cannot tell, and its age decides.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqb.lake.liveness.locks import is_locked
from sqb.lake.port import Run, RunHandle

_HELD = ".lock"
_SETTLED = ".dead"
_NEW = ".new"
_STALE_SECONDS = 60.0


class FileRunTracker:
    """The runs of one lake, as files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def hold(self, run_id: str, owner: str) -> Iterator[RunHandle]:
        """Hold a run as alive; the trace of a run that is not finished properly stays."""
        handle = RunHandle()
        descriptor = self._begin(run_id, owner)
        try:
            yield handle
        finally:
            if descriptor is not None:
                if handle.finished:
                    with suppress(OSError):
                        os.unlink(self.folder / f"{run_id}{_HELD}")
                os.close(descriptor)

    def _begin(self, run_id: str, owner: str) -> int | None:
        about = {"host": get_machine_name(), "pid": os.getpid(), "owner": owner, "started": time.time()}
        hidden = self.folder / f"{run_id}{_NEW}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError:
            # A lake that cannot be written to says so itself; without a lock the run's stages only live longer.
            return None
        try:
            # Locked before it has its name: no process ever sees the file of a living run without its lock.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, json.dumps(about).encode())
            os.rename(hidden, self.folder / f"{run_id}{_HELD}")
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def list_runs(self) -> dict[str, Run]:
        """Every run that is alive, or that left a trace."""
        runs = {}
        for entry in self._list_entries():
            run_id, suffix = os.path.splitext(entry.name)
            if suffix in (_HELD, _SETTLED) and (run := _read_run(entry.path, run_id, suffix == _SETTLED)) is not None:
                runs[run_id] = run
        return runs

    def settle(self, run_id: str) -> None:
        """Record that the history of a dead run is complete."""
        with suppress(OSError):
            os.rename(self.folder / f"{run_id}{_HELD}", self.folder / f"{run_id}{_SETTLED}")

    def forget(self, run_id: str) -> None:
        """Remove the trace of a dead run."""
        for suffix in (_HELD, _SETTLED):
            with suppress(OSError):
                os.unlink(self.folder / f"{run_id}{suffix}")

    def remove_stale(self) -> None:
        """Remove what runs left that were killed before they had a name."""
        for entry in self._list_entries():
            if entry.name.endswith(_NEW):
                with suppress(OSError):
                    if entry.stat().st_mtime < time.time() - _STALE_SECONDS and is_locked(entry.path) is False:
                        os.unlink(entry.path)

    @contextmanager
    def hold_exclusively(self, what: str) -> Iterator[bool]:
        """Hold a lock that one process can have at a time; False when another has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / what, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def _list_entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.folder) as entries:
                return list(entries)
        except OSError:
            return []


def get_machine_name() -> str:
    """A name for this machine that two containers or machines are not likely to share."""
    identity = ""
    with suppress(OSError), open("/etc/machine-id") as file:
        identity = file.read().strip()
    return f"{os.uname().nodename} {identity}".strip()


def _read_run(path: str, run_id: str, settled: bool) -> Run | None:
    about: Mapping[str, Any] = {}
    try:
        with open(path) as file:
            about = json.load(file)
        modified = os.stat(path).st_mtime
        here = about.get("host") == get_machine_name()
        alive = None if not here else not settled and is_locked(path) is not False
        started = float(about.get("started", modified))
        return Run(run_id, alive, str(about.get("owner", "")), started, settled)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError):
        # A file that sqb did not write does not tell whether a run is alive.
        return Run(run_id, None, "", _read_mtime(path), settled)


def _read_mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
