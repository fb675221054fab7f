"""Colour, where the terminal wants it, and the room that texts take there."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from typing import TextIO

_CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "dim": "2", "bold": "1"}
# Colours, and links to pages: they take no room.
_CONTROL = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;.*?\x1b\\")
# How far the rest of a line that is broken stands in from its beginning.
_HANG = 2


def is_colour_enabled(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


class Paint:
    """Paints texts for one stream, or leaves them alone."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.enabled = is_colour_enabled(stream or sys.stdout)

    @classmethod
    def plain(cls) -> Paint:
        """One that leaves all texts alone, whatever the environment says."""
        paint = cls.__new__(cls)
        paint.enabled = False
        return paint

    def __call__(self, text: str, *styles: str) -> str:
        if not self.enabled or not text:
            return text
        return f"\x1b[{';'.join(_CODES[s] for s in styles)}m{text}\x1b[0m"


def get_terminal_width(stream: TextIO) -> int | None:
    """How many columns a terminal has; None where the stream is none, or does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else None
    except (OSError, ValueError):
        return None


def measure_text(text: str) -> int:
    """How many columns of a terminal a text takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def cut_text(text: str, width: int | None) -> str:
    """As much of a text as a line of a terminal has room for; all of it where there is no terminal."""
    if width is None or measure_text(text) <= width:
        return text
    room = max(1, width - 1)
    while measure_text(text) > room:
        text = text[: min(len(text) - 1, room)]
    return text + "…"


def wrap_line(line: str, width: int | None) -> Iterator[str]:
    """A line as those that a terminal has room for, broken between words; the rest stands in a little.

    A word that has no room stays whole, and so does the line where there is no terminal.
    """
    if width is None or (len(line) <= width and line.isascii()) or _measure_painted(line) <= width:
        yield line
        return
    first, *words = re.split(r"( +)", line.rstrip())
    if not first and words:  # the line stands in itself
        first, words = "".join(words[:2]), words[2:]
    begin = " " * (len(line) - len(line.lstrip(" ")) + _HANG)
    current = first
    for gap, word in zip(words[::2], words[1::2], strict=True):
        if _measure_painted(current + gap + word) <= width:
            current += gap + word
        else:
            yield current
            current = begin + word
    yield current


def _measure_painted(text: str) -> int:
    return measure_text(_CONTROL.sub("", text) if "\x1b" in text else text)
