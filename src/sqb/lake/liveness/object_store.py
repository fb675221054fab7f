"""Which runs are alive, known by small objects that each run writes again and again: for stores without sessions.

All times are those that the store itself gives its objects, so that clocks of machines do not matter. A run that has
not been heard of for a while may be dead or only cut off; that is unknown until it has been silent for long.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqb.errors.lake import LakeError
from sqb.lake.janitor.retention import FileFact
from sqb.lake.port import Run, RunHandle

if TYPE_CHECKING:
    from sqb.lake.storage.base import Storage

_HELD = ".lock"
_SETTLED = ".dead"
_CLOCK = ".clock"
_BEAT_SECONDS = 20.0
_ALIVE_SECONDS = 60.0
_DEAD_SECONDS = 180.0
_SETTLING_SECONDS = 0.5
# How long the end of a run waits for a store that does not answer.
_LAST_SECONDS = 3.0


class ObjectRunTracker:
    """The runs of one lake, as objects below one address."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage, self.folder = storage, folder

    @contextmanager
    def hold(self, run_id: str, owner: str) -> Iterator[RunHandle]:
        handle = RunHandle()
        path = f"{self.folder}/{run_id}{_HELD}"
        about: dict[str, Any] = {"owner": owner}
        try:
            with self._write_heartbeats(path, about):
                yield handle
        finally:
            if handle.finished:
                with suppress(OSError, LakeError):
                    self._storage.remove(path)

    def list_runs(self) -> dict[str, Run]:
        files = [f for f in self._storage.list_files(self.folder) if f.path.endswith((_HELD, _SETTLED))]
        now: float | None = None
        # A process without write permission cannot read the clock of the store.
        with suppress(OSError, LakeError):
            now = self._read_clock() if files else None
        return {run.id: run for run in (self._read_run(file, now) for file in files) if run is not None}

    def settle(self, run_id: str) -> None:
        with suppress(OSError, LakeError):
            self._storage.copy(f"{self.folder}/{run_id}{_HELD}", f"{self.folder}/{run_id}{_SETTLED}")
            self._storage.remove(f"{self.folder}/{run_id}{_HELD}")

    def forget(self, run_id: str) -> None:
        for suffix in (_HELD, _SETTLED):
            with suppress(OSError, LakeError):
                self._storage.remove(f"{self.folder}/{run_id}{suffix}")

    def remove_stale(self) -> None:
        clocks = [file for file in self._storage.list_files(self.folder) if file.path.endswith(_CLOCK)]
        with suppress(OSError, LakeError):
            # Another process may be reading a younger one.
            old = self._read_clock() - _ALIVE_SECONDS if clocks else 0.0
            for file in clocks:
                if file.written < old:
                    self._storage.remove(file.path)

    @contextmanager
    def hold_exclusively(self, what: str) -> Iterator[bool]:
        path, token = f"{self.folder}/{what}", uuid.uuid4().hex
        with suppress(FileNotFoundError):
            if self._read_clock() - self._storage.stat(path).written < _ALIVE_SECONDS:
                yield False
                return
        is_held = False
        try:
            with self._write_heartbeats(path, {"token": token}):
                # Of two that came at the same moment, the one whose token stays has it.
                time.sleep(_SETTLING_SECONDS)
                is_held = self._read(path).get("token") == token
                yield is_held
        finally:
            if is_held:
                with suppress(OSError, LakeError):
                    self._storage.remove(path)

    @contextmanager
    def _write_heartbeats(self, path: str, about: dict[str, Any]) -> Iterator[None]:
        """Write an object now and again, until this is over."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(_BEAT_SECONDS):
                with suppress(OSError, LakeError):
                    self._storage.write(path, json.dumps(about).encode())

        self._storage.write(path, json.dumps(about).encode())
        about["started"] = self._storage.stat(path).written
        self._storage.write(path, json.dumps(about).encode())
        thread = threading.Thread(target=beat, name="run-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(_LAST_SECONDS)
            # A beat that hangs would come after the last one.
            if not thread.is_alive():
                about["over"] = True
                with suppress(OSError, LakeError):
                    self._storage.write(path, json.dumps(about).encode())

    def _read_run(self, file: FileFact, now: float | None) -> Run | None:
        name = file.path.rpartition("/")[2]
        settled = name.endswith(_SETTLED)
        run_id = name.removesuffix(_HELD).removesuffix(_SETTLED)
        try:
            about = self._read(file.path)
        except FileNotFoundError:
            return None
        silent = now - file.written if now is not None else None
        alive: bool | None = None
        if settled or about.get("over") or (silent is not None and silent > _DEAD_SECONDS):
            alive = False
        elif silent is not None and silent < _ALIVE_SECONDS:
            alive = True
        return Run(run_id, alive, str(about.get("owner", "")), float(about.get("started", file.written)), settled)

    def _read(self, path: str) -> dict[str, Any]:
        try:
            about = json.loads(self._storage.read(path))
        except ValueError:
            return {}
        return about if isinstance(about, dict) else {}

    def _read_clock(self) -> float:
        """What the store's clock says."""
        path = f"{self.folder}/{uuid.uuid4().hex}{_CLOCK}"
        self._storage.write(path, b"")
        try:
            return self._storage.stat(path).written
        finally:
            with suppress(OSError, LakeError):
                self._storage.remove(path)
