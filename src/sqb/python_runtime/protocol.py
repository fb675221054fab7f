"""The protocol between a build and the child that runs a node: JSON lines over two pipes.

The child asks, the build answers; the last thing that the child says is its answer. Loads nothing that takes time.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from sqb.errors import python
from sqb.errors.base import SqbError
from sqb.names import At
from sqb.project.config.secrets import hide_known

Message = Mapping[str, Any]

BEGAN = "began"
FOUND = "found"
ASK = "ask"
ANSWER = "answer"
DONE = "done"
# Where the child's interpreter writes its stack when it crashes or is told to.
STACK_FILE = "stack.txt"
# The code with which a child ends that cannot answer any more.
EXIT_CANNOT_ANSWER = 97
_CHUNK = 1 << 16
_PR_SET_PDEATHSIG = 1


def encode_message(message: Message) -> bytes:
    """A message as one line; what JSON does not know, such as a date in a variable, becomes text."""
    # Halves of characters cannot be printed later, and are replaced.
    return json.dumps(message, default=str, ensure_ascii=False).encode(errors="replace") + b"\n"


class LineDecoder:
    """Messages out of the pieces in which bytes arrive."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that these bytes complete; raises ValueError for what is none."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError(line)
            yield message


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however little the pipe takes at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


# --- errors on their way --------------------------------------------------------------------------------------------


def encode_place(at: At | None) -> list[Any] | None:
    """A place as JSON can hold it."""
    return [at.file, at.line, at.column, at.length] if at is not None else None


def decode_place(data: list[Any] | None) -> At | None:
    """The place that `place_data` was made of."""
    return At(*data) if data else None


def encode_error(error: SqbError, traceback: str = "") -> dict[str, Any]:
    """An error as JSON can hold it."""
    return {
        "class": type(error).__name__,
        "message": error.message,
        "at": encode_place(error.at),
        "hint": error.hint,
        "evidence": list(error.evidence),
        "traceback": traceback,
    }


class RemoteTraceback(Exception):
    """Where an error came from in the child, as text for `--debug`."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def decode_error(data: Message) -> SqbError:
    """The error that `error_data` was made of."""
    known = {c.__name__: c for c in _iter_subclasses(SqbError)}
    error = known.get(data["class"], python.NodeRaised)(
        # The child does not know what is secret of the Spark that it was lent.
        hide_known(data["message"]),
        at=decode_place(data["at"]),
        hint=data["hint"],
        evidence=data["evidence"],
    )
    if data["traceback"]:
        error.__cause__ = RemoteTraceback(data["traceback"])
    return error


def _iter_subclasses(root: type[SqbError]) -> Iterator[type[SqbError]]:
    for child in root.__subclasses__():
        yield child
        yield from _iter_subclasses(child)


# --- the child's end ------------------------------------------------------------------------------------------------


class Link:
    """The child's end: asks one thing at a time, and ends the process when the build is gone."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._owner = os.getpid()
        self._request_lock = threading.Lock()
        self._received: queue.SimpleQueue[Message] = queue.SimpleQueue()
        for descriptor in (incoming, outgoing):
            # What the node's code starts must not keep the pipes open.
            os.set_inheritable(descriptor, False)
        threading.Thread(target=self._listen, name="sqb-listen", daemon=True).start()

    @property
    def is_owner(self) -> bool:
        """Whether this is the process that the build started, not one that it forked."""
        return os.getpid() == self._owner

    def receive(self) -> Message:
        """The next message of the build."""
        return self._received.get()

    def send(self, message: Message) -> None:
        """Say something that needs no answer."""
        write_all(self._outgoing, encode_message(message))

    def request(self, request_name: str, **arguments: Any) -> Any:
        """What the build answers to a request; raises the error that it met."""
        if not self.is_owner:
            raise python.ContextMisuse(
                "ctx was used in another process than the node's own",
                hint="ask ctx before the work is handed to other processes, and pass on what it gave",
            )
        with self._request_lock:
            self.send({ASK: request_name, "arguments": arguments})
            reply = self.receive()
        if "error" in reply:
            error = decode_error(reply["error"])
            error.served = reply["served"]  # type: ignore[attr-defined]
            raise error
        return reply["value"]

    def _listen(self) -> None:
        _end_with_parent()
        lines = LineDecoder()
        while True:
            try:
                data = os.read(self._incoming, _CHUNK)
            except OSError:
                return  # the node's code closed the pipe
            if not data:
                # The build is gone: end this process and what it started.
                os.killpg(0, signal.SIGKILL)
            for message in lines.feed(data):
                self._received.put(message)


def _end_with_parent() -> None:
    """Let the kernel end this process with the build, even while it is stuck and cannot see the pipe."""
    with suppress(Exception):
        import ctypes  # takes time, and no caller waits here

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
