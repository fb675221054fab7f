"""What a build says of a warm engine that went away: which connection, and why where that is known."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.engine import client
from sqb.engine.process_identity import read_start_time
from sqb.spark.session.reachability import build_lost_cluster_error
from support.postgres import free_port


class Server:
    """A server that is given up or not."""

    given_up = False

    def give_up(self) -> None:
        self.given_up = True

    def stop(self) -> None: ...


def engine_of(server: Any, master: str) -> client.WarmEngine:
    described = SimpleNamespace(server_pid=os.getpid(), server_born=read_start_time(os.getpid()), log="engine.log")
    held: Any = SimpleNamespace(descriptor=described, claim=SimpleNamespace(release=lambda: None))
    return client.WarmEngine(server, held, "big", master)


def test_an_engine_that_is_gone_is_that_of_a_connection() -> None:
    engine = engine_of(Server(), "local[*]")
    assert str(engine.loss()).endswith(
        "the engine of the connection big was lost in the middle of the work: it was stopped or killed, or has crashed"
    )
    engine.stop()


def test_an_engine_whose_cluster_is_gone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SECONDS_WITHOUT_CLUSTER", 0.1)
    server, master = Server(), f"spark://127.0.0.1:{free_port()}"
    engine = engine_of(server, master)
    until = time.monotonic() + 5
    while not server.given_up and time.monotonic() < until:
        time.sleep(0.01)
    loss = engine.loss()
    assert loss is not None and loss.message == build_lost_cluster_error("big", master).message
    engine.stop()
