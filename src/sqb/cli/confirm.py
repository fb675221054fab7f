"""Asking before something is done that cannot be taken back."""

from __future__ import annotations

import sys
from collections.abc import Callable

from sqb.errors.call import CallError


def build_confirm(yes: bool) -> Callable[[str], None]:
    """A function that goes on when the answer is yes: given with --yes, or typed at a terminal."""
    return _accept if yes else _ask


def _accept(question: str) -> None:
    """--yes has answered it."""


def _ask(question: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CallError(f"this needs to be confirmed: {question}", hint="--yes confirms it")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CallError("nothing was done: it was not confirmed", hint="--yes confirms it")
