"""Forks that compute ahead what this process would: they send what they learned, and end.

This process then does the same with their answers: what comes of it, and in which order, does not depend on how many
processes there were.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from sqb.light_dataclass import dataclass

# A fork and its answers cost about as much as parsing thirty queries.
_FEWEST_IN_SHARE = 60
_MOST_PROCESSES = 8
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Fork:
    """A process that computes ahead, and where its answers come from."""

    process: int
    answers: int

    def read_answers(self) -> bytes:
        """Wait for the answers; there are none where the fork ended early."""
        with os.fdopen(os.dup(self.answers), "rb") as pipe:
            return pipe.read()


def count_processes(items: int) -> int:
    """How many processes share so many items; one where forks are not safe, or there is one core."""
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), items // _FEWEST_IN_SHARE, _MOST_PROCESSES))


def map_ahead(
    items: Sequence[_Item],
    processes: int,
    ask: Callable[[_Item], _Result],
    learn: Callable[[Sequence[_Item]], bytes],
    load: Callable[[bytes], None],
) -> list[_Result]:
    """What comes of each item; forks learn of shares of them first, and what they learned is loaded before."""
    size = -(-len(items) // processes) or 1
    shares = [items[start : start + size] for start in range(0, len(items), size)]
    results = []
    with start_forks([lambda share=share: learn(share) for share in shares[1:]]) as forks:  # type: ignore[misc]
        for share, fork in zip(shares, [None, *forks], strict=bool(shares)):
            if fork is not None and (answers := fork.read_answers()):
                load(answers)
            results += [ask(item) for item in share]
    return results


@contextmanager
def start_forks(tasks: Sequence[Callable[[], bytes]]) -> Iterator[list[Fork]]:
    """A process for each task; none is left when this is."""
    sys.stdout.flush()
    sys.stderr.flush()
    forks: list[Fork] = []
    try:
        for task in tasks:
            forks.append(_start_fork(task, forks))
        yield forks
    finally:
        for fork in forks:
            os.close(fork.answers)
            with suppress(ProcessLookupError):
                os.kill(fork.process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(fork.process, 0)


def _start_fork(task: Callable[[], bytes], others: Sequence[Fork]) -> Fork:
    answers, own_end = os.pipe()
    process = os.fork()
    if process:
        os.close(own_end)
        return Fork(process, answers)
    # Whatever happens here, nothing of what this process was about to do may happen twice.
    try:
        os.close(answers)
        for other in others:
            os.close(other.answers)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        with os.fdopen(own_end, "wb") as pipe:
            pipe.write(task())
    finally:
        os._exit(0)
