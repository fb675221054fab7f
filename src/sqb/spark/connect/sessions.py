"""Sessions of Spark Connect: cloned from one that is set up, watched together, interrupted and released together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.connect.client.retries import DefaultPolicy

from sqb.errors.base import SqbError
from sqb.spark.private_api import close_once, get_channel, list_copies, skip_model_cleanup
from sqb.spark.session.heartbeat import Heartbeat

_SECONDS_TO_CANCEL = 5.0
# The engine forgets a session that it has not heard of for a few minutes: see `sqb.spark.connect.server`.
_SECONDS_BETWEEN_TOUCHES = 60.0
_SECONDS_TO_RELEASE = 5.0


def set_retry_policy(session: Any) -> Any:
    """A session that tries again for about a quarter of a minute: long enough for a hiccup of the network."""
    client: Any = session.client
    client.set_retry_policies(
        [DefaultPolicy(max_retries=8, initial_backoff=200, backoff_multiplier=2.0, max_backoff=3000, jitter=100)]
    )
    skip_model_cleanup(client)
    return session


class ConnectSessions:
    """All sessions of one build on a server. They live until the end: closing one would disturb the others."""

    def __init__(self, base: Any, loss: Callable[[], SqbError]) -> None:
        self._base, self._words = base, loss
        self._created: list[Any] = []
        self._lock = threading.Lock()
        self._ended = False
        self._lost = False
        self._touched = time.monotonic()
        self._watch = Heartbeat(self._ping, self.give_up)

    def new(self) -> Any:
        """A session with the settings of the first one."""
        if self._lost:
            raise self._words()
        session = set_retry_policy(self._base.cloneSession())
        with self._lock:
            self._created.append(session)
        return session

    def _ping(self) -> None:
        """See that the server answers; now and then for all sessions, as it forgets those that are idle for long."""
        _ = self._base.version
        if time.monotonic() - self._touched > _SECONDS_BETWEEN_TOUCHES:
            self._touched = time.monotonic()
            for session in self._list_sessions():
                # One that the server has forgotten is told to whoever uses it; the server itself has just answered.
                with contextlib.suppress(Exception):
                    _ = session.version

    def _list_sessions(self) -> list[Any]:
        """The sessions of the build, and the copies of them that its child processes use or have used."""
        with self._lock:
            sessions = list(self._created)
        return [*sessions, *(copy for session in sessions for copy in list_copies(session))]

    def alive(self) -> bool:
        """Whether the server answers."""
        return not self._lost and not self._ended

    def words(self) -> SqbError:
        """The message when the connection broke."""
        return self._words()

    def interrupt(self) -> None:
        """Stop what runs in all sessions, without waiting for long."""
        # The thread that was interrupted may be in the middle of a call.
        helper = threading.Thread(target=self._interrupt, name="sqb-cancel", daemon=True)
        helper.start()
        helper.join(_SECONDS_TO_CANCEL)

    def _interrupt(self) -> None:
        with self._lock:
            sessions = list(self._created)
        for session in sessions:
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
        for session in (*self._created, self._base):
            with contextlib.suppress(Exception):
                session.client.release_session()

    def give_up(self) -> None:
        """End every call that still waits: no answer will come."""
        self._lost = True
        self._close()

    def _close(self) -> None:
        clients = [session.client for session in (*reversed(self._list_sessions()), self._base)]
        for client in clients:
            # First the channels: closing a client waits for what it still has to say.
            with contextlib.suppress(Exception):
                get_channel(client).close()
        for client in clients:
            with contextlib.suppress(Exception):
                close_once(client)
