"""A REST catalog asked over HTTP: what is sent, what is asked again, and what failures mean."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from sqb.errors.connections import CatalogDenied, CatalogFailed
from sqb.errors.lake import CatalogUnreachable, LakeError
from sqb.lake.catalog.rest.catalog import RestLakeCatalog
from sqb.lake.catalog.rest.client import RequestRefused, RestClient
from sqb.lake.catalog.rest.errors import explain
from sqb.lake.catalog.rest.http import NoAnswer
from sqb.lake.iceberg import open_storage
from sqb.project.config.connections.lake_location import LakeLocation
from support.scripted_server import Asked, Says, refusal, scripted

CONFIG = Says(body={"defaults": {}, "overrides": {}})
SECRET = "s3cr3t"


def place(uri: str, warehouse: str = "/nowhere", **options: str) -> LakeLocation:
    return LakeLocation("team", "rest", "lake", uri, warehouse, {k.replace("_", "-"): v for k, v in options.items()})


def answering(rest: Callable[[Asked], Says], config: Says = CONFIG) -> Callable[[Asked], Says]:
    return lambda asked: config if asked.path.startswith("/v1/config") else rest(asked)


def test_what_a_server_is_set_to_decides_where_it_is_asked() -> None:
    told = {"defaults": {"prefix": "lost"}, "overrides": {"prefix": "a/b", "namespace-separator": "%2E"}}
    with scripted(answering(lambda asked: Says(), Says(body=told))) as server:
        client = RestClient(place(server.uri, "shop & more"))
        client.get(f"namespaces/{client.encode_schema('x.y z')}/tables")
    assert [a.path for a in server.asked] == [
        "/v1/config?warehouse=shop+%26+more",
        "/v1/a/b/namespaces/x.y%20z/tables",
    ]


def test_schemas_in_schemas_are_joined_as_the_protocol_says() -> None:
    with scripted(answering(lambda asked: Says())) as server:
        client = RestClient(place(server.uri))
        client.get(f"namespaces/{client.encode_schema('x.y')}", {"parent": client.join_schema("x.y")})
    assert server.asked[-1].path == "/v1/namespaces/x%1Fy?parent=x%1Fy"


def test_lists_are_read_page_after_page() -> None:
    def pages(asked: Asked) -> Says:
        return (
            Says(body={"n": [3]})
            if "pageToken=more" in asked.path
            else Says(body={"n": [1, 2], "next-page-token": "more"})
        )

    with scripted(answering(pages)) as server:
        assert list(RestClient(place(server.uri)).iter_pages("x", "n")) == [1, 2, 3]


def test_connections_are_kept_and_many_questions_are_asked_at_once() -> None:
    with scripted(answering(lambda asked: Says(body={"at": asked.path}))) as server:
        client = RestClient(place(server.uri))
        for _ in range(5):
            client.get("one")
        assert server.connections == 1
        results = client.map_concurrently(lambda n: client.get(str(n))["at"], range(50))
        assert results == [f"/v1/{n}" for n in range(50)]
        client.close()


def test_a_connection_that_the_server_closed_meanwhile_is_made_again() -> None:
    with scripted(answering(lambda asked: Says(headers={"X": "y"}))) as server:
        client = RestClient(place(server.uri))
        client.get("one")
        for line in client._connections._idle:
            # As a server's end of it would be: readable, and at its end.
            line.connection.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
        assert client.get("two") == {}


@pytest.mark.parametrize(("login", "authorization"), [("", None), ("me:p%40ss@", "Basic bWU6cEBzcw==")])
def test_a_proxy_is_given_the_whole_address_and_its_own_login(
    login: str, authorization: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(lambda asked: CONFIG) as proxy:
        monkeypatch.setenv("http_proxy", proxy.uri.replace("//", f"//{login}"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        # Nothing of that name is there: the proxy answers.
        RestClient(place("http://catalog.invalid:8181", token=SECRET)).get("x")
    assert [a.path for a in proxy.asked] == [
        "http://catalog.invalid:8181/v1/config?warehouse=%2Fnowhere",
        "http://catalog.invalid:8181/v1/x",
    ]
    assert {a.headers.get("Proxy-Authorization") for a in proxy.asked} == {authorization}
    assert {a.headers["Authorization"] for a in proxy.asked} == {f"Bearer {SECRET}"}


def test_a_token_and_headers_are_sent() -> None:
    with scripted(answering(lambda asked: Says())) as server:
        RestClient(place(server.uri, token=SECRET, **{"header.X-Team": "shop"})).get("x")
    assert {a.headers.get("Authorization") for a in server.asked} == {f"Bearer {SECRET}"}
    assert server.asked[-1].headers["X-Team"] == "shop"


@pytest.mark.parametrize(("credential", "form"), [
    (f"me:{SECRET}:x", {"client_id": ["me"], "client_secret": [f"{SECRET}:x"]}),
    (SECRET, {"client_secret": [SECRET]}),
])  # fmt: skip
def test_a_credential_is_exchanged_for_a_token_and_again_when_that_expired(
    credential: str, form: dict[str, Any]
) -> None:
    made: list[dict[str, list[str]]] = []

    def answer(asked: Asked) -> Says:
        if asked.path == "/v1/oauth/tokens":
            made.append(parse_qs(asked.body.decode()))
            return Says(body={"access_token": f"t{len(made)}", "token_type": "bearer"})
        old = asked.path == "/v1/x" and asked.headers["Authorization"] == "Bearer t1"
        return refusal(401, "NotAuthorizedException", "token expired") if old else Says()

    with scripted(answer) as server:
        client = RestClient(place(server.uri, credential=credential, scope="all"))
        assert client.get("x") == {}
        assert client.get_token() == "t2"
    assert made == [{"grant_type": ["client_credentials"], "scope": ["all"], **form}] * 2


def test_tokens_may_come_from_elsewhere() -> None:
    with (
        scripted(lambda asked: Says(body={"access_token": "t"})) as tokens,
        scripted(answering(lambda asked: Says())) as server,
    ):
        options = {"oauth2-server-uri": f"{tokens.uri}/token", "audience": "lake"}
        RestClient(place(server.uri, credential="a:b", **options)).get("x")
    assert parse_qs(tokens.asked[0].body.decode())["audience"] == ["lake"]
    assert server.asked[-1].headers["Authorization"] == "Bearer t"


def test_a_busy_server_is_asked_again() -> None:
    left = [Says(503, b"", {"Retry-After": "0"}), Says(429, {}), Says(body={"a": 1})]
    with scripted(answering(lambda asked: left.pop(0))) as server:
        assert RestClient(place(server.uri)).get("x") == {"a": 1}


def test_a_change_is_never_asked_for_twice() -> None:
    def cut(asked: Asked) -> Says:
        raise ConnectionError

    with scripted(answering(cut)) as server, pytest.raises(NoAnswer):
        RestClient(place(server.uri)).post("x", {})
    assert [a.method for a in server.asked].count("POST") == 1


# --- failures in words ----------------------------------------------------------------------------------------------


def read_failure(uri: str, **options: str) -> LakeError:
    at = place(uri, **options)
    with pytest.raises(LakeError) as failed:
        dict(RestLakeCatalog(at, open_storage(at)).list_pointers())
    return failed.value


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://me:{SECRET}@127.0.0.1:{free.getsockname()[1]}"
    error = read_failure(uri)
    assert isinstance(error, CatalogUnreachable)
    assert error.message == (
        "the catalog of the connection team does not answer:"
        f" {uri.replace(SECRET, '***')}/v1/config: Connection refused"
    )
    assert error.hint is not None
    assert "check `uri`" in error.hint


def test_no_such_host() -> None:
    assert "does not answer: http://no-such-host.invalid" in read_failure("http://no-such-host.invalid").message


def test_a_server_that_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begun = time.monotonic()
        error = read_failure(f"http://127.0.0.1:{silent.getsockname()[1]}", **{"rest.client.socket-timeout-ms": "300"})
    assert time.monotonic() - begun < 3
    assert error.message.endswith("/v1/config: no answer in time")


@pytest.mark.parametrize(("says", "kind", "message", "hint"), [
    (refusal(401, "NotAuthorizedException", f"bad token {SECRET}"), CatalogDenied,
     "does not know who is asking: NotAuthorizedException: bad token ***", "check `token`"),
    (refusal(403, "ForbiddenException", "no"), CatalogDenied, "not allow this: ForbiddenException: no", "the right"),
    (refusal(404, "NotFoundException", 'no "shop"'), CatalogFailed, 'NotFoundException: no "shop"', "`warehouse`"),
    (refusal(400, "BadRequest", "No route"), CatalogFailed, "refuses: BadRequest: No route (HTTP 400)", "check `uri`"),
    (Says(404, b"<html>"), CatalogFailed, "does not have what it was asked for: HTTP status 404", "check `uri`"),
    (refusal(500, "RuntimeException", "a\n\tat x.java"), CatalogFailed, "RuntimeException: a (HTTP 500)", "log"),
    (Says(200, b"<html>"), CatalogUnreachable, "the answer is not one of an Iceberg REST catalog", "check `uri`"),
])  # fmt: skip
def test_what_a_server_says(says: Says, kind: type[LakeError], message: str, hint: str) -> None:
    with scripted(lambda asked: says) as server:
        error = read_failure(server.uri, token=SECRET)
    assert type(error) is kind
    assert message in error.message
    assert "connection team" in error.message
    assert SECRET not in str(error)
    assert hint in (error.hint or "")


def test_a_wrong_secret() -> None:
    wrong = Says(400, {"error": "invalid_client", "error_description": f"{SECRET} is wrong"})
    with scripted(lambda asked: wrong) as server:
        error = read_failure(server.uri, credential=f"me:{SECRET}")
    assert isinstance(error, CatalogDenied)
    assert SECRET not in error.message
    assert error.hint is not None
    assert "check `credential`" in error.hint


def test_what_is_not_the_catalogs_is_not_explained() -> None:
    assert explain(ValueError("x"), place("http://x")) is None
    assert isinstance(explain(RequestRefused(418, "", "x"), place("http://x")), CatalogFailed)
