"""A session that was handed in, and whose Spark is gone: told soon, and as what it is."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import __version__ as our_version
from pyspark.errors import AnalysisException

from sqb.errors.base import SqbError
from sqb.errors.connections import SparkDisconnected, SparkUnfit, SparkUnreachable
from sqb.spark.connect import mode
from sqb.spark.session import external, heartbeat, reachability
from sqb.spark.session.heartbeat import Heartbeat
from support.fake_connect import fake_server
from support.postgres import free_port


class Classic:
    """A classic session of which nothing works."""

    def __init__(self, error: Exception, java: Any = object()) -> None:
        self.error, self.sparkContext = error, SimpleNamespace(_jsc=java, master="local[*]")

    @property
    def version(self) -> str:
        raise self.error


def refusal(session: Any) -> SqbError:
    with pytest.raises(SqbError) as raised:
        external.use_session(session, "lake", lambda _: {}, None)
    return raised.value


def test_java_that_is_gone() -> None:
    for error in (Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "refused")):
        messages = refusal(Classic(error))
        assert isinstance(messages, SparkUnreachable)
        assert messages.message == "the Spark session that was handed in does not answer"


def test_a_session_that_was_stopped() -> None:
    messages = refusal(Classic(ValueError("never asked"), java=None))
    assert (
        isinstance(messages, SparkUnreachable)
        and messages.message == "the Spark session that was handed in was stopped"
    )


def test_whatever_else_spark_says_is_no_mistake_of_sqb() -> None:
    messages = refusal(Classic(AnalysisException("not today")))
    assert isinstance(messages, SparkUnfit)
    assert messages.message.startswith("the Spark session that was handed in cannot be used: ")


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of the session would try again for minutes."""
    from pyspark.sql.connect.session import SparkSession

    monkeypatch.setattr(external, "SECONDS_TO_ANSWER", 0.5)
    was = mode.is_connect_mode()
    with fake_server(our_version, hangs=("spark_version",)) as address:
        session = SparkSession(connection=address)
        messages = refusal(session)
        session.client._channel.close()
    assert isinstance(messages, SparkUnreachable) and mode.is_connect_mode() == was


class Beside:
    """A session beside the one that was handed in, which is interrupted again and again."""

    def __init__(self) -> None:
        self.interrupted = 0
        self.conf: Any = SimpleNamespace(getAll={})

    def interruptAll(self) -> None:
        self.interrupted += 1


def engine_on(master: str) -> external.ExternalEngine:
    owner: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object(), master=master), newSession=Beside)
    return external.ExternalEngine(owner, Beside())


def until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def test_the_cluster_of_a_session_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_SECONDS_TO_REPEAT", 0.01)
    monkeypatch.setattr(reachability, "Heartbeat", partial(Heartbeat, interval=0.01, timeout=0.1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        engine = engine_on(master)
        session = engine.worker_session()
        time.sleep(0.3)
        assert engine.alive() and engine.loss() is None and session.interrupted == 0
    assert until(lambda: session.interrupted > 2) and not engine.alive()
    loss = engine.loss()
    assert isinstance(loss, SparkDisconnected) and f"to the Spark cluster {master} broke" in loss.message
    engine.stop()


def test_masters_that_cannot_be_asked_from_here_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "start_heartbeat", None)
    assert engine_on(f"spark://127.0.0.1:{free_port()}").alive()
    assert engine_on("local[*]").alive()
