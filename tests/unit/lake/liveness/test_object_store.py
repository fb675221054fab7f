"""Runs that are known by objects: what is asked of a store by those who may only read, and by several at once."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest

from sqb.errors.connections import StorageUnreachable
from sqb.lake.janitor.retention import FileFact
from sqb.lake.liveness import object_store
from sqb.lake.liveness.object_store import ObjectRunTracker


class Objects:
    """A store in memory, with a clock of its own."""

    def __init__(self) -> None:
        self.now, self.read_only = 1000.0, False
        self.flowing = threading.Event()
        self.flowing.set()
        self.held: dict[str, tuple[bytes, float]] = {}

    def list_files(self, folder: str) -> list[FileFact]:
        return [self.stat(path) for path in sorted(self.held) if path.startswith(f"{folder}/")]

    def read(self, path: str) -> bytes:
        return self.held[path][0]

    def write(self, path: str, content: bytes) -> None:
        self._refuse()
        self.flowing.wait()
        self.held[path] = (content, self.now)

    def stat(self, path: str) -> FileFact:
        if path not in self.held:
            raise FileNotFoundError(path)
        return FileFact(path, len(self.held[path][0]), self.held[path][1])

    def remove(self, path: str) -> None:
        self._refuse()
        del self.held[path]

    def _refuse(self) -> None:
        if self.read_only:
            raise StorageUnreachable("access denied")


@pytest.fixture
def objects() -> Objects:
    return Objects()


def runs(objects: Objects) -> ObjectRunTracker:
    return ObjectRunTracker(cast(Any, objects), "s3://shop/lake/_runs")


def test_whoever_may_only_read_cannot_tell_who_lives(objects: Objects) -> None:
    with runs(objects).hold("r1", "shop dev"):
        assert runs(objects).list_runs()["r1"].alive is True
        objects.read_only = True
        entry = runs(objects).list_runs()["r1"]
        assert entry.alive is None and entry.owner == "shop dev" and entry.started == 1000.0
        objects.read_only = False
    objects.read_only = True
    assert runs(objects).list_runs()["r1"].alive is False, "it said so itself"


def test_the_clock_that_somebody_looks_at_stays(objects: Objects) -> None:
    objects.write("s3://shop/lake/_runs/a.clock", b"")
    objects.now += 50
    objects.write("s3://shop/lake/_runs/b.clock", b"")
    runs(objects).remove_stale()
    assert len(objects.held) == 2
    objects.now += 50
    runs(objects).remove_stale()
    assert list(objects.held) == ["s3://shop/lake/_runs/b.clock"]


def test_the_end_of_a_run_does_not_wait_for_a_store_that_is_silent(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(object_store, "_LAST_SECONDS", 0.1)
    with runs(objects).hold("r1", "shop dev"):
        objects.flowing.clear()
        time.sleep(0.05)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    objects.flowing.set()
