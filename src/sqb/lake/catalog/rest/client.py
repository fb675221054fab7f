"""The Iceberg REST protocol over plain HTTP: paths and JSON, tokens, what a server is set to, many requests at once.

It knows nothing of lakes, and needs no pyiceberg: planning goes through this module.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode

from sqb.lake.catalog.rest.http import Answer, ConnectionPool, NoAnswer
from sqb.project.config.connections.lake_location import LakeLocation

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_WORKERS = 16
_CONNECT_MS, _READ_MS = "8000", "20000"
# How long a server that asks for patience is given, in all.
_PATIENCE_SECONDS = 10.0
_BUSY = (429, 503)
_SEPARATOR = "%1F"


class RequestRefused(Exception):
    """A server answered a request with an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}" if kind else message)
        self.status, self.kind, self.message = status, kind, message


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of a server, merged with the options of the connection."""

    uri: str
    prefix: str
    separator: str
    properties: Mapping[str, str] = field(repr=False)
    # Such as `POST /v1/{prefix}/tables/rename`; None where the server does not tell.
    endpoints: frozenset[str] | None = None

    def has_endpoint(self, endpoint: str) -> bool:
        """Whether the server has an endpoint, as far as it tells."""
        return self.endpoints is None or endpoint in self.endpoints


class RestClient:
    """One catalog server."""

    def __init__(self, place: LakeLocation) -> None:
        self._place, self._options = place, place.options
        connect = int(self._options.get("rest.client.connection-timeout-ms", _CONNECT_MS))
        read = int(self._options.get("rest.client.socket-timeout-ms", _READ_MS))
        # In seconds: to be connected, and to get an answer.
        self.timeouts = (connect / 1000, read / 1000)
        self._connections = ConnectionPool(*self.timeouts)
        self._guard = threading.Lock()
        self._settings_lock = threading.Lock()
        self._settings: Settings | None = None
        self._token = self._options.get("token")
        self._pool: ThreadPoolExecutor | None = None

    def get_settings(self) -> Settings:
        """Get the configuration of the server, fetched once."""
        with self._settings_lock:
            if self._settings is None:
                self._settings = self._fetch_settings()
            return self._settings

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Get the document at a path of the catalog."""
        return self._request_json("GET", self._build_url(path, query))

    def find(self, path: str) -> dict[str, Any] | None:
        """Get the document at a path; None where there is none."""
        try:
            return self.get(path)
        except RequestRefused as error:
            if error.status == 404:
                return None
            raise

    def iter_pages(self, path: str, key: str, query: Mapping[str, str] | None = None) -> Iterator[Any]:
        """All entries of a list, page after page where the server cuts it."""
        token = ""
        while True:
            page = self.get(path, {**(query or {}), **({"pageToken": token} if token else {})})
            yield from page.get(key) or ()
            token = page.get("next-page-token") or ""
            if not token:
                return

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for a change at a path of the catalog."""
        return self._request_json("POST", self._build_url(path), json.dumps(body).encode())

    def delete(self, path: str) -> bool:
        """Delete the resource at a path of the catalog; False where there is none."""
        try:
            self._request_json("DELETE", self._build_url(path))
        except RequestRefused as error:
            if error.status == 404:
                return False
            raise
        return True

    def map_concurrently(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Call a function with each item concurrently; the results are in the order of the items."""
        arguments = list(items)
        if len(arguments) < 2:
            return [function(item) for item in arguments]
        with self._guard:
            pool = self._pool = self._pool or ThreadPoolExecutor(_MAX_WORKERS, "sqb-rest")
        futures = [pool.submit(function, item) for item in arguments]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def limit_wait(self, seconds: float) -> AbstractContextManager[None]:
        """Wait no longer than this for what this thread asks meanwhile: a server that was silent is asked once more."""
        return self._connections.limit_wait(seconds)

    def encode_schema(self, schema: str) -> str:
        """The name of a schema as one part of a path."""
        return quote(self.join_schema(schema), safe="")

    def join_schema(self, schema: str) -> str:
        """The name of a schema as a value of a query."""
        return self.get_settings().separator.join(schema.split("."))

    def close(self) -> None:
        """Close connections and end threads."""
        with self._guard:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
        self._connections.close()

    def _fetch_settings(self) -> Settings:
        uri, warehouse = self._place.uri.rstrip("/"), self._place.warehouse
        query = {"warehouse": warehouse} if warehouse else {}
        config = self._request_json("GET", f"{uri}/v1/config{_format_query(query)}")
        defaults, overrides = config.get("defaults") or {}, config.get("overrides") or {}
        properties = {**defaults, "uri": uri, **query, **self._options, **overrides}
        endpoints = config.get("endpoints")
        return Settings(
            str(properties["uri"]).rstrip("/"),
            str(properties.get("prefix") or "").strip("/"),
            unquote(str(properties.get("namespace-separator") or _SEPARATOR)),
            {str(k): str(v) for k, v in properties.items() if v is not None},
            frozenset(endpoints) if endpoints else None,
        )

    def _build_url(self, path: str, query: Mapping[str, str] | None = None) -> str:
        settings = self.get_settings()
        prefix = f"{settings.prefix}/" if settings.prefix else ""
        return f"{settings.uri}/v1/{prefix}{path}{_format_query(query)}"

    def _request_json(self, method: str, url: str, body: bytes | None = None) -> dict[str, Any]:
        answer = self._request(method, url, body)
        if not answer.body:
            return {}
        with suppress(ValueError):
            document = json.loads(answer.body)
            if isinstance(document, dict):
                return document
        raise NoAnswer(url, "the answer is not one of an Iceberg REST catalog")

    def _request(self, method: str, url: str, body: bytes | None) -> Answer:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        wait, is_renewed = 0.2, False
        while True:
            token = self.get_token()
            answer = self._connections.send(method, url, body, self._build_headers(token))
            if answer.status < 300:
                return answer
            if answer.status == 401 and not is_renewed and "credential" in self._options:
                # It may have expired.
                self.renew_token(token)
                is_renewed = True
                continue
            pause = max(answer.retry_after, wait)
            if answer.status not in _BUSY or time.monotonic() + pause > deadline:
                raise _parse_refusal(answer)
            time.sleep(pause)
            wait *= 2

    def _build_headers(self, token: str | None) -> dict[str, str]:
        configured = {k.removeprefix("header."): v for k, v in self._options.items() if k.startswith("header.")}
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return {"Accept": "application/json", "Content-Type": "application/json", **bearer, **configured}

    # --- tokens ---------------------------------------------------------------------------------------------------

    def get_token(self) -> str | None:
        """The token that requests carry; None where they carry none."""
        with self._guard:
            if self._token is None and "credential" in self._options:
                self._token = self._fetch_token(self._options["credential"])
            return self._token

    def renew_token(self, old: str | None = None) -> None:
        """Get another token for the next request, unless another thread has already replaced `old`."""
        with self._guard:
            if "credential" in self._options and old in (None, self._token):
                self._token = None

    def _fetch_token(self, credential: str) -> str:
        """A token for a client's id and secret, from the catalog itself or from the server that is named for it."""
        options = self._options
        client, colon, secret = credential.partition(":")
        form = {
            "grant_type": "client_credentials",
            **({"client_id": client, "client_secret": secret} if colon else {"client_secret": client}),
            "scope": options.get("scope", "catalog"),
            **{key: options[key] for key in ("audience", "resource") if key in options},
        }
        url = options.get("oauth2-server-uri") or f"{self._place.uri.rstrip('/')}/v1/oauth/tokens"
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        answer = self._connections.send("POST", url, urlencode(form).encode(), headers)
        if answer.status >= 300:
            # To a wrong secret OAuth says 400.
            raise _parse_refusal(answer, 401 if answer.status == 400 else answer.status)
        with suppress(ValueError, TypeError, KeyError):
            return str(json.loads(answer.body)["access_token"])
        raise NoAnswer(url, "the answer holds no token")


def _format_query(query: Mapping[str, str] | None) -> str:
    return f"?{urlencode(query)}" if query else ""


def _parse_refusal(answer: Answer, status: int | None = None) -> RequestRefused:
    """What a server's answer says; a proxy before it may answer with a page."""
    code = status or answer.status
    with suppress(ValueError, TypeError, AttributeError):
        document = json.loads(answer.body)
        error = document.get("error")
        if isinstance(error, dict):
            return RequestRefused(code, str(error.get("type") or ""), str(error.get("message") or ""))
        return RequestRefused(code, str(error or ""), str(document.get("error_description") or ""))
    return RequestRefused(code, "", f"HTTP status {answer.status}")
