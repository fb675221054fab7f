"""Standalone clusters that cannot be reached are told at once, and clusters that went away soon."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from sqb.errors_connections import SparkUnreachable
from sqb.spark.masters import ask_masters, is_standalone, refuse_unreachable
from sqb.spark.watch import Watch
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
        ask_masters(master)


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        refuse_unreachable("big", f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


def test_silence_is_told_once() -> None:
    told: list[float] = []
    hang = threading.Event()
    watch = Watch(hang.wait, lambda: told.append(time.monotonic()), between=0.01, patience=0.2)
    time.sleep(0.6)
    assert len(told) == 1
    hang.set()
    watch.end()


def test_answers_keep_a_watch_quiet_and_an_error_ends_it() -> None:
    told: list[str] = []
    answers = iter(range(20))
    watch = Watch(lambda: next(answers), lambda: told.append("gone"), between=0.01, patience=0.2)
    time.sleep(0.1)
    assert told == []
    time.sleep(0.6)
    assert told == ["gone"]
    watch.end()
