"""Sessions of Spark Connect: cloned from one that is set up, watched together, interrupted and released together."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.connect.client.retries import DefaultPolicy

from sqb.errors import SqbError
from sqb.spark.watch import Watch

_SECONDS_TO_CANCEL = 5.0
_SECONDS_BETWEEN_TOUCHES = 300.0
_SECONDS_TO_RELEASE = 5.0
# Where a session keeps the copies of it that children use.
LENT = "_sqb_lent"


def patient(session: Any) -> Any:
    """A session that tries again for about a quarter of a minute: long enough for a hiccup of the network."""
    client: Any = session.client
    client.set_retry_policies(
        [DefaultPolicy(max_retries=8, initial_backoff=200, backoff_multiplier=2.0, max_backoff=3000, jitter=100)]
    )
    # At the end of the process PySpark would ask the server to forget models of machine learning, one by one.
    atexit.unregister(client._cleanup_ml_cache)
    return session


class ConnectSessions:
    """All sessions of one build on a server. They live until the end: closing one would disturb the others."""

    def __init__(self, base: Any, loss: Callable[[], SqbError]) -> None:
        self._base, self._words = base, loss
        self._made: list[Any] = []
        self._lock = threading.Lock()
        self._ended = False
        self._lost = False
        self._touched = time.monotonic()
        self._watch = Watch(self._ask, self.give_up)

    def new(self) -> Any:
        """A session with the settings of the first one."""
        if self._lost:
            raise self._words()
        made = patient(self._base.cloneSession())
        with self._lock:
            self._made.append(made)
        return made

    def _ask(self) -> None:
        """See that the server answers; now and then for all sessions, as it forgets those that are idle for long."""
        _ = self._base.version
        if time.monotonic() - self._touched > _SECONDS_BETWEEN_TOUCHES:
            self._touched = time.monotonic()
            with self._lock:
                made = list(self._made)
            for session in made:
                _ = session.version

    def alive(self) -> bool:
        """Whether the server answers."""
        return not self._lost and not self._ended

    def words(self) -> SqbError:
        """What is said when the connection broke."""
        return self._words()

    def interrupt(self) -> None:
        """Stop what runs in all sessions, without waiting for long."""
        # The thread that was interrupted may be in the middle of a call.
        helper = threading.Thread(target=self._interrupt, name="sqb-cancel", daemon=True)
        helper.start()
        helper.join(_SECONDS_TO_CANCEL)

    def _interrupt(self) -> None:
        with self._lock:
            made = list(self._made)
        for session in made:
            with contextlib.suppress(Exception):
                session.interruptAll()

    def end(self) -> None:
        """Give all sessions back to the server; a second call does nothing."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._watch.end()
        if not self._lost:
            helper = threading.Thread(target=self._release, name="sqb-release", daemon=True)
            helper.start()
            helper.join(_SECONDS_TO_RELEASE)
        self._close()

    def _release(self) -> None:
        for session in (*self._made, self._base):
            with contextlib.suppress(Exception):
                session.client.release_session()

    def give_up(self) -> None:
        """End every call that still waits: no answer will come."""
        self._lost = True
        self._close()

    def _close(self) -> None:
        lent = [copy for session in self._made for copy in session.__dict__.get(LENT, ())]
        clients = [session.client for session in (*lent, *self._made, self._base)]
        for client in clients:
            # First the channels: closing a client waits for what it still has to say.
            with contextlib.suppress(Exception):
                client._channel.close()
        for client in clients:
            with contextlib.suppress(Exception):
                client.close()
