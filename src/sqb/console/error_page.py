"""The page of an error on a terminal: Markdown with what only browsers need left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqb.console.style import Paint
from sqb.errors.read_page import ErrorPage

_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def format_page(page: ErrorPage, paint: Paint) -> Iterator[str]:
    """A page as lines."""
    is_code = False
    for line in page.text.rstrip().splitlines():
        if line.startswith("```"):
            is_code = not is_code
        elif is_code:
            yield f"    {line}" if line else ""
        elif line.startswith("#"):
            yield paint(line.lstrip("# "), "bold")
        else:
            yield _LINK.sub(r"\1", line)


def format_titles(titles: Mapping[str, str]) -> Iterator[str]:
    """All errors, a line for each."""
    for code, title in titles.items():
        yield f"{code}  " + _LINK.sub(r"\1", title)
