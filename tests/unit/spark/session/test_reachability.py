"""Standalone clusters that cannot be reached are told at once, and clusters that went away soon."""

from __future__ import annotations

import socket
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.errors.connections import SparkDisconnected, SparkUnreachable
from sqb.spark.session import heartbeat as watch
from sqb.spark.session import local, reachability
from sqb.spark.session.heartbeat import Heartbeat
from sqb.spark.session.reachability import check_masters, is_standalone, refuse_unreachable
from support.postgres import free_port


def test_which_masters_are_asked() -> None:
    assert is_standalone("spark://a:7077,b:7077")
    assert not is_standalone("local[*]") and not is_standalone("yarn")


def test_nobody_there() -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(SparkUnreachable) as raised:
        refuse_unreachable("big", master)
    assert raised.value.message.startswith(f"the Spark cluster {master} of the connection big does not answer: conn")
    with pytest.raises(ConnectionError):
        check_masters(master)


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        refuse_unreachable("big", f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


def test_silence_is_told_once() -> None:
    messages: list[float] = []
    hang = threading.Event()
    watch = Heartbeat(hang.wait, lambda: messages.append(time.monotonic()), interval=0.01, timeout=0.2)
    time.sleep(0.6)
    assert len(messages) == 1
    hang.set()
    watch.end()


def test_answers_keep_a_watch_quiet_and_an_error_ends_it() -> None:
    messages: list[str] = []
    answers = iter(range(20))
    watch = Heartbeat(lambda: next(answers), lambda: messages.append("gone"), interval=0.01, timeout=0.2)
    time.sleep(0.1)
    assert messages == []
    time.sleep(0.6)
    assert messages == ["gone"]
    watch.end()


def test_an_error_that_passes_is_no_silence() -> None:
    messages: list[str] = []
    failures = iter(range(5))

    def ask() -> None:
        if next(failures, None) is not None:
            raise ConnectionError

    watch = Heartbeat(ask, lambda: messages.append("gone"), interval=0.02, timeout=0.3, is_error_final=False)
    time.sleep(0.5)
    assert messages == []
    watch.end()


def test_errors_that_go_on_are_silence() -> None:
    messages: list[str] = []
    watch = Heartbeat(lambda: 1 / 0, lambda: messages.append("gone"), interval=0.01, timeout=0.2, is_error_final=False)
    time.sleep(0.1)
    assert messages == []
    time.sleep(0.4)
    assert messages == ["gone"]
    watch.end()


class Context:
    """Spark that counts how often its jobs are cancelled."""

    cancelled = 0

    def cancelAllJobs(self) -> None:
        self.cancelled += 1


def test_jobs_that_come_after_a_cluster_was_lost_are_cancelled_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(watch, "_SECONDS_TO_REPEAT", 0.01)
    monkeypatch.setattr(local, "_stop_context", lambda spark: None)
    monkeypatch.setattr(local, "forget_gateway", lambda: None)
    monkeypatch.setattr(reachability, "Heartbeat", partial(Heartbeat, interval=0.01, timeout=0.1))
    context = Context()
    spark: Any = SimpleNamespace(sparkContext=context)
    engine = local.ClassicEngine(spark, None, tmp_path / "scratch")
    engine.start_heartbeat("big", f"spark://127.0.0.1:{free_port()}")
    time.sleep(0.5)
    assert not engine.alive() and isinstance(engine.loss(), SparkDisconnected)
    before = context.cancelled
    time.sleep(0.1)
    assert context.cancelled > before
    engine.stop()
    time.sleep(0.05)
    before = context.cancelled
    time.sleep(0.1)
    assert context.cancelled == before
