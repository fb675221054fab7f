"""Processes, known by their number and by when they began: a number is used again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

_PAUSE = 0.05


def birth_of(pid: int) -> str:
    """A text that differs between two processes of one number; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            # The name may hold spaces and brackets; what follows it does not.
            after_name = file.read().rpartition(")")[2].split()
        # A process that has ended and that nobody asked about has no life either.
        return "" if after_name[0] in ("Z", "X") else after_name[19]
    except (OSError, IndexError):
        return "" if os.path.isdir("/proc/self") else _asked(pid)


def _asked(pid: int) -> str:
    with suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    return ""


def is_alive(pid: int, born: str) -> bool:
    """Whether that very process is there."""
    return bool(born) and birth_of(pid) == born


def ask_to_end(pid: int, born: str) -> None:
    """Ask that very process to end."""
    if is_alive(pid, born):
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def kill(pid: int, born: str) -> None:
    """End that very process at once."""
    if is_alive(pid, born):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def wait_for_end(pid: int, born: str, seconds: float | None) -> bool:
    """Wait until that very process is gone; False when it is still there after `seconds`."""
    until = None if seconds is None else time.monotonic() + seconds
    while is_alive(pid, born):
        if until is not None and time.monotonic() >= until:
            return False
        time.sleep(_PAUSE)
    return True
