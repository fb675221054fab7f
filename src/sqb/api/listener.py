"""Forwards the events of a build to the caller's function, and stops it on the caller's event or Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sqb.api.options import Listen
from sqb.build.events import Event, Notice, Progress

_POLL_SECONDS = 0.2


class StopEvent(threading.Event):
    """The event that stops a build: set by sqb, or by the caller's own event, which is only polled."""

    def __init__(self, requested: threading.Event | None) -> None:
        super().__init__()
        self._requested = requested

    def is_set(self) -> bool:
        return super().is_set() or (self._requested is not None and self._requested.is_set())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, looking at the caller's event now and then."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (end is None or time.monotonic() < end):
            super().wait(_POLL_SECONDS if end is None else max(0.0, min(_POLL_SECONDS, end - time.monotonic())))
        return self.is_set()


class EventForwarder:
    """Hands events to the caller's function, one at a time; what that raises stops the build and comes out of it."""

    def __init__(self, listen: Listen | None, stop: threading.Event) -> None:
        self._listen, self._stop = listen, stop
        self._lock = threading.Lock()
        self.raised: BaseException | None = None
        self.notes: list[str] = []

    def __call__(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, Notice):
                self.notes.append(event.text)
            if self._listen is None or self.raised is not None:
                return
            try:
                self._listen(event)
            except BaseException as error:
                # Raised here it would be taken for the failure of a node.
                self.raised = error
                self._stop.set()

    @contextmanager
    def forward_during(self, count: int, stop: threading.Event) -> Iterator[EventForwarder]:
        """For as long as nodes run: Ctrl-C lets the build end cleanly, and comes out of it then."""
        with handle_interrupts(stop) as pressed:
            yield self
        if pressed.is_set():
            self.raised = self.raised or KeyboardInterrupt()

    def report_progress(self, text: str) -> None:
        """Something that Spark's start or a question has to say."""
        self(Progress(text))


@contextmanager
def handle_interrupts(stop: threading.Event) -> Iterator[threading.Event]:
    """The first Ctrl-C asks the build to stop cleanly, and sets what is given; a second one waits for seconds at most.

    Only where Ctrl-C does what Python does by itself: neither in other threads nor where the caller handles it.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not _is_default_handler(before):
        yield threading.Event()
        return
    pressed = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        stop.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _is_default_handler(handler: object) -> bool:
    """Whether the caller has not set what Ctrl-C does; PySpark sets it by itself when a session is made."""
    return handler is signal.default_int_handler or getattr(handler, "__module__", "") == "pyspark.core.context"
