"""What a build and the child that runs a node say to each other: JSON lines over two pipes.

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

from sqb import errors_python
from sqb.errors import SqbError
from sqb.names import At
from sqb.project.secrets import hide_known

Message = Mapping[str, Any]

BEGAN = "began"
FOUND = "found"
ASK = "ask"
ANSWER = "answer"
DONE = "done"
# Where the child's interpreter writes its stack when it crashes or is told to.
STACK_FILE = "stack.txt"
# The code with which a child ends that cannot answer any more.
SPEECHLESS = 97
_CHUNK = 1 << 16
_PR_SET_PDEATHSIG = 1


def encoded(message: Message) -> bytes:
    """A message as one line; what JSON does not know, such as a date in a variable, becomes text."""
    # Halves of characters cannot be printed later, and are replaced.
    return json.dumps(message, default=str, ensure_ascii=False).encode(errors="replace") + b"\n"


class Lines:
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


def place_data(at: At | None) -> list[Any] | None:
    """A place as JSON can hold it."""
    return [at.file, at.line, at.column, at.length] if at is not None else None


def place_from(data: list[Any] | None) -> At | None:
    """The place that `place_data` was made of."""
    return At(*data) if data else None


def error_data(error: SqbError, traceback: str = "") -> dict[str, Any]:
    """An error as JSON can hold it."""
    return {
        "class": type(error).__name__,
        "message": error.message,
        "at": place_data(error.at),
        "hint": error.hint,
        "evidence": list(error.evidence),
        "traceback": traceback,
    }


class RemoteTraceback(Exception):
    """Where an error came from in the child, as text for `--debug`."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def error_from(data: Message) -> SqbError:
    """The error that `error_data` was made of."""
    known = {c.__name__: c for c in _subclasses(SqbError)}
    made = known.get(data["class"], errors_python.NodeRaised)(
        # The child does not know what is secret of the Spark that it was lent.
        hide_known(data["message"]),
        at=place_from(data["at"]),
        hint=data["hint"],
        evidence=data["evidence"],
    )
    if data["traceback"]:
        made.__cause__ = RemoteTraceback(data["traceback"])
    return made


def _subclasses(root: type[SqbError]) -> Iterator[type[SqbError]]:
    for child in root.__subclasses__():
        yield child
        yield from _subclasses(child)


# --- the child's end ------------------------------------------------------------------------------------------------


class Link:
    """The child's end: asks one thing at a time, and ends the process when the build is gone."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._owner = os.getpid()
        self._one_question = threading.Lock()
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        for descriptor in (incoming, outgoing):
            # What the node's code starts must not keep the pipes open.
            os.set_inheritable(descriptor, False)
        threading.Thread(target=self._listen, name="sqb-listen", daemon=True).start()

    @property
    def is_owner(self) -> bool:
        """Whether this is the process that the build started, not one that it forked."""
        return os.getpid() == self._owner

    def hear(self) -> Message:
        """The next message of the build."""
        return self._heard.get()

    def tell(self, message: Message) -> None:
        """Say something that needs no answer."""
        write_all(self._outgoing, encoded(message))

    def ask(self, request: str, **arguments: Any) -> Any:
        """What the build answers to a request; raises the error that it met."""
        if not self.is_owner:
            raise errors_python.ContextMisuse(
                "ctx was used in another process than the node's own",
                hint="ask ctx before the work is handed to other processes, and pass on what it gave",
            )
        with self._one_question:
            self.tell({ASK: request, "arguments": arguments})
            heard = self.hear()
        if "error" in heard:
            error = error_from(heard["error"])
            error.served = heard["served"]  # type: ignore[attr-defined]
            raise error
        return heard["value"]

    def _listen(self) -> None:
        _end_with_parent()
        lines = Lines()
        while True:
            try:
                data = os.read(self._incoming, _CHUNK)
            except OSError:
                return  # the node's code closed the pipe
            if not data:
                # The build is gone, and nobody waits for this: neither for what it started.
                os.killpg(0, signal.SIGKILL)
            for message in lines.feed(data):
                self._heard.put(message)


def _end_with_parent() -> None:
    """Let the kernel end this process with the build, even while it is stuck and cannot see the pipe."""
    with suppress(Exception):
        import ctypes  # takes time, and here nobody waits for it

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
