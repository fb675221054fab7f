"""What is done when a command has said all that it has to say."""

from __future__ import annotations

from collections.abc import Callable

_last: list[Callable[[], None]] = []


def do_at_end(action: Callable[[], None]) -> None:
    """Do something at the end of the command that this process runs."""
    _last.append(action)


def run_last_actions() -> None:
    """Do what commands have left for their end; none of it decides how they end."""
    while _last:
        _last.pop()()
