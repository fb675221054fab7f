"""The line that is typed at a prompt: its history, and what Tab completes."""

from __future__ import annotations

import readline
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_MOST_HISTORY = 1000
_DELIMITERS = " \t\n,()=<>+-*/;'\""


class History:
    """What was typed: a query of several lines comes back as one."""

    def __init__(self) -> None:
        self._begun = 0

    def ask(self, prompt: str, is_first: bool) -> str:
        """Ask for a line, the first of a query or one more."""
        if is_first:
            self._begun = readline.get_current_history_length()
        return input(prompt)

    def join(self, text: str) -> None:
        """Remember a whole text in the place of its lines, where it means the same on one line."""
        if "\n" not in text or "--" in text:
            return
        while (length := readline.get_current_history_length()) > self._begun:
            readline.remove_history_item(length - 1)
        readline.add_history(text.replace("\n", " "))


@contextmanager
def keep_history(path: Path) -> Iterator[History]:
    """What was typed before can be recalled, and what is typed now the next time."""
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_MOST_HISTORY)
    try:
        yield History()
    finally:
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            # Queries may hold what is not for others.
            path.touch(mode=0o600)
            readline.write_history_file(path)


@contextmanager
def complete(list_words: Callable[[], list[str]]) -> Iterator[None]:
    """Tab completes names while this lasts."""
    matches: Sequence[str] = ()

    def find(text: str, state: int) -> str | None:
        nonlocal matches
        if state == 0:
            matches = find_completions(text, list_words()) if text else ()
        return matches[state] if state < len(matches) else None

    before, delimiters = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(find)
    readline.set_completer_delims(_DELIMITERS)
    # What Apple ships under this name has other words.
    is_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before)
        readline.set_completer_delims(delimiters)


def find_completions(text: str, words: Sequence[str]) -> list[str]:
    """The words that begin with a text; after an alias and a dot those without a schema."""
    folded = text.lower()
    matches = [word for word in words if word.lower().startswith(folded)]
    alias, dot, last = text.rpartition(".")
    if matches or not dot:
        return matches
    return [f"{alias}.{word}" for word in words if "." not in word and word.lower().startswith(last.lower())]
