"""Processes, known by their number and by when they began: a number is used again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

_POLL_SECONDS = 0.05


def read_start_time(pid: int) -> str:
    """A text that differs between two processes of one number; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            # The name may hold spaces and brackets; what follows it does not.
            after_name = file.read().rpartition(")")[2].split()
        # A zombie is not alive either.
        return "" if after_name[0] in ("Z", "X") else after_name[19]
    except (OSError, IndexError):
        return "" if os.path.isdir("/proc/self") else _read_start_time_from_ps(pid)


def _read_start_time_from_ps(pid: int) -> str:
    with suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    return ""


def is_alive(pid: int, born: str) -> bool:
    """Whether that very process is there."""
    return bool(born) and read_start_time(pid) == born


def terminate(pid: int, born: str) -> None:
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
    deadline = None if seconds is None else time.monotonic() + seconds
    while is_alive(pid, born):
        if deadline is not None and time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
