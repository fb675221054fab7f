"""Connections to HTTP servers that are kept open between requests, for any number of threads.

Only the standard library: planning on a catalog server must not wait for anything to be imported (see ARCHITECTURE.md).
"""

from __future__ import annotations

import os
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import socket
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_MAX_IDLE = 16


class NoAnswer(Exception):
    """A server could not be reached, or its answer was not HTTP."""

    def __init__(self, url: str, why: str, was_sent: bool = True) -> None:
        # The query of an address may be long, and may hold what is secret.
        super().__init__(f"{url.partition('?')[0]}: {why}")
        # Whether there was a connection, so that the server may have heard what was asked.
        self.was_sent = was_sent


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's response."""

    status: int
    body: bytes
    # The seconds for which it wants to be left alone.
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class _Proxy:
    host: str
    port: int | None
    # What tells the proxy who is asking.
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _PooledConnection:
    connection: HTTPConnection
    server: str
    # Whoever passes requests on, and so must be given the whole address; to TLS it is a tunnel, and nothing here.
    proxy: _Proxy | None = None


class ConnectionPool:
    """Open connections."""

    def __init__(self, connect_seconds: float, read_seconds: float) -> None:
        self._connect, self._read = connect_seconds, read_seconds
        self._idle: list[_PooledConnection] = []
        self._guard = threading.Lock()
        self._hurry = threading.local()

    @contextmanager
    def limit_wait(self, seconds: float) -> Iterator[None]:
        """Wait no longer than this for each answer that this thread asks for meanwhile."""
        self._hurry.seconds = seconds
        try:
            yield
        finally:
            del self._hurry.seconds

    def send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send one request and return the answer; raises `NoAnswer`.

        A connection that was idle may have been closed at its other end. Asking again does no harm where nothing is
        changed; for a change a new connection is made, so that the caller knows whether it was sent.
        """
        while True:
            idle = self._take_idle(url) if method == "GET" else None
            line = idle or self._open(url)
            connected = False
            try:
                if line.connection.sock is None:
                    line.connection.connect()
                connected = True
                return self._send_over(line, method, url, body, headers)
            except (OSError, HTTPException) as error:
                line.connection.close()
                if idle is None or isinstance(error, TimeoutError):
                    raise NoAnswer(url, _describe_error(error), connected) from error

    def close(self) -> None:
        """Close what is open and idle."""
        with self._guard:
            idle, self._idle = self._idle, []
        for line in idle:
            line.connection.close()

    def _send_over(
        self, line: _PooledConnection, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        connection = line.connection
        sock: socket | None = connection.sock
        assert sock is not None
        sock.settimeout(self._limit_timeout(self._read))
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        if line.proxy is not None:
            target, headers = url, {**headers, **line.proxy.headers}
        connection.request(method, target, body, dict(headers))
        answer = connection.getresponse()
        raw = answer.read()
        if answer.will_close:
            connection.close()
        else:
            self._return_idle(line)
        after = 0.0
        with suppress(ValueError):
            after = float(answer.getheader("Retry-After") or 0)
        return Answer(answer.status, raw, after)

    def _limit_timeout(self, seconds: float) -> float:
        return min(seconds, getattr(self._hurry, "seconds", seconds))

    def _take_idle(self, url: str) -> _PooledConnection | None:
        server = _get_server(url)
        with self._guard:
            for index in reversed(range(len(self._idle))):
                if self._idle[index].server == server:
                    return self._idle.pop(index)
        return None

    def _return_idle(self, line: _PooledConnection) -> None:
        with self._guard:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(line)
                return
        line.connection.close()

    def _open(self, url: str) -> _PooledConnection:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise NoAnswer(url, str(error), was_sent=False) from error
        if parts.scheme not in ("http", "https") or not host:
            raise NoAnswer(url, "this is not the address of a server", was_sent=False)
        proxy = _find_proxy(parts.scheme, host)
        at = (proxy.host, proxy.port) if proxy is not None else (host, port)
        seconds = self._limit_timeout(self._connect)
        if parts.scheme == "http":
            return _PooledConnection(HTTPConnection(*at, timeout=seconds), _get_server(url), proxy)
        connection = HTTPSConnection(*at, timeout=seconds, context=_build_tls_context())
        if proxy is not None:
            connection.set_tunnel(host, port, dict(proxy.headers))
        return _PooledConnection(connection, _get_server(url))


def _get_server(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _describe_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _find_proxy(scheme: str, host: str) -> _Proxy | None:
    address = getproxies().get(scheme)
    if not address or proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    headers = {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"} if parts.username else {}
    return _Proxy(parts.hostname or "", parts.port, headers)


@cache
def _build_tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # What pyiceberg's own client looks at: the two must trust the same servers.
    if bundle := os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE"):
        context.load_verify_locations(bundle)
    return context
