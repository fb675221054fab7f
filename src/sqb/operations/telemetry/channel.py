"""Hands the events of a run to a reporter in a thread of its own: neither its work nor its failures reach the build."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqb.build.events import Event
from sqb.build.result import BuildResult

# How long the end of a build waits for what is not sent yet.
SECONDS_TO_SEND = 3.0
# A server that has refused so many in a row is not asked again in this run.
_REFUSALS = 3
_MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended: with a result, or with an error that came out of it."""

    result: BuildResult | None
    error: BaseException | None = None


class Reporter(Protocol):
    """Turns what happens in a run into what another system understands, and sends it. Times are seconds since 1970."""

    def begin(self, at: float) -> None:
        """The run has begun."""

    def report(self, event: Event, at: float) -> None:
        """Something happened."""

    def end(self, end: RunEnd, at: float) -> None:
        """The run has ended."""

    def flush(self) -> None:
        """Send what is not sent yet."""


class Channel:
    """One reporter and its thread; `title` and `loggers` are those of the library that sends."""

    def __init__(self, title: str, open_reporter: Callable[[], Reporter], loggers: tuple[str, ...]) -> None:
        self._title, self._open, self._loggers = title, open_reporter, loggers
        self._items: queue.SimpleQueue[tuple[float, Event | RunEnd | None]] = queue.SimpleQueue()
        self._warnings = _LastWarning()
        self._refused = 0
        self._reason = self._opening_problem = ""
        self._thread = threading.Thread(target=self._work, name=f"{title}-reporter", daemon=True)
        for name in loggers:
            logging.getLogger(name).addHandler(self._warnings)
        self._thread.start()

    def put(self, event: Event | RunEnd) -> None:
        """Leave something to be reported."""
        self._items.put((time.time(), event))

    def close(self) -> str:
        """Wait for what is not sent yet, for seconds at most; what could not be sent, in words, or nothing."""
        self._items.put((time.time(), None))
        self._thread.join(SECONDS_TO_SEND)
        late = self._thread.is_alive()
        for name in self._loggers:
            logging.getLogger(name).removeHandler(self._warnings)
        if self._opening_problem:
            return f"{self._title}: {self._opening_problem}"
        reason = self._reason or self._warnings.text
        if late:
            return f"{self._title}: not all was sent within {SECONDS_TO_SEND:.0f} s" + (f": {reason}" if reason else "")
        if self._reason:
            return f"{self._title}: not everything of this run could be sent: {reason}"
        return f"{self._title}: {self._warnings.text}" if self._warnings.text else ""

    def _work(self) -> None:
        began = time.time()
        try:
            reporter = self._open()
        except BaseException as error:  # whatever a library raises, the build goes on
            self._opening_problem = _shorten(error)
            return
        self._attempt(lambda: reporter.begin(began))
        while True:
            at, item = self._items.get()
            if item is None:
                break
            if isinstance(item, RunEnd):
                self._attempt(lambda end=item, at=at: reporter.end(end, at))  # type: ignore[misc]
            else:
                self._attempt(lambda event=item, at=at: reporter.report(event, at))  # type: ignore[misc]
        self._attempt(reporter.flush)

    def _attempt(self, send: Callable[[], None]) -> None:
        if self._refused >= _REFUSALS:
            return
        try:
            send()
        except BaseException as error:  # as above
            self._refused, self._reason = self._refused + 1, _shorten(error)
        else:
            self._refused = 0


class _LastWarning(logging.Handler):
    """Remembers the last warning of a library, which would be printed between the lines of a build."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = _shorten(record.getMessage())


def _shorten(reason: object) -> str:
    text = " ".join(str(reason).split()) or type(reason).__name__
    # Of a call that is tried again, only why.
    text = text.rpartition("connection broken by ")[2]
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 1] + "…"
