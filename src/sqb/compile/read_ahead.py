"""A large project that nothing is known of is parsed by several processes: forks that answer what this one would ask.

A fork reads its share of the models, sends what it learned of their queries, and ends. This process then reads the same
models with these answers: what it says of them, and in which order, does not depend on how many processes there were.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from sqb.compile.drafts import Analyst
from sqb.compile.reading import Reading
from sqb.compile.resolve import Draft
from sqb.light_dataclass import dataclass
from sqb.project import files

# A fork and its answers cost about as much as parsing thirty models.
_FEWEST_IN_SHARE = 60
_MOST_PROCESSES = 8


@dataclass(frozen=True, slots=True)
class _Fork:
    """A process that reads ahead, and where its answers come from."""

    process: int
    answers: int


def read_models(reading: Reading, paths: Sequence[str]) -> list[Draft]:
    """The models of these files, in this order."""
    count = _count_processes(len(paths)) if reading.analyst.is_cold() else 1
    if count < 2:
        return [reading.read_model(path) for path in paths]
    from sqb.sql.analysis import parse  # noqa: F401  # every process needs it, so it is loaded before there are several

    size = -(-len(paths) // count)
    shares = [paths[start : start + size] for start in range(0, len(paths), size)]
    drafts = []
    with _start_forks([_build_reader(reading, share) for share in shares[1:]]) as forks:
        for share, fork in zip(shares, [None, *forks], strict=True):
            if fork is not None:
                _take_answers(fork, reading.analyst)
            drafts += [reading.read_model(path) for path in share]
    return drafts


def _count_processes(models: int) -> int:
    """How many processes read so many models; one where forks are not safe, or there is one core."""
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), models // _FEWEST_IN_SHARE, _MOST_PROCESSES))


def _build_reader(reading: Reading, paths: Sequence[str]) -> Callable[[], bytes]:
    """What a fork does: read models and give what was learned."""

    def read() -> bytes:
        for path in paths:
            if not _calls_macros(reading, path):
                reading.read_model(path)
        return reading.analyst.dump_answers()

    return read


def _calls_macros(reading: Reading, path: str) -> bool:
    """Whether reading a model would run the project's own Python, which is run once."""
    text = files.read_text(reading.root, path, reading.errors) or ""
    return any(f"@{name}" in text for name in reading.macros.functions)


@contextmanager
def _start_forks(tasks: Sequence[Callable[[], bytes]]) -> Iterator[list[_Fork]]:
    """A process for each task; none is left when this is."""
    sys.stdout.flush()
    sys.stderr.flush()
    forks: list[_Fork] = []
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


def _start_fork(task: Callable[[], bytes], others: Sequence[_Fork]) -> _Fork:
    answers, own_end = os.pipe()
    process = os.fork()
    if process:
        os.close(own_end)
        return _Fork(process, answers)
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


def _take_answers(fork: _Fork, analyst: Analyst) -> None:
    """Wait for a fork's answers; without them this process reads what the fork should have read."""
    with os.fdopen(os.dup(fork.answers), "rb") as pipe:
        data = pipe.read()
    if data:
        analyst.load_answers(data)
