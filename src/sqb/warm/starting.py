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

from sqb.errors import Errors, SparkDidNotStart, SqbError
from sqb.errors_connections import SparkUnfit
from sqb.errors_engine import EngineUnneeded
from sqb.warm.description import Description, path_in, read
from sqb.warm.files import unwritable
from sqb.warm.locks import take_place
from sqb.warm.process import Order
from sqb.warm.processes import birth_of, kill
from sqb.warm.state import Found, look
from sqb.warm.stopping import refuse_elsewhere, take_out_of_use
from sqb.warm.wanted import wanted_by
from sqb.workspace import Home

IDLE = 30 * 60.0
# Without the current folder among the places of modules: a project may hold files of any name.
COMMAND = (sys.executable, "-P", "-m", "sqb.warm.process")
_NEEDED = ("grpc", "grpc_status", "google.protobuf", "pandas", "zstandard")
_PAUSE = 0.1
_SECONDS_TO_END = 10.0
_SECONDS_TO_LET_GO = 10.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Started:
    """An engine that runs; `instead` says what was wrong with the one that it replaces, if there was one."""

    description: Description
    is_new: bool
    instead: str = ""


def start(workspace: Home, target: str | None, idle: float, tell: Tell, command: Sequence[str] = COMMAND) -> Started:
    """Have an engine that serves builds of the project: the one that runs, or a new one."""
    refuse_unneeded(workspace)
    folder, wanted = workspace.folder, wanted_by(workspace)
    try:
        folder.mkdir(exist_ok=True)
        instead, told = "", False
        while True:
            found = look(folder, wanted)
            if found.status == "running" and found.description is not None:
                return Started(found.description, False, instead)
            place = _free_place(folder, found) if found.status != "starting" else None
            if place is None:
                if not told:
                    tell("waiting for another start that is under way")
                told = True
                time.sleep(_PAUSE)
                continue
            instead = found.why
            log = folder / "logs" / f"engine_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{os.urandom(3).hex()}.log"
            return Started(_started(workspace, target, idle, log, place, tell, command), True, instead)
    except OSError as error:
        raise unwritable(folder, error) from error


def refuse_unneeded(workspace: Home) -> None:
    """Refuse an engine where none can be, or none is needed."""
    connection = workspace.connection
    if connection.spark.remote:
        raise EngineUnneeded(
            f"the connection {connection.name} works on a Spark Connect server, which runs already",
            hint="builds use that server; an engine is for connections that start a Spark of their own",
            at=connection.catalog.at,
        )
    missing = [name for name in _NEEDED if not _is_there(name)]
    if missing:
        raise SparkUnfit(
            f"the engine is reached through Spark Connect, which needs {', '.join(missing)}",
            hint="install them with `pip install 'sqb-spark[connect]'`",
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _free_place(folder: Path, found: Found) -> int | None:
    """The place of the one who looks after the engine, after whoever had it was asked to leave; None if it is taken."""
    old = found.description
    if old is None:
        return take_place(folder)
    refuse_elsewhere(folder, old)
    take_out_of_use(folder, old)
    until = time.monotonic() + _SECONDS_TO_LET_GO
    while (place := take_place(folder)) is None:
        if time.monotonic() > until:
            # It hangs, or was stopped; the server ends with it.
            kill(old.pid, old.born)
            return take_place(folder)
        time.sleep(_PAUSE)
    if found.status == "dead" and old.is_here:
        kill(old.server_pid, old.server_born)
    return place


def _started(
    workspace: Home, target: str | None, idle: float, log: Path, place: int, tell: Tell, command: Sequence[str]
) -> Description:
    with _closing(place):
        log.parent.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        with open(reading) as replies:
            with _closing(writing):
                order = Order(str(workspace.root), target, idle, str(log), place, writing)
                process = _launch([*command, order.to_text()], log, (place, writing))
            # Whoever wants to stop a start must know whom to ask.
            os.pwrite(place, f"{process.pid} {birth_of(process.pid)}\n".encode(), 0)
            _await(process, replies, log, tell)
    found = read(path_in(workspace.folder))
    if found is None or found.pid != process.pid:
        raise SparkDidNotStart("the engine was stopped while it was starting", hint="start it again")
    return found


def _launch(command: Sequence[str], log: Path, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    # What Spark and its libraries say may repeat what they were given: only the owner reads it.
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as words:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            pass_fds=descriptors,
            # Neither Ctrl-C nor the end of the terminal reaches it.
            start_new_session=True,
        )


def _await(process: subprocess.Popen[bytes], replies: Any, log: Path, tell: Tell) -> None:
    """Wait until the engine is ready; whatever keeps one from waiting ends it."""
    try:
        for line in replies:
            said = json.loads(line)
            if "progress" in said:
                tell(said["progress"])
            elif "error" in said:
                raise _heard(said["error"])
            else:
                return
        raise SparkDidNotStart("the process of the engine ended while it was starting", hint=f"its log is {log}")
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        process.kill()
        raise


def _heard(said: Sequence[Any]) -> SqbError:
    errors = Errors()
    for one in said:
        errors.add(_kind_of(one["code"])(one["message"], hint=one["hint"]))
    try:
        errors.raise_any()
    except SqbError as error:
        return error
    return SparkDidNotStart("the engine did not start")


def _kind_of(code: str, root: type[SqbError] = SqbError) -> type[SqbError]:
    """The class of an error that another process met, by its code."""
    waiting = [root]
    while waiting:
        kind = waiting.pop()
        if kind.code == code and "code" in vars(kind):
            return kind
        waiting += kind.__subclasses__()
    return SparkDidNotStart


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)
