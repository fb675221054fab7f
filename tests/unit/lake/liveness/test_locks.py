"""Whether a file is locked: by another holder, by none, or on a file system that cannot say it."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from sqb.lake.liveness.locks import is_locked


def test_a_lock_is_seen_while_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert is_locked(file) is False
    with file.open("w") as holder:
        assert is_locked(file) is False
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert is_locked(file) is True
    assert is_locked(file) is False


def test_a_file_system_without_locks_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    (tmp_path / "lock").touch()
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert is_locked(tmp_path / "lock") is None
