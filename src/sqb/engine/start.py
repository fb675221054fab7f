"""Starting the engine of a project: one at a time, in a process that outlives the command and its terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqb.engine.call import list_start_environment
from sqb.engine.descriptor import EngineDescriptor, build_unwritable_error, get_path, read_descriptor
from sqb.engine.locks import acquire_supervision
from sqb.engine.process_identity import kill, read_start_time
from sqb.engine.server import ServerRequest
from sqb.engine.settings_hash import compute_requirements
from sqb.engine.status import EngineState, inspect_engine
from sqb.engine.stop import refuse_other_machine, withdraw_engine
from sqb.errors.base import Errors, SqbError
from sqb.errors.connections import SparkUnfit
from sqb.errors.spark import EngineUnneeded, SparkDidNotStart
from sqb.workspace import ProjectHome

DEFAULT_IDLE_SECONDS = 30 * 60.0
# Without the current folder among the places of modules: a project may hold files of any name.
COMMAND = (sys.executable, "-P", "-m", "sqb.engine.server")
_REQUIRED_MODULES = ("grpc", "grpc_status", "google.protobuf", "pandas", "zstandard")
_POLL_SECONDS = 0.1
_SECONDS_TO_END = 10.0
_SECONDS_TO_RELEASE = 10.0

# Nobody waits for them; Python would complain of a process that it forgets.
_LAUNCHED: list[subprocess.Popen[bytes]] = []

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """An engine that runs; `instead` says what was wrong with the one that it replaces, if there was one."""

    description: EngineDescriptor
    is_new: bool
    replaced_reason: str = ""


def start_engine(
    workspace: ProjectHome, target: str | None, idle: float, report: Report, command: Sequence[str] = COMMAND
) -> StartedEngine:
    """Have an engine that serves builds of the project: the one that runs, or a new one."""
    refuse_unneeded(workspace)
    folder, requirements = workspace.folder, compute_requirements(workspace)
    try:
        folder.mkdir(exist_ok=True)
        replaced_reason, is_reported = "", False
        while True:
            state = inspect_engine(folder, requirements)
            if state.status == "running" and state.description is not None:
                return StartedEngine(state.description, False, replaced_reason)
            supervision_fd = _acquire_supervision(folder, state) if state.status != "starting" else None
            if supervision_fd is None:
                if not is_reported:
                    report("waiting for another start that is under way")
                is_reported = True
                time.sleep(_POLL_SECONDS)
                continue
            replaced_reason = state.reason
            with _close_after(supervision_fd):
                started = _start_server(workspace, target, idle, supervision_fd, report, command)
            return StartedEngine(started, True, replaced_reason)
    except OSError as error:
        raise build_unwritable_error(folder, error) from error


def launch_engine(workspace: ProjectHome, target: str | None, idle: float, command: Sequence[str] = COMMAND) -> bool:
    """Begin to start an engine where there is none, without waiting for it; whether that has begun. Raises OSError."""
    refuse_unneeded(workspace)
    folder = workspace.folder
    state = inspect_engine(folder, compute_requirements(workspace))
    if state.status not in ("stopped", "dead"):
        return False
    folder.mkdir(exist_ok=True)
    supervision_fd = _acquire_supervision(folder, state)
    if supervision_fd is None:
        return False
    with _close_after(supervision_fd), open(os.devnull, "wb") as null:
        _LAUNCHED.append(
            _spawn_server(workspace, target, idle, _name_log(folder), supervision_fd, null.fileno(), command)
        )
    return True


def refuse_unneeded(workspace: ProjectHome) -> None:
    """Refuse an engine where none can be, or none is needed."""
    connection = workspace.connection
    if connection.spark.remote:
        raise EngineUnneeded(
            f"the connection {connection.name} works on a Spark Connect server, which runs already",
            hint="builds use that server; an engine is for connections that start a Spark of their own",
            at=connection.catalog.at,
        )
    missing = [name for name in _REQUIRED_MODULES if not _is_installed(name)]
    if missing:
        raise SparkUnfit(
            f"the engine is reached through Spark Connect, which needs {', '.join(missing)}",
            hint="they come with sqb: install it again, `pip install --upgrade sqb-spark`",
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _acquire_supervision(folder: Path, state: EngineState) -> int | None:
    """The place of the one who looks after the engine, after whoever had it was asked to leave; None if it is taken."""
    descriptor = state.description
    if descriptor is None:
        return acquire_supervision(folder)
    refuse_other_machine(folder, descriptor)
    withdraw_engine(folder, descriptor)
    deadline = time.monotonic() + _SECONDS_TO_RELEASE
    while (supervision_fd := acquire_supervision(folder)) is None:
        if time.monotonic() > deadline:
            # It hangs, or was stopped; the server ends with it.
            kill(descriptor.pid, descriptor.born)
            return acquire_supervision(folder)
        time.sleep(_POLL_SECONDS)
    if state.status == "dead" and descriptor.is_here:
        kill(descriptor.server_pid, descriptor.server_born)
    return supervision_fd


def _name_log(folder: Path) -> Path:
    return folder / "logs" / f"engine_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{os.urandom(3).hex()}.log"


def _spawn_server(
    workspace: ProjectHome,
    target: str | None,
    idle: float,
    log: Path,
    supervision_fd: int,
    reply_fd: int,
    command: Sequence[str],
) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    request = ServerRequest(str(workspace.root), target, idle, str(log), supervision_fd, reply_fd)
    process = _spawn([*command, request.to_json()], log, (supervision_fd, reply_fd))
    # Whoever wants to stop a start must know whom to ask.
    os.pwrite(supervision_fd, f"{process.pid} {read_start_time(process.pid)}\n".encode(), 0)
    return process


def _start_server(
    workspace: ProjectHome,
    target: str | None,
    idle: float,
    supervision_fd: int,
    report: Report,
    command: Sequence[str],
) -> EngineDescriptor:
    log = _name_log(workspace.folder)
    reading, writing = os.pipe()
    with open(reading) as replies:
        with _close_after(writing):
            process = _spawn_server(workspace, target, idle, log, supervision_fd, writing, command)
        _wait_until_ready(process, replies, log, report)
    descriptor = read_descriptor(get_path(workspace.folder))
    if descriptor is None or descriptor.pid != process.pid:
        raise SparkDidNotStart("the engine was stopped while it was starting", hint="start it again")
    return descriptor


def _spawn(command: Sequence[str], log: Path, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    # What Spark and its libraries say may repeat what they were given: only the owner reads it.
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log_file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            pass_fds=descriptors,
            env=list_start_environment(),
            # Neither Ctrl-C nor the end of the terminal reaches it.
            start_new_session=True,
        )


def _wait_until_ready(process: subprocess.Popen[bytes], replies: Any, log: Path, report: Report) -> None:
    """Wait until the engine is ready; whatever keeps one from waiting ends it."""
    try:
        for line in replies:
            reply = json.loads(line)
            if "progress" in reply:
                report(reply["progress"])
            elif "error" in reply:
                raise _decode_errors(reply["error"])
            else:
                return
        raise SparkDidNotStart("the process of the engine ended while it was starting", hint=f"its log is {log}")
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        process.kill()
        raise


def _decode_errors(encoded_errors: Sequence[Any]) -> SqbError:
    errors = Errors()
    for encoded in encoded_errors:
        errors.add(_find_error_class(encoded["code"])(encoded["message"], hint=encoded["hint"]))
    try:
        errors.raise_any()
    except SqbError as error:
        return error
    return SparkDidNotStart("the engine did not start")


def _find_error_class(code: str, root: type[SqbError] = SqbError) -> type[SqbError]:
    """The class of an error that another process met, by its code."""
    pending = [root]
    while pending:
        kind = pending.pop()
        if kind.code == code and "code" in vars(kind):
            return kind
        pending += kind.__subclasses__()
    return SparkDidNotStart


@contextmanager
def _close_after(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)
