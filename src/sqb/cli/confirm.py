"""Asking before something is done that cannot be taken back."""

from __future__ import annotations

import sys

from sqb.errors.call import CallError


def confirm(question: str, yes: bool) -> None:
    """Go on when the answer is yes: given with --yes, or typed at a terminal."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CallError(f"this needs a confirmation: {question}", hint="--yes confirms it")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CallError("nothing was done: it was not confirmed", hint="--yes confirms it")
