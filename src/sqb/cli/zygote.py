"""The process that workers of the engine are forked from: it loads what commands need, and does nothing else.

It has no threads, no connections and no work, so that a fork of it is as good as a new process that has loaded the
same. One worker always waits for the next call. `python -m sqb.cli.zygote ROOT`; it ends when its input is closed.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from sqb.cache.files import PACKAGE, stamp_code
from sqb.cli.worker import CODE_CHANGED, serve_call
from sqb.engine.call import SOCKET

_MOST_WAITING = 64
# A worker that ends before it has served a command is replaced, but not for ever.
_MOST_LOST = 5
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
# What a build on the engine has loaded at its end. Where one of them is missing, a worker loads what it needs by
# itself, and says so in the words of a command without an engine.
_MODULES = (
    "click",
    "rich.console",
    "rich.live",
    "sqlglot",
    "sqlglot.dialects.spark",
    "pyarrow",
    "pyarrow.parquet",
    "pyarrow.csv",
    "pyarrow.compute",
    "pyiceberg.catalog.sql",
    "pyiceberg.table",
    "pandas",
    "grpc",
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.functions",
    "pyspark.sql.functions",
)


def main() -> None:
    """Load what commands need, and fork workers until the engine ends."""
    root = Path(sys.argv[1]).resolve()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before anything is loaded: what is edited meanwhile counts as changed.
    stamp = stamp_installation()
    with _without_threads():
        _load_modules()
    gc.collect()
    gc.freeze()
    _Zygote(root, stamp).run()


def stamp_installation() -> str:
    """What changes when sqb or a package beside it changes: the files of the one, the folders of the others."""
    names = sorted(
        e.name for e in os.scandir(PACKAGE) if e.name.endswith(".py") or (PACKAGE / e.name / "__init__.py").exists()
    )
    folders = tuple(Path(place) for place in sys.path if os.path.isdir(place))
    return stamp_code(*names, also=folders)


@contextmanager
def _without_threads() -> Iterator[None]:
    """Keep libraries from starting threads when they are loaded: a fork has none of them."""
    before = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_BLAS_THREADS]
        else:
            os.environ[_BLAS_THREADS] = before


def _load_modules() -> None:
    own = (
        ".".join(("sqb", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
        if not {"example", "examples", "lsp"} & set(path.relative_to(PACKAGE).parts)
    )
    for name in (*_MODULES, *own):
        # Who needs a module reports what it lacks.
        with suppress(Exception):
            import_module(name)


class _Zygote:
    """A socket, and a worker that waits there."""

    def __init__(self, root: Path, stamp: str) -> None:
        self._root, self._stamp = str(root), stamp
        self._path = root / ".sqb" / SOCKET
        self._listener = _listen(self._path)
        # Workers that wait end when no process holds the other end any more.
        self._alive, self._held = os.pipe()
        self._child_ended, waking = os.pipe()
        os.set_blocking(self._child_ended, False)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Keep one worker waiting until standard input is closed."""
        inode = os.stat(self._path).st_ino
        lost = 0
        while lost < _MOST_LOST:
            began = self._fork()
            is_asked_to_end, has_call = self._wait(began)
            os.close(began)
            if is_asked_to_end:
                break
            lost = 0 if has_call else lost + 1
        with suppress(OSError):
            # Another engine may listen there by now.
            if os.stat(self._path).st_ino == inode:
                os.unlink(self._path)

    def _wait(self, began: int) -> tuple[bool, bool]:
        """Wait until the worker has a call or is lost, or all is to end."""
        poll = select.poll()
        for descriptor in (began, 0, self._child_ended):
            poll.register(descriptor, select.POLLIN)
        while True:
            events = dict(poll.poll())
            if self._child_ended in events:
                with suppress(BlockingIOError):
                    os.read(self._child_ended, 4096)
                self._reap()
            if 0 in events and not os.read(0, 1):
                return True, False
            if began in events:
                return False, bool(os.read(began, 1))

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                worker, status = os.waitpid(-1, os.WNOHANG)
                if not worker:
                    return
                if os.waitstatus_to_exitcode(status) == CODE_CHANGED:
                    # Everything is loaded anew; who has asked meanwhile is served afterwards.
                    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    def _fork(self) -> int:
        began, beginning = os.pipe()
        if os.fork() == 0:
            signal.set_wakeup_fd(-1)
            os.close(began)
            os.close(self._held)
            self._serve(beginning)
        os.close(beginning)
        return began

    def _serve(self, beginning: int) -> NoReturn:
        """Wait for a call, in a worker, and do it."""
        try:
            os.setpgid(0, 0)
            poll = select.poll()
            poll.register(self._listener, select.POLLIN)
            poll.register(self._alive, select.POLLIN)
            while self._alive not in dict(poll.poll()):
                with suppress(BlockingIOError):
                    connection, _ = self._listener.accept()
                    os.write(beginning, b"b")
                    for descriptor in (beginning, self._alive, self._listener.detach()):
                        os.close(descriptor)
                    serve_call(connection, self._root, self._is_current)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def _is_current(self) -> bool:
        return stamp_installation() == self._stamp


def _listen(path: Path) -> socket.socket:
    """A socket that only its owner may connect to, in the place of one that another engine left."""
    # The path of a socket may be about a hundred characters long; that of a project may be longer.
    os.chdir(path.parent)
    name = f".{path.name}.{os.getpid()}"
    os.umask(0o177)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(FileNotFoundError):
        os.unlink(name)
    listener.bind(name)
    listener.listen(_MOST_WAITING)
    listener.setblocking(False)
    os.rename(name, path.name)
    return listener


if __name__ == "__main__":
    main()
