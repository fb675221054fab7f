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

from sqb.lake.http_lines import Answer, Lines, NoAnswer
from sqb.project.place import Place

Item = TypeVar("Item")
Result = TypeVar("Result")

_AT_ONCE = 16
_CONNECT_MS, _READ_MS = "8000", "20000"
# How long a server that asks for patience is given, in all.
_PATIENCE_SECONDS = 10.0
_BUSY = (429, 503)
_SEPARATOR = "%1F"


class Refused(Exception):
    """A server answered, and not with what it was asked for."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}" if kind else message)
        self.status, self.kind, self.message = status, kind, message


@dataclass(frozen=True, slots=True)
class Settings:
    """What a server says of itself, and what the connection says beside it."""

    uri: str
    prefix: str
    separator: str
    properties: Mapping[str, str] = field(repr=False)
    # Such as `POST /v1/{prefix}/tables/rename`; None where the server does not tell.
    endpoints: frozenset[str] | None = None

    def offers(self, endpoint: str) -> bool:
        """Whether the server has an endpoint, as far as it tells."""
        return self.endpoints is None or endpoint in self.endpoints


class RestClient:
    """One catalog server."""

    def __init__(self, place: Place) -> None:
        self._place, self._options = place, place.options
        connect = int(self._options.get("rest.client.connection-timeout-ms", _CONNECT_MS))
        read = int(self._options.get("rest.client.socket-timeout-ms", _READ_MS))
        # In seconds: to be connected, and to get an answer.
        self.timeouts = (connect / 1000, read / 1000)
        self._lines = Lines(*self.timeouts)
        self._guard = threading.Lock()
        self._asking = threading.Lock()
        self._settings: Settings | None = None
        self._token = self._options.get("token")
        self._pool: ThreadPoolExecutor | None = None

    def settings(self) -> Settings:
        """What the server is set to, asked once."""
        with self._asking:
            if self._settings is None:
                self._settings = self._ask_settings()
            return self._settings

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What stands at a path of the catalog."""
        return self._json("GET", self._catalog_url(path, query))

    def find(self, path: str) -> dict[str, Any] | None:
        """The same; None where nothing is."""
        try:
            return self.get(path)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def pages(self, path: str, key: str, query: Mapping[str, str] | None = None) -> Iterator[Any]:
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
        return self._json("POST", self._catalog_url(path), json.dumps(body).encode())

    def delete(self, path: str) -> bool:
        """Remove what stands at a path of the catalog; False where nothing was."""
        try:
            self._json("DELETE", self._catalog_url(path))
        except Refused as error:
            if error.status == 404:
                return False
            raise
        return True

    def at_once(self, ask: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Ask many things side by side; the answers are in their order."""
        wanted = list(items)
        if len(wanted) < 2:
            return [ask(item) for item in wanted]
        with self._guard:
            pool = self._pool = self._pool or ThreadPoolExecutor(_AT_ONCE, "sqb-rest")
        futures = [pool.submit(ask, item) for item in wanted]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def hurry(self, seconds: float) -> AbstractContextManager[None]:
        """Wait no longer than this for what this thread asks meanwhile: a server that was silent is asked once more."""
        return self._lines.hurry(seconds)

    def joined(self, schema: str) -> str:
        """The name of a schema as one part of a path."""
        return quote(self.named(schema), safe="")

    def named(self, schema: str) -> str:
        """The name of a schema as a value of a query."""
        return self.settings().separator.join(schema.split("."))

    def close(self) -> None:
        """Let go of connections and threads."""
        with self._guard:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
        self._lines.close()

    def _ask_settings(self) -> Settings:
        uri, warehouse = self._place.uri.rstrip("/"), self._place.warehouse
        asked = {"warehouse": warehouse} if warehouse else {}
        said = self._json("GET", f"{uri}/v1/config{_query(asked)}")
        defaults, overrides = said.get("defaults") or {}, said.get("overrides") or {}
        properties = {**defaults, "uri": uri, **asked, **self._options, **overrides}
        endpoints = said.get("endpoints")
        return Settings(
            str(properties["uri"]).rstrip("/"),
            str(properties.get("prefix") or "").strip("/"),
            unquote(str(properties.get("namespace-separator") or _SEPARATOR)),
            {str(k): str(v) for k, v in properties.items() if v is not None},
            frozenset(endpoints) if endpoints else None,
        )

    def _catalog_url(self, path: str, query: Mapping[str, str] | None = None) -> str:
        settings = self.settings()
        prefix = f"{settings.prefix}/" if settings.prefix else ""
        return f"{settings.uri}/v1/{prefix}{path}{_query(query)}"

    def _json(self, method: str, url: str, body: bytes | None = None) -> dict[str, Any]:
        answer = self._asked(method, url, body)
        if not answer.body:
            return {}
        with suppress(ValueError):
            found = json.loads(answer.body)
            if isinstance(found, dict):
                return found
        raise NoAnswer(url, "the answer is not one of an Iceberg REST catalog")

    def _asked(self, method: str, url: str, body: bytes | None) -> Answer:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        wait, renewed = 0.2, False
        while True:
            token = self.bearer()
            answer = self._lines.send(method, url, body, self._headers(token))
            if answer.status < 300:
                return answer
            if answer.status == 401 and not renewed and "credential" in self._options:
                # It may have expired.
                self.renew(token)
                renewed = True
                continue
            pause = max(answer.retry_after, wait)
            if answer.status not in _BUSY or time.monotonic() + pause > deadline:
                raise _refusal(answer)
            time.sleep(pause)
            wait *= 2

    def _headers(self, token: str | None) -> dict[str, str]:
        given = {k.removeprefix("header."): v for k, v in self._options.items() if k.startswith("header.")}
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return {"Accept": "application/json", "Content-Type": "application/json", **bearer, **given}

    # --- tokens ---------------------------------------------------------------------------------------------------

    def bearer(self) -> str | None:
        """The token that requests carry; None where they carry none."""
        with self._guard:
            if self._token is None and "credential" in self._options:
                self._token = self._fetch_token(self._options["credential"])
            return self._token

    def renew(self, old: str | None = None) -> None:
        """Get another token for the next request, unless somebody has got one in the place of `old` already."""
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
        answer = self._lines.send("POST", url, urlencode(form).encode(), headers)
        if answer.status >= 300:
            # To a wrong secret OAuth says 400.
            raise _refusal(answer, 401 if answer.status == 400 else answer.status)
        with suppress(ValueError, TypeError, KeyError):
            return str(json.loads(answer.body)["access_token"])
        raise NoAnswer(url, "the answer holds no token")


def _query(query: Mapping[str, str] | None) -> str:
    return f"?{urlencode(query)}" if query else ""


def _refusal(answer: Answer, status: int | None = None) -> Refused:
    """What a server's answer says; a proxy before it may answer with a page."""
    told = status or answer.status
    with suppress(ValueError, TypeError, AttributeError):
        found = json.loads(answer.body)
        error = found.get("error")
        if isinstance(error, dict):
            return Refused(told, str(error.get("type") or ""), str(error.get("message") or ""))
        return Refused(told, str(error or ""), str(found.get("error_description") or ""))
    return Refused(told, "", f"HTTP status {answer.status}")
