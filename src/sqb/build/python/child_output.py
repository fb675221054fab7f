"""What a child prints, as lines that say whose they are; a flood is cut off, and bytes are shown as such."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

_LONGEST = 2_000
_MOST_LINES = 10_000
# Colours and cursor movements, which mean nothing in a line among others.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")


class ChildOutput:
    """The lines of one child."""

    def __init__(self, name: str, log: Callable[[str], None]) -> None:
        self._name, self._log = name, log
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._rest = ""
        self._lines = 0
        # The last line, for errors without another explanation.
        self.last = ""

    def feed(self, data: bytes) -> None:
        """Take in what was read."""
        *whole, rest = (self._rest + self._decode(data)).split("\n")
        for line in whole:
            self._log_line(line)
        # The rest of a line that is too long anyway need not be kept.
        self._rest = rest[: 2 * _LONGEST]

    def close(self) -> None:
        """Show what is left, and how much was not shown."""
        rest, self._rest = self._rest + self._decode(b"", True), ""
        if rest:
            self._log_line(rest)
        if self._lines > _MOST_LINES:
            self._log(f"{self._name}: … {self._lines - _MOST_LINES:,} more lines")
            self._lines = _MOST_LINES

    def _log_line(self, line: str) -> None:
        # A progress bar draws itself again and again: what is there in the end counts.
        line = _ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()
        if not line:
            return
        self._lines += 1
        excerpt = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
        self.last = "".join(c if c.isprintable() or c == "\t" else "�" for c in excerpt)
        if self._lines <= _MOST_LINES:
            self._log(f"{self._name}: {self.last}")
