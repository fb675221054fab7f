"""The time that commits carry: that of this machine, but never before that of the commit that they follow.

Iceberg refuses tables whose commits go back in time. Where machines with different clocks write to one table, the
slower ones therefore say the time of the commit before.
"""

from __future__ import annotations

import time


def commit_ms(after: int | None = None) -> int:
    """The time of a commit that follows one at `after`, in milliseconds since 1970."""
    return max(int(time.time() * 1000), after or 0)
