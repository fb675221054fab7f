"""The time of commits. It knows nothing of pyiceberg, so that planning may load it."""

from __future__ import annotations

import time


def commit_ms(after: int | None = None) -> int:
    """The time of a commit that follows one at `after`, in milliseconds since 1970."""
    return max(int(time.time() * 1000), after or 0)
