"""Addresses of Spark Connect servers, what is told to whom, and how a child gets to its build's session."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import __version__ as our_version
from pyspark.sql.connect.client.core import DefaultChannelBuilder

from sqb.errors.connections import SparkDisconnected, SparkUnfit, SparkUnreachable
from sqb.errors.spark import SparkDidNotStart, SparkLost
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.spark import engine as opening
from sqb.spark.connect import client
from sqb.spark.connect import sessions as connect_sessions
from sqb.spark.connect.client import _Server
from sqb.spark.errors import explain_failure
from sqb.spark.private_api import attach_copy
from sqb.spark.session import local as session
from sqb.spark.session.conf import ICEBERG_EXTENSIONS
from sqb.spark.sharing import parent
from support.fake_connect import fake_server

SECRET = {"spark.sql.catalog.lake.jdbc.password": "hush"}


@pytest.mark.parametrize("address", ["sc://host:port/;token=hush", "sc://host/path;token=hush", "sc://h/;token"])
def test_an_address_that_is_none_is_not_repeated(address: str) -> None:
    with pytest.raises(SparkUnreachable) as raised:
        _Server("big", address)
    assert raised.value.message == "`remote` of the connection big is not an address of a Spark server"
    assert "hush" not in f"{raised.value.hint}"


def test_a_server_is_called_without_its_token() -> None:
    server = _Server("big", "sc://spark.example:15009/;token=hush")
    assert server.description == "the Spark server sc://spark.example:15009 of the connection big"
    assert (
        isinstance(server.build_lost_error(), SparkLost)
        and "sc://spark.example:15009" in server.build_lost_error().message
    )


def test_secrets_are_told_only_where_nobody_listens() -> None:
    for address in ("sc://localhost", "sc://127.0.0.1:1", "sc://h/;use_ssl=true"):
        _Server("big", address).refuse_to_send_secrets(SECRET)
    open_line = _Server("big", "sc://spark.example")
    open_line.refuse_to_send_secrets({"spark.sql.catalog.lake.uri": "jdbc:postgresql://h/db"})
    with pytest.raises(SparkUnfit) as raised:
        open_line.refuse_to_send_secrets(SECRET)
    assert "`spark.sql.catalog.lake.jdbc.password` is a secret" in raised.value.message
    assert "hush" not in raised.value.message


class Session:
    """What lending needs of a session of Spark Connect."""

    session_id = "6a1c3f0e-0000-4000-8000-000000000001"

    def __init__(self, builder: Any) -> None:
        self.client = SimpleNamespace(_builder=builder, _user_id="ana", set_retry_policies=None, _cleanup_ml_cache=None)
        self.client.set_retry_policies = lambda policies: None
        self.conf: dict[str, str] = {}

    def cloneSession(self) -> Session:
        return self


def test_a_child_finds_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "is_connect_session", lambda session: True)
    builder = DefaultChannelBuilder("sc://localhost:15009/;token=a%20b%2F")
    address = parent.share_session(Session(builder)).address()
    again = DefaultChannelBuilder(address["remote"])
    assert (again.endpoint, again.token, again.session_id) == ("localhost:15009", "a b/", Session.session_id)
    assert address["user"] == "ana"


def test_a_channel_of_ones_own_cannot_be_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "is_connect_session", lambda session: True)
    with pytest.raises(SparkUnfit, match="custom channel builder"):
        parent.share_session(Session(object())).address()


def test_errors_of_opening_repeat_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    def start(**_: Any) -> None:
        raise SparkUnfit("cannot log in with hush", hint="not with hush, quiet or silent")

    monkeypatch.setattr(session, "start_engine", start)
    monkeypatch.setenv("WORD", "silent")
    place = LakeLocation("big", "rest", "lake", "https://h", "w", {"token": "hush"})
    connection = Connection("big", spark=SparkSettings(conf={"spark.x.password": "quiet", "spark.auth": "@@ENV:WORD"}))
    with pytest.raises(SparkUnfit) as raised:
        opening.open_engine(connection, place, tmp_path / "log", print, 1)
    assert (raised.value.message, raised.value.hint) == ("cannot log in with ***", "not with ***, *** or ***")


def test_no_argument_of_sparks_process_is_a_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """What comes from the environment is one whatever it is called, but for what Spark needs before it runs."""
    messages: list[str] = []

    def launch(conf: Any, *_: Any) -> None:
        messages.extend(f"{key}={value}" for key, value in conf.getAll())
        raise OSError("no Java today")

    monkeypatch.setattr(session.java_gateway, "launch_gateway", launch)
    for name, value in (("WORD", "hunter2"), ("SIZE", "2048m")):
        monkeypatch.setenv(name, value)
    names = ("spark.executorEnv.PGPASS", "spark.redis.auth", "spark.hadoop.fs.s3a.encryption.key", "spark.x.password")
    conf = {**dict.fromkeys(names, "@@ENV:WORD"), "spark.driver.memory": "@@ENV:SIZE", "spark.y.token": "quiet"}
    connection = Connection("big", spark=SparkSettings("local[1]", conf=conf))
    with pytest.raises(SparkDidNotStart):
        opening.open_engine(
            connection, LakeLocation.embedded(tmp_path / "c", tmp_path / "d"), tmp_path / "log", print, 1
        )
    assert "spark.driver.memory=2048m" in messages and "spark.master=local[1]" in messages
    assert not any(secret in setting for setting in messages for secret in ("hunter2", "quiet", *names))


class Rpc(Exception):
    """A call that did not reach its server."""

    def code(self) -> Any:
        return SimpleNamespace(name="UNAVAILABLE")


def test_calls_that_reach_nobody() -> None:
    failure = explain_failure(Rpc(), "SELECT 1")
    assert (failure.kind, failure.message) == ("lost", "the connection to Spark broke in the middle of the work")
    assert SparkDisconnected("x").code == "SQB-N224"


class Client:
    """What is left open until somebody closes it."""

    def __init__(self) -> None:
        self.open = True
        self._channel = SimpleNamespace(close=self.close)

    def close(self) -> None:
        self.open = False


def test_what_children_were_lent_is_given_up_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the end of a node would wait for a server that does not answer."""
    monkeypatch.setattr(connect_sessions, "set_retry_policy", lambda session: session)
    copy, made = SimpleNamespace(client=Client()), SimpleNamespace(client=Client())
    base = SimpleNamespace(client=Client(), version="4", cloneSession=lambda: made)
    sessions = connect_sessions.ConnectSessions(base, lambda: SparkDisconnected("gone"))
    attach_copy(sessions.new(), copy)
    sessions.give_up()
    sessions.end()
    assert not (copy.client.open or made.client.open or base.client.open)


