"""The process behind a warm engine: it keeps a Spark Connect server running for as long as builds use it.

It ends the server when no build has used it for a while, when its description is gone (with the project, perhaps),
and when it is asked to; it ends itself when the server is gone. Only the process that started it waits for it, and
the one that asked it to end.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from sqb.engine.descriptor import EngineDescriptor, build_unwritable_error, get_path, write_descriptor
from sqb.engine.failures import forget_failure, record_failure
from sqb.engine.locks import hold_exclusively, is_claimed, is_same_file
from sqb.engine.process_identity import read_start_time
from sqb.engine.settings_hash import compute_requirements
from sqb.errors.base import SqbError, flatten
from sqb.lake.liveness.file import get_machine_name
from sqb.project.config.secrets import hide_known
from sqb.workspace import ProjectHome, open_project_home

_POLL_SECONDS = 0.25
_SECONDS_TO_END_WORKERS = 5.0
# Whoever builds again at once need not wait for the tidying.
_SECONDS_BEFORE_CLEANUP = 5.0
# The process whose forks run commands: above this package, and not loaded here. Threads of Spark do not survive a fork.
WORKER_COMMAND = (sys.executable, "-P", "-m", "sqb.cli.zygote")


class Server(Protocol):
    """A Spark Connect server of this process."""

    pid: int
    port: int

    def alive(self) -> bool: ...

    def stop(self) -> None: ...

    def tidy(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class SupervisionEnd:
    """Why a server ended: idle, removed (its description is gone), asked, worn, or lost (it ended by itself)."""

    reason: str


class Supervisor:
    """One server, described in one folder."""

    def __init__(
        self,
        folder: Path,
        server: Server,
        description: EngineDescriptor,
        release_supervision: Callable[[], None],
        is_stop_requested: Callable[[], bool],
        pause: float = _POLL_SECONDS,
        cleanup_after: float = _SECONDS_BEFORE_CLEANUP,
        end_workers: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = get_path(folder)
        self._server, self._description, self._release_supervision = server, description, release_supervision
        self._is_stop_requested, self._pause, self._cleanup_after = is_stop_requested, pause, cleanup_after
        self._is_clean, self._end_workers = True, end_workers
        # From here on builds find the engine.
        write_descriptor(self._path, description)
        self._file = os.open(self._path, os.O_RDONLY)
        self._last_used, self._touched = time.monotonic(), os.fstat(self._file).st_mtime_ns

    def watch(self) -> SupervisionEnd:
        """Look after the server until it is to end or has ended, and leave nothing of it behind but its log."""
        ended = self._wait_for_end()
        self._end_workers()
        if ended.reason not in ("lost", "worn"):
            # A description whose server is lost stays, and what stands for one that is worn: the next build then knows
            # that there is one to replace.
            self._remove_descriptor()
        self._release_supervision()
        if ended.reason in ("idle", "removed"):
            self._wait_for_users()
        self._server.stop()
        os.close(self._file)
        return ended

    def _wait_for_end(self) -> SupervisionEnd:
        while True:
            if self._is_stop_requested():
                return SupervisionEnd("asked")
            if not self._server.alive():
                return SupervisionEnd("lost")
            if not is_same_file(self._file, self._path):
                return SupervisionEnd("removed")
            idle = self._measure_idle_seconds()
            if idle >= self._description.idle:
                return SupervisionEnd("idle")
            if not self._is_clean and idle >= self._cleanup_after:
                self._is_clean = True
                if not self._server.tidy() and self._mark_worn():
                    return SupervisionEnd("worn")
            time.sleep(self._pause)

    def _measure_idle_seconds(self) -> float:
        """Measure for how long no build has used it, by the monotonic clock."""
        touched = os.fstat(self._file).st_mtime_ns
        if is_claimed(self._file) or touched != self._touched:
            self._last_used, self._touched, self._is_clean = time.monotonic(), touched, False
        return time.monotonic() - self._last_used

    def _remove_descriptor(self) -> None:
        # Another engine may have been described there by now.
        if is_same_file(self._file, self._path):
            with suppress(OSError):
                os.unlink(self._path)

    def _mark_worn(self) -> bool:
        """Replace the descriptor by one that no build can reach; False when a build has begun to use it."""
        with hold_exclusively(self._file) as free, suppress(OSError):
            # Whoever has looked already, and waits for the file, finds another one in its place.
            if free and is_same_file(self._file, self._path):
                write_descriptor(self._path, replace(self._description, port=0))
                return True
        return False

    def _wait_for_users(self) -> None:
        """Let those finish who have begun: they hold the file, which other processes no longer find."""
        while self._server.alive() and not self._is_stop_requested() and is_claimed(self._file):
            time.sleep(self._pause)


# A server on the workspace's lake that wants the token; it tells what it waits for, and what it says goes to the log.
Serve = Callable[[ProjectHome, str, Path, Callable[[str], None]], Server]


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What the process is to do; it holds no secret, as every user can read the arguments of a process."""

    root: str
    target: str | None
    idle: float
    log: str
    # Descriptors that were handed down: the lock of whoever looks after the engine, and where to say how it goes.
    supervision_fd: int
    reply_fd: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def run_server(
    request: ServerRequest, serve: Serve, warmup_command: Sequence[str] = (), worker_command: Sequence[str] = ()
) -> int:
    """Start a server, describe it, let a command warm it up, and look after it until it ends.

    Another command is the process whose workers do builds, while the engine is described.
    """
    signal.signal(signal.SIGTERM, _exit)
    for number in (signal.SIGHUP, signal.SIGINT):
        # What is typed at the terminal where it was started, or becomes of it, is nothing to the engine.
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (request.supervision_fd, request.reply_fd):
        os.set_inheritable(descriptor, False)
    with _keep_workers(Path(request.root), worker_command) as end_workers:
        try:
            workspace = open_project_home(Path(request.root), request.target)
            supervisor = _start_supervisor(workspace, request, serve, end_workers)
        except SqbError as error:
            record_failure(Path(request.root) / ".sqb", error.message)
            _send_reply(request, {"error": [_encode_error(member) for member in flatten(error)]})
            return 1
        forget_failure(workspace.folder)
        _send_reply(request, {"ready": True})
        os.close(request.reply_fd)
        helper = _launch_warmup(workspace, warmup_command) if warmup_command else None
        supervisor.watch()
        if helper is not None:
            helper.kill()
        return 0


