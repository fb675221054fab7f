"""Stopping the engine of a project."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqb.errors_engine import EngineElsewhere
from sqb.warm.description import Description, path_in, read
from sqb.warm.files import unwritable
from sqb.warm.locks import beginner, is_claimed, is_place_taken
from sqb.warm.processes import ask_to_end, is_alive, kill, wait_for_end

WAITING = "waiting for what works with the engine to finish (`sqb engine stop --now` does not wait)"
_PAUSE = 0.05
# Spark gets some seconds to end by itself, and is killed then.
_SECONDS_TO_END = 20.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """What became of an engine that was to stop: whether there was one, and whether it was alive."""

    was_there: bool
    was_alive: bool = False


def stop(folder: Path, now: bool, tell: Callable[[str], None]) -> Stopped:
    """Take the engine out of use and end it, when nobody works with it any more or `now`."""
    found = read(path_in(folder))
    if found is None:
        return _stop_start(folder)
    refuse_elsewhere(folder, found)
    alive = found.is_here and is_alive(found.pid, found.born)
    descriptor = _opened(path_in(folder))
    take_out_of_use(folder, found)
    try:
        if alive and now:
            ask_to_end(found.pid, found.born)
        if found.is_here:
            _wait(found, descriptor, now, tell)
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return Stopped(True, alive)


def refuse_elsewhere(folder: Path, found: Description) -> None:
    """Refuse to do anything about an engine that lives on another machine."""
    if not found.is_here and is_place_taken(folder):
        raise EngineElsewhere(
            f"the engine of this project runs on another machine, {found.machine}",
            hint=f"stop it there with `sqb engine stop`; if that machine is gone, remove {path_in(folder)}",
        )


def take_out_of_use(folder: Path, description: Description) -> None:
    """Let no build begin to use an engine; it ends when those that use it have finished."""
    path = path_in(folder)
    if read(path) == description:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error


def _wait(found: Description, descriptor: int | None, now: bool, tell: Callable[[str], None]) -> None:
    told = False
    until = time.monotonic() + _SECONDS_TO_END
    while is_alive(found.pid, found.born):
        if not now and descriptor is not None and is_claimed(descriptor):
            if not told:
                tell(WAITING)
            told, until = True, time.monotonic() + _SECONDS_TO_END
        elif time.monotonic() > until:
            kill(found.pid, found.born)
        time.sleep(_PAUSE)
    if not wait_for_end(found.server_pid, found.server_born, _SECONDS_TO_END):
        kill(found.server_pid, found.server_born)


def _stop_start(folder: Path) -> Stopped:
    """End a start that is under way."""
    process = beginner(folder)
    if process is None:
        return Stopped(False)
    ask_to_end(*process)
    if not wait_for_end(*process, _SECONDS_TO_END):
        kill(*process)
    # It may have become an engine in the meantime, whose description nobody needs now.
    found = read(path_in(folder))
    if found is not None and (found.pid, found.born) == process:
        take_out_of_use(folder, found)
    return Stopped(True, True)


def _opened(path: Path) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_RDONLY)
    return None
