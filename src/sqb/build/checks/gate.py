"""Between what runs while Spark starts and what readers see: nothing is published before the checks are known to fit.

Seeds are staged and loaders fetch their rows meanwhile. Where a check does not fit its model, the build ends as if
nothing had run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqb.errors.base import SqbError
from sqb.errors.build import Interrupted

_POLL_SECONDS = 0.1


class WaitClock:
    """How long each thread has waited for others: a node's seconds are its own."""

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def waited(self) -> float:
        """The seconds that this thread has waited so far."""
        return float(getattr(self._local, "seconds", 0.0))

    @contextmanager
    def count_wait(self) -> Iterator[None]:
        """Count what is done inside as waiting."""
        began, before = time.monotonic(), self.waited
        try:
            yield
        finally:
            self._local.seconds = before + time.monotonic() - began


class ChecksGate:
    """Open when the checks are known to fit; closed for ever when one does not."""

    def __init__(self, clock: WaitClock, stop: threading.Event) -> None:
        self._clock, self._stop = clock, stop
        self._decided = threading.Event()
        self._lock = threading.Lock()
        self._held = 0
        self.error: SqbError | None = None

    @property
    def held(self) -> int:
        """How many nodes have done what they can, and wait to publish it."""
        return self._held

    def open_after(self, validate: Callable[[], None]) -> None:
        """Validate, and open; an error of the project is kept for whoever carries the build out."""
        try:
            validate()
        except SqbError as error:
            self.error = error
        finally:
            self._decided.set()

    def wait(self) -> None:
        """Wait until it is open; raises when it stays closed, or the build is to end."""
        with self._clock.count_wait():
            while not self._decided.wait(_POLL_SECONDS):
                if self._stop.is_set():
                    raise Interrupted("the build was interrupted while Spark was starting")
        if self.error is not None:
            raise Interrupted("checks of the project do not fit its models")

    def hold(self, tell: Callable[[], None] = lambda: None) -> None:
        """Wait with what is done already: others may run meanwhile. `tell` is called if it must wait."""
        if not self._decided.is_set():
            tell()
        self._count(1)
        try:
            self.wait()
        finally:
            self._count(-1)

    def settle(self) -> None:
        """Wait until it is known whether it opens, unless the build is to end; raises what is wrong with the checks."""
        while not self._decided.wait(_POLL_SECONDS) and not self._stop.is_set():
            pass
        self.raise_error()

    def raise_error(self) -> None:
        """Raise what is wrong with the checks, as soon as it is known."""
        if self.error is not None:
            raise self.error

    def _count(self, change: int) -> None:
        with self._lock:
            self._held += change
