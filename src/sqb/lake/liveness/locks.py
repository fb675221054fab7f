"""Whether another process holds the lock of a file, which the kernel releases with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_locked(path: str | Path) -> bool | None:
    """Whether a process holds the lock of a file; None where the file system has no locks. A missing file is free."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two processes that ask at once do not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False
