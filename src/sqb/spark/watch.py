"""Whether a server is still there: a query may rightly take hours, so that only asking beside it tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_SECONDS_BETWEEN = 2.0
_SECONDS_OF_SILENCE = 20.0
_SECONDS_TO_SAY_AGAIN = 1.0


class Watch:
    """Asks a question again and again; says that no answer comes any more, once or, with `repeats`, until the end.

    An error of a question that is `final` says so by itself; any other may be a hiccup, and only silence decides.
    """

    def __init__(
        self,
        ask: Callable[[], object],
        silent: Callable[[], None],
        between: float = _SECONDS_BETWEEN,
        patience: float = _SECONDS_OF_SILENCE,
        final: bool = True,
        repeats: bool = False,
    ) -> None:
        self._ask, self._silent, self._between, self._patience = ask, silent, between, patience
        self._final, self._repeats = final, repeats
        self._answered = time.monotonic()
        self._refused = False
        self._ended = threading.Event()
        for name, work in (("sqb-ask", self._asking), ("sqb-watch", self._watching)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def _asking(self) -> None:
        while not self._ended.wait(self._between):
            try:
                self._ask()
            except Exception:
                if not self._final:
                    continue
                # It was tried again for as long as seemed worth it by whoever carries the question.
                self._refused = True
                return
            self._answered = time.monotonic()

    def _watching(self) -> None:
        while not self._ended.wait(min(1.0, self._patience / 4)):
            if self._refused or time.monotonic() - self._answered > self._patience:
                if not self._repeats:
                    self._ended.set()
                self._silent()
                while not self._ended.wait(_SECONDS_TO_SAY_AGAIN):
                    self._silent()
                return
