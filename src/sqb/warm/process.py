"""What runs in the process behind a warm engine: `python -m sqb.warm.process ORDER`, started by `sqb.warm.starting`.

It says on a pipe how its start goes, one JSON object a line: {"progress": text}, then {"ready": true} or {"error": …}.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from sqb.errors import SqbError, flatten
from sqb.lake.runs import this_machine
from sqb.project.secrets import hide_known
from sqb.warm.description import Description, path_in
from sqb.warm.files import unwritable
from sqb.warm.processes import birth_of
from sqb.warm.supervisor import Server, Supervisor
from sqb.warm.wanted import wanted_by
from sqb.workspace import Home, open_home

# A server on the workspace's lake that wants the token; it tells what it waits for, and what it says goes to the log.
Serve = Callable[[Home, str, Path, Callable[[str], None]], Server]


@dataclass(frozen=True, slots=True)
class Order:
    """What the process is to do; there is no secret in it, for everybody can read the arguments of a process."""

    root: str
    target: str | None
    idle: float
    log: str
    # Descriptors that were handed down: the lock of whoever looks after the engine, and where to say how it goes.
    place: int
    reply: int

    def to_text(self) -> str:
        return json.dumps(asdict(self))


def run(order: Order, serve: Serve, warming: Sequence[str] = ()) -> int:
    """Start a server, describe it, let the command `warming` make it quick, and look after it until it ends."""
    signal.signal(signal.SIGTERM, _give_up)
    for number in (signal.SIGHUP, signal.SIGINT):
        # What is typed at the terminal where it was started, or becomes of it, is nothing to the engine.
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (order.place, order.reply):
        os.set_inheritable(descriptor, False)
    try:
        workspace = open_home(Path(order.root), order.target)
        supervisor = _started(workspace, order, serve)
    except SqbError as error:
        _say(order, {"error": [_data(one) for one in flatten(error)]})
        return 1
    _say(order, {"ready": True})
    os.close(order.reply)
    helper = _launch(workspace, warming) if warming else None
    supervisor.watch()
    if helper is not None:
        helper.kill()
    return 0


def _launch(workspace: Home, warming: Sequence[str]) -> subprocess.Popen[bytes]:
    place = workspace.place
    # Looking into a catalog that is not there would make one.
    lake = place.name if place.database is None or place.database.exists() else ""
    return subprocess.Popen([*warming, str(path_in(workspace.folder)), lake], stdin=subprocess.DEVNULL)


def _started(workspace: Home, order: Order, serve: Serve) -> Supervisor:
    wanted = wanted_by(workspace)
    token = secrets.token_urlsafe(32)
    # Where the command was given means nothing to those who use the engine later.
    os.chdir(workspace.root)
    server = serve(workspace, token, Path(order.log), lambda text: _say(order, {"progress": text}))
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    description = Description(
        **asdict(wanted),
        host=this_machine(),
        pid=os.getpid(),
        born=birth_of(os.getpid()),
        server_pid=server.pid,
        server_born=birth_of(server.pid),
        port=server.port,
        token=token,
        since=time.time(),
        idle=order.idle,
        log=order.log,
        target=order.target,
    )
    try:
        return Supervisor(workspace.folder, server, description, lambda: os.close(order.place), lambda: bool(asked))
    except OSError as error:
        server.stop()
        raise unwritable(workspace.folder, error) from error


def _say(order: Order, message: dict[str, Any]) -> None:
    # Whoever started it may have gone; then it is an engine all the same.
    with suppress(OSError):
        os.write(order.reply, json.dumps(message).encode() + b"\n")


def _data(error: SqbError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


def _give_up(*_: Any) -> NoReturn:
    raise SystemExit(1)


def main() -> int:
    """The process, with a Spark of its own."""
    from sqb.spark.server import serve  # what tests start in its place needs no Spark
    from sqb.warm.warming import COMMAND

    try:
        return run(Order(**json.loads(sys.argv[1])), serve, COMMAND)
    except Exception as error:
        # What it prints goes to its log.
        print(hide_known("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
