"""The token of an engine goes to 127.0.0.1, where it listens, and not to whoever has its port on ::1."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from sqb.engine.descriptor import EngineDescriptor
from sqb.errors.connections import SparkUnfit
from sqb.spark.connect.client import LoopbackChannelBuilder, connect_engine
from sqb.spark.sharing import parent
from sqb.spark.sharing.child import get_server_address


@dataclass
class Heard:
    """A server that knows no method, and what it was told by those who asked."""

    port: int
    tokens: list[str | None]


class Listening(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, tokens: list[str | None]) -> None:
        self._tokens = tokens

    def service(self, details: Any) -> None:
        self._tokens.append(dict(details.invocation_metadata).get("authorization"))


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Heard, Heard]]:
    """The engine, and somebody else who listens at the same port of ::1."""
    for name in ("grpc_proxy", "http_proxy", "https_proxy"):
        # A proxy that nobody runs: whoever asks it reaches nothing.
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ThreadPoolExecutor(2) as threads:
        running, result = [], list[Heard]()
        for host in ("127.0.0.1", "[::1]"):
            tokens: list[str | None] = []
            server = grpc.server(threads, (Listening(tokens),), options=[("grpc.so_reuseport", 0)])
            try:
                port = server.add_secure_port(
                    f"{host}:{result[0].port if result else 0}", grpc.local_server_credentials()
                )
            except RuntimeError:
                pytest.skip(f"nobody can listen on {host} here")
            server.start()
            running.append(server)
            result.append(Heard(port, tokens))
        yield result[0], result[1]
        for server in running:
            server.stop(None).wait()


def address_of(port: int) -> str:
    engine = EngineDescriptor("local", "", "1", "4", "here", 1, "1", 2, "2", port, "TOKEN", 0.0, 1.0, "log")
    return f"{engine.address}/;token={engine.token}"


def test_a_build_tells_its_token_to_the_engine_only(servers: tuple[Heard, Heard]) -> None:
    engine, other = servers
    with pytest.raises(SparkUnfit, match="is not a Spark Connect server, or one of another version"):
        connect_engine("local", address_of(engine.port), "lake", None, None)
    assert (set(engine.tokens), other.tokens) == ({"Bearer TOKEN"}, [])


def test_the_child_of_a_node_does_so_too(servers: tuple[Heard, Heard], monkeypatch: pytest.MonkeyPatch) -> None:
    engine, other = servers
    monkeypatch.setattr(parent, "is_connect_session", lambda session: True)
    channel = get_server_address(
        parent.share_session(session(LoopbackChannelBuilder(address_of(engine.port)))).address()
    ).toChannel()
    with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
        channel.unary_unary("/spark.connect.SparkConnectService/Config")(b"", timeout=5)
    channel.close()
    assert (engine.tokens, other.tokens) == (["Bearer TOKEN"], [])


def session(builder: Any) -> Any:
    """What lending needs of a session of Spark Connect."""
    client = SimpleNamespace(_builder=builder, _user_id="ana", _cleanup_ml_cache=None)
    client.set_retry_policies = lambda policies: None
    made = SimpleNamespace(client=client, session_id="6a1c3f0e-0000-4000-8000-000000000001")
    made.cloneSession = lambda: made
    return made
