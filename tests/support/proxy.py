"""A network that a test can cut: a proxy on loopback before a real server."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Passes bytes on until it is told not to."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        # What goes through it, or is held back for as long as it is not set.
        self._flowing = threading.Event()
        self._flowing.set()
        self.port = 0
        self.mend()

    def mend(self) -> None:
        """Let everything through, at the same port as ever."""
        self._flowing.set()
        self._server = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._end_all()

    def swallow(self) -> None:
        """Let connections stand, and nothing through: as a router does that lost its other side."""
        self._flowing.clear()

    def close(self) -> None:
        self.cut()
        self._flowing.set()

    def _end_all(self) -> None:
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                here, _ = server.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            with self._lock:
                self._open |= {here, there}
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                self._flowing.wait()
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
