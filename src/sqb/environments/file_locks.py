"""Locks of environments as files: the kernel lets go of one whatever ends its holder.

A file says whose the lock is, and is locked while that one lives. Taking a lock over puts another file in its place:
the first holder then finds that the file at that path does not hold its token.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqb.environments.locks import NOBODY_KNOWS, locked, new_token
from sqb.environments.values import LockInfo
from sqb.errors_environments import StateUnreachable

_SUFFIX = ".lock"
# Whoever only asks who works on what has a lock for a moment too.
_PATIENCE = 0.3
_PAUSE = 0.02


class FileLocks:
    """The locks of the environments of one scope, one file each in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def hold(self, environment: str, owner: str, take_over: bool) -> Iterator[str]:
        """Hold the lock of an environment, and get its token."""
        token = new_token()
        about = {"environment": environment, "owner": owner, "since": datetime.now(UTC).isoformat(), "token": token}
        content = json.dumps(about).encode()
        path = self._path(environment)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = _replace(path, content) if take_over else self._acquire(path, environment, content)
        except OSError as error:
            message = f"the lock of {environment} cannot be taken: {error.strerror}"
            raise StateUnreachable(message, hint=f"see whether {self.folder} can be written to") from error
        try:
            yield token
        finally:
            # The file stays: removing it could hit the one that somebody else has put there.
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def holder(self, environment: str) -> LockInfo | None:
        """What the file of an environment says, whether its holder lives or not."""
        return _read(self._path(environment), environment)

    def alive(self) -> Mapping[str, LockInfo]:
        """The locks whose holders are alive."""
        found = {}
        with suppress(FileNotFoundError):
            for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
                name = path.name.removesuffix(_SUFFIX)
                info = _read(path, name)
                if info is not None and _is_held(path):
                    found[name] = info
        return found

    def _path(self, environment: str) -> Path:
        return self.folder / f"{environment}{_SUFFIX}"

    def _acquire(self, path: Path, environment: str, content: bytes) -> int:
        until = time.monotonic() + _PATIENCE
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if _lock(descriptor) and _is_at(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, content, 0)
                return descriptor
            os.close(descriptor)
            if time.monotonic() >= until:
                unknown = LockInfo(environment, NOBODY_KNOWS, datetime.now(UTC), "")
                raise locked(_read(path, environment) or unknown)
            time.sleep(_PAUSE)


def _replace(path: Path, content: bytes) -> int:
    hidden = path.with_name(f".{path.name}.{new_token()}")
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    # Locked before it has its name: nobody ever sees it free.
    _lock(descriptor)
    os.pwrite(descriptor, content, 0)
    os.replace(hidden, path)
    return descriptor


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(path: Path, environment: str) -> LockInfo | None:
    try:
        about = json.loads(path.read_text())
        return LockInfo(environment, str(about["owner"]), datetime.fromisoformat(about["since"]), str(about["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
