"""Spark when it is needed: whose turn it is in a process, and what nobody waits for any more."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sqb.build import spark_engine
from sqb.build.spark_engine import LazyEngine
from sqb.errors.build import Interrupted
from sqb.errors.connections import SparkUnreachable
from sqb.workspace import Workspace, open_workspace
from unit.folders import write


class Spark:
    """What starting Spark gives."""

    def __init__(self) -> None:
        self.stopped = False

    def worker_session(self) -> object:
        return self

    def alive(self) -> bool:
        return not self.stopped

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Spark]:
    """Every Spark that was started, while none is."""
    items: list[Spark] = []

    def start(**_: Any) -> Spark:
        assert all(s.stopped for s in items)
        items.append(Spark())
        return items[-1]

    monkeypatch.setattr("sqb.spark.engine.open_engine", start)
    return items


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return open_workspace(write(tmp_path, {}))


def new_engine(
    workspace: Workspace, messages: list[str], stop: threading.Event | None = None, given: Any = None
) -> LazyEngine:
    return LazyEngine(workspace, workspace.root / "log", messages.append, 2, stop, external_session=given)


def test_builds_of_one_process_wait_for_each_others_spark(workspace: Workspace, started: list[Spark]) -> None:
    messages: list[str] = []
    first, second = new_engine(workspace, messages), new_engine(workspace, messages)
    assert first.session() is started[0] and messages == []
    second.warm()
    later = threading.Timer(0.4, first.stop)
    later.start()
    assert second.session() is started[1] and started[0].stopped
    assert messages == ["waiting for another build in this process to end its Spark"]
    second.stop()
    second.stop()
    # Nobody has a turn now.
    third = new_engine(workspace, messages)
    assert third.session() is started[2]
    third.stop()


def test_who_waits_can_be_interrupted(workspace: Workspace, started: list[Spark]) -> None:
    stop = threading.Event()
    first, second = new_engine(workspace, []), new_engine(workspace, [], stop)
    first.session()
    second.warm()
    stop.set()
    with pytest.raises(Interrupted):
        second.session()
    second.stop()
    first.stop()
    assert len(started) == 1


def test_a_session_that_was_handed_in_is_nobodys_turn(workspace: Workspace, started: list[Spark]) -> None:
    started_before = new_engine(workspace, [])
    started_before.session()
    started[0].stopped = True  # as far as the assertion above is concerned
    given = new_engine(workspace, [], given=object())
    assert given.session() is started[1]
    given.stop()
    started_before.stop()


def test_spark_that_comes_too_late_is_ended(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    came, spark = threading.Event(), Spark()

    def start(**_: Any) -> Spark:
        came.wait(10)
        return spark

    monkeypatch.setattr("sqb.spark.engine.open_engine", start)
    stop = threading.Event()
    engine = new_engine(workspace, [], stop)
    engine.warm()
    stop.set()
    engine.stop()
    came.set()
    with pytest.raises(Interrupted):
        engine.session()
    after = new_engine(workspace, [])
    monkeypatch.setattr("sqb.spark.engine.open_engine", lambda **_: Spark())
    assert after.session() is not spark
    assert spark.stopped
    after.stop()


@pytest.mark.parametrize("how", ["stopped", "failed", "too late"])
def test_connections_to_the_catalog_end_with_spark(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A server that outlives the build would keep them, also where it was given up before it was of use."""
    ended: list[str] = []
    monkeypatch.setattr(spark_engine, "_name_connections", lambda place: (place, "sqb 1"))
    monkeypatch.setattr(spark_engine, "_end_connections", lambda place, name: ended.append(name))
    came = threading.Event()

    def start(**_: Any) -> Spark:
        if how == "failed":
            raise SparkUnreachable("it does not answer")
        came.wait(10)
        return Spark()

    monkeypatch.setattr("sqb.spark.engine.open_engine", start)
    stop = threading.Event()
    engine = new_engine(workspace, [], stop)
    engine.warm()
    if how == "too late":
        stop.set()
        engine.stop()
        assert ended == []
    came.set()
    with contextlib.suppress(Interrupted, SparkUnreachable):
        engine.session()
    engine.stop()
    until = time.monotonic() + 5
    while not ended and time.monotonic() < until:
        time.sleep(0.01)
    assert ended == ["sqb 1"]