def test_what_is_the_builds_own_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers and then hangs is given up like any other."""
    monkeypatch.setattr(client, "SECONDS_TO_ANSWER", 0.5)
    began = time.monotonic()
    with fake_server(our_version, hangs=("set",)) as address, pytest.raises(SparkUnreachable) as raised:
        client.connect_engine("big", address, "lake", None, None, {"spark.sql.catalog.lake.uri": "jdbc:x"})
    assert time.monotonic() - began < 10
    assert raised.value.message == f"the Spark server {address} of the connection big does not answer"


def test_what_needs_a_job_may_wait_for_the_jobs_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is busy answers, and is watched for as long as it does."""
    monkeypatch.setattr(client, "SECONDS_TO_ANSWER", 0.3)
    monkeypatch.setattr(client, "prepare_session", lambda *_: {"shop"})
    asked: list[Any] = []

    def wait(*given: Any) -> None:
        time.sleep(0.5)
        asked.append(given[2:])

    monkeypatch.setattr(client, "refuse_other_lake", wait)
    current = {Relation("shop", "orders"): "3.json"}
    with fake_server(our_version, {"spark.sql.extensions": ICEBERG_EXTENSIONS}) as address:
        engine = client.connect_engine("big", address, "lake", lambda _: {}, lambda: current)
        assert engine.alive() and asked == [("lake", {"shop"}, current)]
        engine.stop()
