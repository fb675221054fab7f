"""Why the last start of an engine failed: without it, every command would try again."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_FILE = "engine.failed"
_SECONDS_UNTIL_RETRY = 3600.0


def record_failure(folder: Path, message: str) -> None:
    """Write down why an engine did not start."""
    with suppress(OSError):
        (folder / _FILE).write_text(message)


def forget_failure(folder: Path) -> None:
    """An engine has started."""
    with suppress(OSError):
        os.unlink(folder / _FILE)


def read_failure(folder: Path) -> str | None:
    """Why the last start failed; None when it did not, or long ago."""
    path = folder / _FILE
    with suppress(OSError, ValueError):
        if abs(time.time() - path.stat().st_mtime) < _SECONDS_UNTIL_RETRY:
            return path.read_text()
    return None
