"""What a command is at before there is anything else to show: a line on a terminal that goes when it is over."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

# Back to the start of the line, and nothing after it.
_ERASE = "\r\x1b[K"


@contextmanager
def show_phase(text: str) -> Iterator[None]:
    """Show what is being done while it is done; where standard error is no terminal, nothing."""
    stream = sys.stderr
    if not _can_erase(stream):
        yield
        return
    print(f"{text} …", end="", file=stream, flush=True)
    try:
        yield
    finally:
        print(_ERASE, end="", file=stream, flush=True)


def _can_erase(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextmanager
def show_waiting() -> Iterator[Callable[[str], None]]:
    """A function that shows what is waited for, with the seconds since then; on terminals alone."""
    stream = sys.stderr
    if not _can_erase(stream):
        yield lambda text: None
        return
    line = _WaitingLine(stream)
    thread = threading.Thread(target=line.run, name="sqb-waiting", daemon=True)
    thread.start()
    try:
        yield line.show
    finally:
        line.ended.set()
        thread.join()
        print(_ERASE, end="", file=stream, flush=True)


class _WaitingLine:
    """One line that is written anew every half second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._text, self._since = stream, "", time.monotonic()
        self.ended = threading.Event()

    def show(self, text: str) -> None:
        self._text, self._since = text, time.monotonic()

    def run(self) -> None:
        while not self.ended.wait(0.5):
            seconds = time.monotonic() - self._since
            if self._text:
                words = f"{self._text} … {f'{seconds:.0f} s' if seconds >= 1 else ''}"
                print(f"{_ERASE}{words}", end="", file=self._stream, flush=True)
