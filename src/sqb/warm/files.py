"""The folder of an engine's files, and what is said when it cannot be written to."""

from __future__ import annotations

import errno
from pathlib import Path

from sqb.errors_engine import EngineUnwritable


def unwritable(folder: Path, error: OSError) -> EngineUnwritable:
    """Why the files of an engine cannot be written, and what to do about it."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return EngineUnwritable(
        f"the files of the engine cannot be written to {folder}: {error.strerror or error}",
        hint="make room on the disk" if full else f"see whether {folder} can be written to",
    )
