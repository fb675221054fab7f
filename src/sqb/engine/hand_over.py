"""The thin client: a command is handed to a worker of the engine, which has loaded everything already.

The worker gets this process's own streams, so it writes where this process would, to a terminal as to a file. What is
left here is to pass signals on and to end with the worker's exit code. Whenever a worker cannot do exactly what this
process would do, this process does it: nothing has begun until the worker has said so.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import struct
import sys
import time
from typing import Any

from sqb.engine.call import SOCKET, Call, Stream, describe_process, encode_call, read_limits

VARIABLE = "SQB_ENGINE"
# Commands that may need Spark, or that plan. Those about the engine itself and those that ask are not among them.
COMMANDS = frozenset(
    "build run load plan test validate list ls compile query show freshness diff".split()  # noqa: SIM905
)
_PROJECT_FILE = "sqlbuild_project.toml"
_SECONDS_TO_ANSWER = 5.0
# What the path of a socket may be long.
_MAX_PATH = 100
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def hand_over(arguments: list[str]) -> int | None:
    """The exit code of a command that a worker has run; None when this process is to run it.

    Raises WorkerLost when the worker has gone in the middle of it.
    """
    if not arguments or arguments[0] not in COMMANDS or os.environ.get(VARIABLE, "").lower() == "off":
        return None
    try:
        connection, call = _connect(arguments)
    except (OSError, ValueError):
        return None
    try:
        worker = _start_work(connection, call)
        if worker is None:
            return None
        return _Work(connection, worker).wait()
    finally:
        connection.close()


def _connect(arguments: list[str]) -> tuple[socket.socket, Call]:
    folder = os.getcwd()
    root = _find_root(os.path.join(folder, _read_project_dir(arguments)))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _connect_to(connection, os.path.join(root, ".sqb"))
        call = Call(
            arguments=arguments,
            program=sys.argv[0],
            root=root,
            folder=folder,
            environment=dict(os.environ),
            umask=_read_umask(),
            niceness=os.getpriority(os.PRIO_PROCESS, 0),
            limits=read_limits(),
            streams=[_describe_stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
            identity=describe_process(dict(os.environ)),
        )
        return connection, call
    except BaseException:
        connection.close()
        raise


def _read_project_dir(arguments: list[str]) -> str:
    for index, argument in enumerate(arguments):
        if argument == "--project-dir" and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith("--project-dir="):
            return argument.partition("=")[2]
    return "."


def _find_root(start: str) -> str:
    folder = os.path.normpath(start)
    if not os.path.isdir(folder):
        raise ValueError(folder)
    while not os.path.isfile(os.path.join(folder, _PROJECT_FILE)):
        above = os.path.dirname(folder)
        if above == folder:
            raise ValueError(start)
        folder = above
    return folder


def _connect_to(connection: socket.socket, folder: str) -> None:
    path = os.path.join(folder, SOCKET)
    # The environment is sent, and may hold secrets: only to a process of this very user.
    if os.lstat(path).st_uid != os.geteuid():
        raise ValueError(path)
    connection.settimeout(_SECONDS_TO_ANSWER)
    if len(os.fsencode(path)) <= _MAX_PATH:
        connection.connect(path)
    else:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
        finally:
            os.close(descriptor)
    if read_peer(connection)[1] != os.geteuid():
        raise ValueError(path)


def read_peer(connection: socket.socket) -> tuple[int, int]:
    """The process at the other end of a connection, 0 where it is not one of ours, and its user."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        # The file's permissions keep others out.
        return 1, os.geteuid()
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return pid, user


def _read_umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _describe_stream(stream: Any) -> Stream:
    if stream is None:
        raise ValueError("a closed stream")
    return Stream(stream.encoding, stream.errors, stream.line_buffering)


def _start_work(connection: socket.socket, call: Call) -> int | None:
    """The process that has begun to work; None when there is none that can."""
    streams = array.array("i", (0, 1, 2))
    data = encode_call(call)
    try:
        sent = connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        connection.sendall(data[sent:])
        answer = _read_line(connection)
    except OSError:
        return None
    word, _, pid = answer.partition(" ")
    return int(pid) if word == "begun" else None


def _read_line(connection: socket.socket) -> str:
    """A line that the worker says; empty when it says nothing any more."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            return ""
        line += part
    return line.decode().strip()


class _Work:
    """A command that a worker runs: signals are passed on to it, and its exit code is that of this process."""

    def __init__(self, connection: socket.socket, worker: int) -> None:
        self._connection, self._worker = connection, worker
        self._passed_on: list[int] = []

    def wait(self) -> int:
        """Wait for the end of the worker's work."""
        self._connection.settimeout(None)
        for number in _FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)
        signal.signal(signal.SIGTSTP, self._pause)
        try:
            answer = _read_line(self._connection)
        except OSError:
            answer = ""
        word, _, code = answer.partition(" ")
        return int(code) if word == "ended" else self._explain_loss()

    def _pass_on(self, number: int, frame: object) -> None:
        self._passed_on.append(number)
        self._send(number)

    def _pause(self, number: int, frame: object) -> None:
        """Stop the worker too, as Ctrl-Z stops all of a command, and let it go on with this process."""
        self._send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        try:
            os.kill(self._worker, number)
        except OSError:
            # It has just ended, which is noticed by whoever reads its answer.
            return

    def _explain_loss(self) -> int:
        """A worker that went without a word: by a signal that was passed on, or by mishap."""
        for number in self._passed_on:
            if number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
                time.sleep(1)
        if not self._passed_on:
            from sqb.errors.spark import WorkerLost  # few commands meet it

            raise WorkerLost(
                "the engine's process that ran this command ended without an answer",
                hint="it was killed, perhaps for its memory; run the command again: only what is missing runs",
            )
        return 1
