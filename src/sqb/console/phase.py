"""What a command is at before there is anything else to show: a line on a terminal that goes when it is over."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Back to the start of the line, and nothing after it.
_ERASE = "\r\x1b[K"


@contextmanager
def show_phase(text: str) -> Iterator[None]:
    """Show what is being done while it is done; where standard error is no terminal, nothing."""
    stream = sys.stderr
    if not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    print(f"{text} …", end="", file=stream, flush=True)
    try:
        yield
    finally:
        print(_ERASE, end="", file=stream, flush=True)
