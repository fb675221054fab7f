"""Locks that show which processes are alive and which use the engine: the kernel releases them with their holder.

Two files are locked. `engine.lock` is held by the process that starts or looks after the engine of a project: there is
one at a time. The description is held, shared, by every process that uses the engine that it describes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqb.lake.liveness.locks import is_locked

_LOCK_FILE = "engine.lock"


def acquire_supervision(folder: Path) -> int | None:
    """Become the supervisor of a project's engine until the descriptor is closed; None if there is one already."""
    descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        # A file system without locks has no place for an engine.
        os.close(descriptor)
        raise
    # The file holds the number of the process that supervised before.
    os.ftruncate(descriptor, 0)
    return descriptor


def is_supervised(folder: Path) -> bool:
    """Whether a process starts or supervises the engine of a project."""
    try:
        return is_locked(folder / _LOCK_FILE) is True
    except OSError:
        return False


def read_supervisor(folder: Path) -> tuple[int, str] | None:
    """The process that starts or looks after the engine of a project: its number, and when it began."""
    if not is_supervised(folder):
        return None
    try:
        pid, _, born = (folder / _LOCK_FILE).read_text().strip().partition(" ")
        return int(pid), born
    except (OSError, ValueError):
        # It has the place, and has not begun yet.
        return None


class EngineClaim:
    """A shared lock on the file of an engine, held by a process that uses it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let go of it; the engine has been idle since then. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _touch(descriptor)
            os.close(descriptor)


def claim_engine(path: Path) -> EngineClaim | None:
    """Hold the engine that `path` describes; None when there is none any more."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    # A process that checks whether the engine is in use holds the lock for an instant.
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    if not is_same_file(descriptor, path):
        os.close(descriptor)
        return None
    _touch(descriptor)
    return EngineClaim(descriptor)


def is_claimed(descriptor: int) -> bool:
    """Whether another process holds the file of a descriptor."""
    with hold_exclusively(descriptor) as free:
        return not free


@contextmanager
def hold_exclusively(descriptor: int) -> Iterator[bool]:
    """Keep others from holding the file of a descriptor; False when another process holds it already."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether the file of a descriptor is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _touch(descriptor: int) -> None:
    # Who may not change the file is still seen while holding it.
    with suppress(OSError):
        os.utime(descriptor)
