"""Whether a server is still there: a query may rightly take hours, so that only asking beside it tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_SECONDS_BETWEEN = 2.0
_SECONDS_OF_SILENCE = 20.0
_SECONDS_TO_REPEAT = 1.0


class Heartbeat:
    """Asks a question again and again; says that no answer comes any more, once or, with `repeats`, until the end.

    An error of a question that is `final` says so by itself; any other may be a hiccup, and only silence decides.
    """

    def __init__(
        self,
        ping: Callable[[], object],
        on_silence: Callable[[], None],
        interval: float = _SECONDS_BETWEEN,
        timeout: float = _SECONDS_OF_SILENCE,
        is_error_final: bool = True,
        repeats: bool = False,
    ) -> None:
        self._ping, self._on_silence, self._interval, self._timeout = ping, on_silence, interval, timeout
        self._is_error_final, self._repeats = is_error_final, repeats
        self._last_answer = time.monotonic()
        self._has_failed = False
        self._ended = threading.Event()
        for name, work in (("sqb-ask", self._run_pings), ("sqb-watch", self._run_watch)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def _run_pings(self) -> None:
        while not self._ended.wait(self._interval):
            try:
                self._ping()
            except Exception:
                if not self._is_error_final:
                    continue
                # It was tried again for as long as seemed worth it by whoever carries the question.
                self._has_failed = True
                return
            self._last_answer = time.monotonic()

    def _run_watch(self) -> None:
        while not self._ended.wait(min(1.0, self._timeout / 4)):
            if self._has_failed or time.monotonic() - self._last_answer > self._timeout:
                if not self._repeats:
                    self._ended.set()
                self._on_silence()
                while not self._ended.wait(_SECONDS_TO_REPEAT):
                    self._on_silence()
                return
