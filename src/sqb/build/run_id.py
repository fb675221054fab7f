"""The names of runs."""

from __future__ import annotations

import os
import time


def new_run_id() -> str:
    """A name for a run that sorts by time and can be part of a table's name."""
    return f"{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{os.urandom(3).hex()}"
