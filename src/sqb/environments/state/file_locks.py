"""Locks of environments as files: the kernel lets go of one whatever ends its holder.

A file says whose the lock is, and is locked while that one lives. Taking a lock over puts another file in its place:
the first holder then finds that the file at that path does not hold its token.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqb.environments.model import LockInfo
from sqb.errors.environments import EnvironmentLocked, LockLost, StateUnreachable
from sqb.lake.liveness.locks import is_locked
from sqb.names import format_age

_SUFFIX = ".lock"
# Whoever only asks who works on what has a lock for a moment too.
_TIMEOUT = 0.3
_PAUSE = 0.02


class FileLocks:
    """The locks of the environments of one scope, one file each in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def hold(self, environment: str, owner: str, take_over: bool) -> Iterator[str]:
        """Hold the lock of an environment, and get its token."""
        token = create_token()
        about = {"environment": environment, "owner": owner, "since": datetime.now(UTC).isoformat(), "token": token}
        content = json.dumps(about).encode()
        path = self._get_path(environment)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = _replace(path, content) if take_over else self._acquire(path, environment, content)
        except OSError as error:
            message = f"the lock of {environment} cannot be taken: {error.strerror}"
            raise StateUnreachable(message, hint=f"see whether {self.folder} can be written to") from error
        try:
            yield token
        finally:
            # The file stays: removing it could remove the file of another process.
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def read_holder(self, environment: str) -> LockInfo | None:
        """What the file of an environment says, whether its holder lives or not."""
        return _read_info(self._get_path(environment), environment)

    def list_held(self) -> Mapping[str, LockInfo]:
        """The locks whose holders are alive."""
        locks = {}
        with suppress(FileNotFoundError):
            for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
                name = path.name.removesuffix(_SUFFIX)
                info = _read_info(path, name)
                if info is not None and _is_held(path):
                    locks[name] = info
        return locks

    def _get_path(self, environment: str) -> Path:
        return self.folder / f"{environment}{_SUFFIX}"

    def _acquire(self, path: Path, environment: str, content: bytes) -> int:
        until = time.monotonic() + _TIMEOUT
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if _lock(descriptor) and _is_file_at(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, content, 0)
                return descriptor
            os.close(descriptor)
            if time.monotonic() >= until:
                unknown = LockInfo(environment, UNKNOWN_OWNER, datetime.now(UTC), "")
                raise build_locked_error(_read_info(path, environment) or unknown)
            time.sleep(_PAUSE)


def _replace(path: Path, content: bytes) -> int:
    hidden = path.with_name(f".{path.name}.{create_token()}")
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    # Locked before it has its name: no process ever sees it free.
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


def _is_file_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _is_held(path: Path) -> bool:
    try:
        return is_locked(path) is not False
    except OSError:
        return False


def _read_info(path: Path, environment: str) -> LockInfo | None:
    try:
        about = json.loads(path.read_text())
        return LockInfo(environment, str(about["owner"]), datetime.fromisoformat(about["since"]), str(about["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


UNKNOWN_OWNER = "another process"


def create_token() -> str:
    """What proves that a lock is one's own."""
    return uuid.uuid4().hex


def compute_age(since: datetime) -> float:
    """The seconds since a time; clocks of two machines may differ, and nothing is younger than new."""
    return max(0.0, (datetime.now(UTC) - since).total_seconds())


def build_locked_error(info: LockInfo) -> EnvironmentLocked:
    """The error for a process that finds an environment locked."""
    return EnvironmentLocked(
        f"{info.environment} is being worked on by {info.owner}, for {format_age(compute_age(info.since))}",
        hint="wait until that has ended; if it never will, --take-over takes the environment from it",
    )


def build_lost_error(environment: str, taker: LockInfo | None) -> LockLost:
    """The error for a process whose lock was taken over."""
    by = f" by {taker.owner}" if taker is not None else ""
    return LockLost(
        f"{environment} was taken over{by} while this command worked; it has changed nothing there since",
        hint="look at what the other one does, then run the command again",
    )
