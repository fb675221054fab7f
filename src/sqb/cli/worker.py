"""One command, run by a process of the engine for the process that was called (see `sqb.engine.hand_over`).

A worker is forked for one command and ends with it: nothing of a command, be it a module, a variable or a crash,
reaches the next one.
"""

from __future__ import annotations

import array
import os
import random
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from sqb.engine.call import HEADER_LENGTH, MAX_CALL, Call, Stream, decode_call, describe_process
from sqb.engine.hand_over import read_peer

_SECONDS_TO_ASK = 5.0
_STREAMS = 3
# How a worker ends that was forked from code that is no longer there.
CODE_CHANGED = 17


class Refusal(Exception):
    """Why a call is left to the process that was called."""


def serve_call(connection: socket.socket, root: str, is_code_current: Callable[[], bool]) -> NoReturn:
    """Do what the process at the other end was called for, or let it do so itself; this process ends with it."""
    is_current = True
    try:
        call, streams = _receive_call(connection)
        _check_call(call, root)
        is_current = is_code_current()
        if not is_current:
            raise Refusal("sqb has changed since it was loaded")
        _take_place(call, streams)
    except (Refusal, OSError, ValueError, TypeError) as refusal:
        with suppress(OSError):
            connection.sendall(f"refused {refusal!r}\n".encode())
        os._exit(0 if is_current else CODE_CHANGED)
    try:
        connection.sendall(f"begun {os.getpid()}\n".encode())
    except OSError:
        os._exit(1)
    connection.settimeout(None)
    threading.Thread(target=_watch_client, args=(connection,), name="sqb-client", daemon=True).start()
    code = _run(call)
    with suppress(OSError):
        connection.sendall(f"ended {code}\n".encode())
    os._exit(code)


def _run(call: Call) -> int:
    from sqb.cli.main import run_process

    try:
        return run_process(call.arguments)
    except BaseException:
        # What comes this far would end the process that was called with its traceback.
        sys.excepthook(*sys.exc_info())
        return 1


def _receive_call(connection: socket.socket) -> tuple[Call, list[int]]:
    """The call, and the streams of the process that was called."""
    connection.settimeout(_SECONDS_TO_ASK)
    if read_peer(connection)[1] != os.geteuid():
        raise Refusal("it is of another user")
    streams = array.array("i")
    room = socket.CMSG_SPACE(_STREAMS * streams.itemsize)
    data, ancillary, _, _ = connection.recvmsg(65536, room)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            streams.frombytes(content[: len(content) - len(content) % streams.itemsize])
    if len(streams) != _STREAMS:
        raise Refusal("its streams did not come with it")
    while len(data) < HEADER_LENGTH:
        data += _receive(connection, HEADER_LENGTH)
    length = int(data[:HEADER_LENGTH])
    if not 0 < length <= MAX_CALL:
        raise Refusal("it is too long")
    parts, missing = [data[HEADER_LENGTH:]], length - (len(data) - HEADER_LENGTH)
    while missing > 0:
        part = _receive(connection, missing)
        parts.append(part)
        missing -= len(part)
    return decode_call(b"".join(parts)), list(streams)


def _receive(connection: socket.socket, size: int) -> bytes:
    part = connection.recv(min(size, 1 << 20))
    if not part:
        raise Refusal("it has gone")
    return part


def _check_call(call: Call, root: str) -> None:
    """Refuse what another process would not do as the one that was called."""
    if os.path.realpath(call.root) != root:
        raise Refusal("it is of another project")
    own = describe_process(dict(os.environ))
    for name, value in call.identity.items():
        if own.get(name) != value:
            raise Refusal(f"it has another {name}")
    if call.identity.keys() != own.keys():
        raise Refusal("it is of another sqb")


def _take_place(call: Call, streams: list[int]) -> None:
    """Be the process that was called: its folder, environment, streams and signals."""
    os.chdir(call.folder)
    os.umask(call.umask)
    _take_limits(call.limits)
    above = call.niceness - os.getpriority(os.PRIO_PROCESS, 0)
    if above > 0:
        os.nice(above)
    os.environ.clear()
    os.environ.update(call.environment)
    time.tzset()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        _open_stream(number, mode, stream)
        for number, (mode, stream) in enumerate(zip("rww", call.streams, strict=True))
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    sys.argv = [call.program, *call.arguments]
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # All workers are copies of one process; what they draw must not be the same.
    random.seed()
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _take_limits(limits: dict[str, tuple[int, int]]) -> None:
    """Have the limits of the process that was called; refuse what has more than this process may have."""
    for name, limit in limits.items():
        kind = getattr(resource, name)
        soft, hard = limit
        if resource.getrlimit(kind) == (soft, hard):
            continue
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError) as error:
            raise Refusal(f"it has another {name}") from error


def _open_stream(descriptor: int, mode: str, stream: Stream) -> Any:
    return open(
        descriptor,
        mode,
        # Python's own: a stream to a terminal is written line by line, standard error always is.
        buffering=1 if stream.line_buffering else -1,
        encoding=stream.encoding,
        errors=stream.errors,
        closefd=False,
    )


def _watch_client(connection: socket.socket) -> None:
    """End with the process that was called: whoever kills it means the work."""
    with suppress(OSError):
        while connection.recv(1):
            pass
    os._exit(1)
