"""An HTTP server on loopback that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Says:
    """One answer: JSON, or bytes as they are."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answering = Callable[[Asked], Says]


class ScriptedServer:
    """A running server."""

    def __init__(self, answering: Answering) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(self.command, self.path, dict(self.headers), body)
                server.asked.append(asked)
                says = answering(asked)
                self.send_response(says.status)
                for name, value in {"Content-Length": str(len(says.raw)), **says.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(says.raw)

            do_GET = do_POST = do_DELETE = _answer

            def log_message(self, *args: object) -> None:
                return None

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def scripted(answering: Answering) -> Iterator[ScriptedServer]:
    """A server for as long as the block lasts."""
    server = ScriptedServer(answering)
    try:
        yield server
    finally:
        server.close()


def refusal(status: int, kind: str, message: str) -> Says:
    """A refusal as the protocol has it."""
    return Says(status, {"error": {"message": message, "type": kind, "code": status}})
