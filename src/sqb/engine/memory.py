"""The memory that an engine holds: that of Java, and of the processes that run commands."""

from __future__ import annotations

import os
from contextlib import suppress

_KB = 1024


def measure_memory(session: int) -> int | None:
    """The bytes that the processes of a session hold, those that they share counted once; None if unknown.

    An engine begins a session of its own, and all that it starts belongs to it.
    """
    total = 0
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return None
    for pid in pids:
        # Processes come and go.
        with suppress(OSError):
            if os.getsid(pid) == session:
                total += _read_share(pid)
    return total or None


def _read_share(pid: int) -> int:
    """What a process holds; of what it shares with others, its part."""
    for file, word in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        with suppress(OSError), open(f"/proc/{pid}/{file}") as lines:
            for line in lines:
                if line.startswith(word):
                    return int(line.split()[1]) * _KB
    return 0