@contextmanager
def _keep_workers(root: Path, command: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Have workers that take calls until the function that is given is called; those at work finish what they do."""
    if not command:
        yield lambda: None
        return
    # Started first: it has the environment that was handed down, and loads what it needs while Spark starts.
    workers = subprocess.Popen([*command, str(root)], stdin=subprocess.PIPE)
    assert workers.stdin is not None
    try:
        yield workers.stdin.close
    finally:
        workers.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            workers.wait(_SECONDS_TO_END_WORKERS)
        workers.kill()


def _launch_warmup(workspace: ProjectHome, warmup_command: Sequence[str]) -> subprocess.Popen[bytes]:
    place = workspace.lake_location
    # Looking into a catalog that is not there would make one.
    lake = place.name if place.database is None or place.database.exists() else ""
    return subprocess.Popen([*warmup_command, str(get_path(workspace.folder)), lake], stdin=subprocess.DEVNULL)


def _start_supervisor(
    workspace: ProjectHome, request: ServerRequest, serve: Serve, end_workers: Callable[[], None]
) -> Supervisor:
    requirements = compute_requirements(workspace)
    token = secrets.token_urlsafe(32)
    # Where the command was given means nothing to those who use the engine later.
    os.chdir(workspace.root)
    server = serve(workspace, token, Path(request.log), lambda text: _send_reply(request, {"progress": text}))
    stop_signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop_signals.append(number))
    description = EngineDescriptor(
        **asdict(requirements),
        host=get_machine_name(),
        pid=os.getpid(),
        born=read_start_time(os.getpid()),
        server_pid=server.pid,
        server_born=read_start_time(server.pid),
        port=server.port,
        token=token,
        since=time.time(),
        idle=request.idle,
        log=request.log,
        target=request.target,
    )
    try:
        return Supervisor(
            workspace.folder,
            server,
            description,
            lambda: os.close(request.supervision_fd),
            lambda: bool(stop_signals),
            end_workers=end_workers,
        )
    except OSError as error:
        server.stop()
        raise build_unwritable_error(workspace.folder, error) from error


def _send_reply(request: ServerRequest, message: dict[str, Any]) -> None:
    # Whoever started it may have gone; then it is an engine all the same.
    with suppress(OSError):
        os.write(request.reply_fd, json.dumps(message).encode() + b"\n")


def _encode_error(error: SqbError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


def _exit(*_: Any) -> NoReturn:
    raise SystemExit(1)


def main() -> int:
    """The process, with a Spark of its own."""
    from sqb.engine.warmup import COMMAND
    from sqb.spark.connect.server import start_server  # what tests start in its place needs no Spark

    try:
        return run_server(ServerRequest(**json.loads(sys.argv[1])), start_server, COMMAND, WORKER_COMMAND)
    except Exception as error:
        # What it prints goes to its log.
        print(hide_known("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        record_failure(Path(json.loads(sys.argv[1])["root"]) / ".sqb", f"{type(error).__name__}, see its log")
        return 1


if __name__ == "__main__":
    sys.exit(main())
