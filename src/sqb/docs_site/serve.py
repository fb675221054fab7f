"""The pages on a port of this machine: renewed when files or tables change, and browsers then reload them."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sqb.docs_site.write import MARK
from sqb.errors.base import SqbError
from sqb.errors.call import CallError
from sqb.lake.open import open_lake
from sqb.workspace import Workspace

EVENTS = "/sqb-events"
_LIVE = b'<script src="/assets/live.js"></script></body>'
# Folders that no page depends on, or whose changes the catalog tells.
_NOT_WATCHED = frozenset({".sqb", ".git", "lake", "__pycache__", "node_modules", ".venv"})
_PAUSE = 1.0
_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Changes:
    """How often the pages were renewed, and what kept them from it: browsers wait for the next change."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0
        self._problem = ""
        self.is_ended = False

    def announce(self, problem: str = "") -> None:
        """Tell that the pages are new, or why they could not be renewed."""
        with self._changed:
            self._number += 1
            self._problem = problem
            self._changed.notify_all()

    def end(self) -> None:
        """Let all who wait go."""
        with self._changed:
            self.is_ended = True
            self._changed.notify_all()

    def wait(self, number: int, seconds: float) -> tuple[int, str]:
        """The number of the newest change, after at most so long, and the problem with it."""
        with self._changed:
            self._changed.wait_for(lambda: self._number != number or self.is_ended, seconds)
            return self._number, self._problem

    @property
    def number(self) -> int:
        return self._number


class _Handler(SimpleHTTPRequestHandler):
    """Sends files of the folder, and events; only to this machine, whatever name a page elsewhere gives it."""

    def __init__(self, *args: Any, changes: Changes, **keywords: Any) -> None:
        self._changes = changes
        super().__init__(*args, **keywords)

    def do_GET(self) -> None:
        if (self.headers.get("Host") or "").rpartition(":")[0] not in _HOSTS:
            self.send_error(403, "this server is for this machine alone")
        elif self.path == EVENTS:
            self._send_events()
        elif self.path.partition("?")[0].endswith((".html", "/")):
            self._send_page()
        else:
            super().do_GET()

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def _send_page(self) -> None:
        """A page with the script that waits for the next change."""
        path = Path(self.translate_path(self.path))
        try:
            content = (path / "index.html" if path.is_dir() else path).read_bytes()
        except OSError:
            self.send_error(404)
            return
        content = content.replace(b"</body>", _LIVE, 1)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send_events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        number = self._changes.number
        with suppress(OSError):
            while not self._changes.is_ended:
                latest, problem = self._changes.wait(number, 15.0)
                if latest == number:
                    self.wfile.write(b": still here\n\n")
                else:
                    lines = "".join(f"data: {line}\n" for line in problem.splitlines()) or "data:\n"
                    self.wfile.write(f"event: {'problem' if problem else 'change'}\n{lines}\n".encode())
                self.wfile.flush()
                number = latest

    def log_message(self, format: str, *args: Any) -> None:
        return


def serve_site(
    workspace: Workspace,
    folder: Path,
    port: int,
    rebuild: Callable[[], None],
    announce: Callable[[str], None],
    report: Callable[[str], None],
    known: str | None = None,
    pause: float = _PAUSE,
) -> None:
    """Serve a folder on loopback until Ctrl-C; `rebuild` writes it again when the stamp is no longer the known one."""
    changes = Changes()
    handler = partial(_Handler, directory=str(folder), changes=changes)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise CallError(
            f"port {port} cannot be used: {error.strerror}", hint="name another with --port, or 0"
        ) from error
    server.daemon_threads = True
    arguments = (workspace, rebuild, changes, report, known, pause)
    watcher = threading.Thread(target=watch, args=arguments, name="docs-watch", daemon=True)
    watcher.start()
    announce(f"http://127.0.0.1:{server.server_address[1]}/")
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        changes.end()
        server.server_close()


def watch(
    workspace: Workspace,
    rebuild: Callable[[], None],
    changes: Changes,
    report: Callable[[str], None],
    known: str | None = None,
    pause: float = _PAUSE,
) -> None:
    """Renew the pages whenever files of the project or tables have changed."""
    known = known or compute_stamp(workspace)
    took = 0.0
    while not changes.is_ended:
        # While a build commits table after table, the pages do not take more than half of a processor.
        time.sleep(max(pause, took))
        stamp = compute_stamp(workspace)
        if stamp == known:
            continue
        known = stamp
        began = time.monotonic()
        try:
            rebuild()
        except SqbError as error:
            changes.announce(error.message)
        except Exception as error:  # such as a file that vanished meanwhile: the next change is another chance
            changes.announce(f"the pages could not be renewed: {error}")
        else:
            report(f"renewed in {time.monotonic() - began:.1f}s")
            changes.announce()
        took = time.monotonic() - began


def compute_stamp(workspace: Workspace) -> str:
    """What changes when a file of the project or a table of the lake does."""
    marks = [f"{path}:{status.st_mtime_ns}:{status.st_size}" for path, status in _iter_files(str(workspace.root))]
    if workspace.virtual.enabled:
        # Environments may change without a table of their own.
        marks += [f"{p}:{p.stat().st_mtime_ns}" for p in sorted((workspace.root / "lake").glob("*.duckdb*"))]
    try:
        lake = open_lake(workspace)
        marks += sorted(f"{p.relation}={p.location}" for p in lake.list_pointers().values()) if lake.exists() else []
    except (SqbError, OSError) as error:
        marks.append(str(error))
    return hashlib.sha256("\0".join(marks).encode("utf-8", "surrogatepass")).hexdigest()


def _iter_files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError):
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
        # Pages in the project's own folder: renewing them must not renew them again.
        for entry in entries if all(e.name != MARK for e in entries) else ():
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _NOT_WATCHED:
                    yield from _iter_files(entry.path)
            else:
                with suppress(OSError):
                    yield entry.path, entry.stat()
