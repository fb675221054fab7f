"""The process behind a warm engine: it keeps a Spark Connect server running for as long as anybody wants it.

It ends the server when nobody has worked with it for a while, when its description is gone (with the project, perhaps),
and when it is asked to; it ends itself when the server is gone. Nobody waits for it but who started it, and who asked
it to end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sqb.warm.description import Description, path_in, write
from sqb.warm.locks import is_at, is_claimed, unclaimed

_SECONDS_BETWEEN_LOOKS = 0.25
# Whoever builds again at once need not wait for the tidying.
_SECONDS_BEFORE_TIDYING = 5.0


class Server(Protocol):
    """A Spark Connect server of this process."""

    pid: int
    port: int

    def alive(self) -> bool: ...

    def stop(self) -> None: ...

    def tidy(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a server is no more: idle, removed (its description is gone), asked, worn, or lost (it ended by itself)."""

    why: str


class Supervisor:
    """One server, described in one folder."""

    def __init__(
        self,
        folder: Path,
        server: Server,
        description: Description,
        let_go: Callable[[], None],
        asked: Callable[[], bool],
        pause: float = _SECONDS_BETWEEN_LOOKS,
        tidying: float = _SECONDS_BEFORE_TIDYING,
    ) -> None:
        self._path = path_in(folder)
        self._server, self._description, self._let_go = server, description, let_go
        self._asked, self._pause, self._tidying = asked, pause, tidying
        self._is_tidy = True
        # From here on builds find the engine.
        write(self._path, description)
        self._file = os.open(self._path, os.O_RDONLY)
        self._used, self._touched = time.monotonic(), os.fstat(self._file).st_mtime_ns

    def watch(self) -> Ended:
        """Look after the server until it is to end or has ended, and leave nothing of it behind but its log."""
        ended = self._wait()
        if ended.why not in ("lost", "worn"):
            # A description whose server is lost stays, and what stands for one that is worn: the next build then knows
            # that there is one to replace.
            self._take_out_of_use()
        self._let_go()
        if ended.why in ("idle", "removed"):
            self._wait_for_users()
        self._server.stop()
        os.close(self._file)
        return ended

    def _wait(self) -> Ended:
        while True:
            if self._asked():
                return Ended("asked")
            if not self._server.alive():
                return Ended("lost")
            if not is_at(self._file, self._path):
                return Ended("removed")
            idle = self._seconds_idle()
            if idle >= self._description.idle:
                return Ended("idle")
            if not self._is_tidy and idle >= self._tidying:
                self._is_tidy = True
                if not self._server.tidy() and self._give_way():
                    return Ended("worn")
            time.sleep(self._pause)

    def _seconds_idle(self) -> float:
        """How long nobody has worked with it; told by this machine's own passing of time, not by its clock."""
        touched = os.fstat(self._file).st_mtime_ns
        if is_claimed(self._file) or touched != self._touched:
            self._used, self._touched, self._is_tidy = time.monotonic(), touched, False
        return time.monotonic() - self._used

    def _take_out_of_use(self) -> None:
        # Another engine may have been described there by now.
        if is_at(self._file, self._path):
            with suppress(OSError):
                os.unlink(self._path)

    def _give_way(self) -> bool:
        """Describe, in the place of the server, one that nobody reaches; False when somebody has begun to use it."""
        with unclaimed(self._file) as free, suppress(OSError):
            # Whoever has looked already, and waits for the file, finds another one in its place.
            if free and is_at(self._file, self._path):
                write(self._path, replace(self._description, port=0))
                return True
        return False

    def _wait_for_users(self) -> None:
        """Let those finish who have begun: they hold the file that nobody else finds any more."""
        while self._server.alive() and not self._asked() and is_claimed(self._file):
            time.sleep(self._pause)
