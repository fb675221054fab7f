"""Markdown as GitHub and GitLab show it, with texts from tables and projects that must not be read as markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

# Whatever could begin markup, a link, a mention of a person or an issue, a formula, or end a cell of a table.
_SPECIAL = frozenset("&<>|`\\*_~[]()#@!$:'\"")


def format_code(text: str) -> str:
    """A text in the type of code, shown as it is, also in a cell of a table; it has one line."""
    line = " ".join(text.splitlines()) if not text.isprintable() else text
    if "`" not in line and "|" not in line and line == line.strip() and line:
        return f"`{line}`"
    # Inside of code spans a backtick cannot be escaped, and a bar only where no backslash is before it.
    return f"<code>{''.join(f'&#{ord(c)};' if c in _SPECIAL else c for c in line)}</code>"


def format_html_code(text: str) -> str:
    """The same inside of HTML, where Markdown is not read."""
    return f"<code>{html.escape(' '.join(text.splitlines()))}</code>"


def format_fence(text: str, language: str) -> Iterator[str]:
    """Lines of code as a block, which no backtick in them ends."""
    longest = max((len(run) for run in _split_runs(text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from text.splitlines()
    yield fence


def _split_runs(text: str) -> list[str]:
    return "".join(c if c == "`" else " " for c in text).split()


def format_grid(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: frozenset[int]) -> Iterator[str]:
    """A table of cells that are Markdown already; columns of numbers are aligned to the right."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'|'.join('---:' if i in numbers else '---' for i in range(len(header)))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
