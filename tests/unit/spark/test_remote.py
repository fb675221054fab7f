"""Addresses of Spark Connect servers, what is told to whom, and how a child gets to its build's session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.client.core import DefaultChannelBuilder

from sqb.errors import SparkLost
from sqb.errors_connections import SparkDisconnected, SparkUnfit, SparkUnreachable
from sqb.project.connections import Connection, SparkSettings
from sqb.project.place import Place
from sqb.spark import lending, opening
from sqb.spark.failures import explain
from sqb.spark.remote import _Server

SECRET = {"spark.sql.catalog.lake.jdbc.password": "hush"}


@pytest.mark.parametrize("address", ["sc://host:port/;token=hush", "sc://host/path;token=hush", "sc://h/;token"])
def test_an_address_that_is_none_is_not_repeated(address: str) -> None:
    with pytest.raises(SparkUnreachable) as raised:
        _Server("big", address)
    assert raised.value.message == "`remote` of the connection big is no address of a Spark server"
    assert "hush" not in f"{raised.value.hint}"


def test_a_server_is_called_without_its_token() -> None:
    server = _Server("big", "sc://spark.example:15009/;token=hush")
    assert server.called == "the Spark server sc://spark.example:15009 of the connection big"
    assert isinstance(server.lost(), SparkLost) and "sc://spark.example:15009" in server.lost().message


def test_secrets_are_told_only_where_nobody_listens() -> None:
    for address in ("sc://localhost", "sc://127.0.0.1:1", "sc://h/;use_ssl=true"):
        _Server("big", address).refuse_to_tell(SECRET)
    open_line = _Server("big", "sc://spark.example")
    open_line.refuse_to_tell({"spark.sql.catalog.lake.uri": "jdbc:postgresql://h/db"})
    with pytest.raises(SparkUnfit) as raised:
        open_line.refuse_to_tell(SECRET)
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
    monkeypatch.setattr(lending, "speaks_connect", lambda session: True)
    builder = DefaultChannelBuilder("sc://localhost:15009/;token=a%20b%2F")
    address = lending.lend(Session(builder)).address()
    again = DefaultChannelBuilder(address["remote"])
    assert (again.endpoint, again.token, again.session_id) == ("localhost:15009", "a b/", Session.session_id)
    assert address["user"] == "ana"


def test_a_channel_of_ones_own_cannot_be_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "speaks_connect", lambda session: True)
    with pytest.raises(SparkUnfit, match="channel builder of one's own"):
        lending.lend(Session(object())).address()


def test_errors_of_opening_repeat_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import sqb.spark.session

    def start(**_: Any) -> None:
        raise SparkUnfit("cannot log in with hush", hint="not with hush, nor with quiet")

    monkeypatch.setattr(sqb.spark.session, "start_engine", start)
    place = Place("big", "rest", "lake", "https://h", "w", {"token": "hush"})
    connection = Connection("big", spark=SparkSettings(conf={"spark.x.password": "quiet"}))
    with pytest.raises(SparkUnfit) as raised:
        opening.open_engine(connection, place, tmp_path / "log", print, 1)
    assert (raised.value.message, raised.value.hint) == ("cannot log in with ***", "not with ***, nor with ***")


class Rpc(Exception):
    """A call that did not reach its server."""

    def code(self) -> Any:
        return SimpleNamespace(name="UNAVAILABLE")


def test_calls_that_reach_nobody() -> None:
    failure = explain(Rpc(), "SELECT 1")
    assert (failure.kind, failure.message) == ("lost", "the connection to Spark broke in the middle of the work")
    assert SparkDisconnected("x").code == "SQB-N224"
