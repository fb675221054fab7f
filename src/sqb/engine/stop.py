"""Stopping the engine of a project."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqb.engine.descriptor import EngineDescriptor, build_unwritable_error, get_path, read_descriptor
from sqb.engine.locks import is_claimed, is_supervised, read_supervisor
from sqb.engine.process_identity import is_alive, kill, terminate, wait_for_end
from sqb.errors.spark import EngineElsewhere

WAITING_MESSAGE = "waiting for what works with the engine to finish (`sqb engine stop --now` does not wait)"
_POLL_SECONDS = 0.05
# Spark gets some seconds to end by itself, and is killed then.
_SECONDS_TO_END = 20.0


@dataclass(frozen=True, slots=True)
class StoppedEngine:
    """What became of an engine that was to stop: whether there was one, and whether it was alive."""

    was_there: bool
    was_alive: bool = False


def stop_engine(folder: Path, immediately: bool, report: Callable[[str], None]) -> StoppedEngine:
    """Withdraw the engine and end it when the last build has released it, or immediately."""
    engine = read_descriptor(get_path(folder))
    if engine is None:
        return _cancel_start(folder)
    refuse_other_machine(folder, engine)
    alive = engine.is_here and is_alive(engine.pid, engine.born)
    descriptor = _open_descriptor(get_path(folder))
    withdraw_engine(folder, engine)
    try:
        if alive and immediately:
            terminate(engine.pid, engine.born)
        if engine.is_here:
            _wait_for_end(engine, descriptor, immediately, report)
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return StoppedEngine(True, alive)


def refuse_other_machine(folder: Path, engine: EngineDescriptor) -> None:
    """Refuse to do anything about an engine that lives on another machine."""
    if not engine.is_here and is_supervised(folder):
        raise EngineElsewhere(
            f"the engine of this project runs on another machine, {engine.machine}",
            hint=f"stop it there with `sqb engine stop`; if that machine is gone, remove {get_path(folder)}",
        )


def withdraw_engine(folder: Path, description: EngineDescriptor) -> None:
    """Let no build begin to use an engine; it ends when those that use it have finished."""
    path = get_path(folder)
    if read_descriptor(path) == description:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise build_unwritable_error(folder, error) from error


def _wait_for_end(
    engine: EngineDescriptor, descriptor: int | None, immediately: bool, report: Callable[[str], None]
) -> None:
    is_reported = False
    deadline = time.monotonic() + _SECONDS_TO_END
    while is_alive(engine.pid, engine.born):
        if not immediately and descriptor is not None and is_claimed(descriptor):
            if not is_reported:
                report(WAITING_MESSAGE)
            is_reported, deadline = True, time.monotonic() + _SECONDS_TO_END
        elif time.monotonic() > deadline:
            kill(engine.pid, engine.born)
        time.sleep(_POLL_SECONDS)
    if not wait_for_end(engine.server_pid, engine.server_born, _SECONDS_TO_END):
        kill(engine.server_pid, engine.server_born)


def _cancel_start(folder: Path) -> StoppedEngine:
    """End a start that is under way."""
    process = read_supervisor(folder)
    if process is None:
        return StoppedEngine(False)
    terminate(*process)
    if not wait_for_end(*process, _SECONDS_TO_END):
        kill(*process)
    # It may have become an engine in the meantime, whose descriptor is not needed now.
    engine = read_descriptor(get_path(folder))
    if engine is not None and (engine.pid, engine.born) == process:
        withdraw_engine(folder, engine)
    return StoppedEngine(True, True)


def _open_descriptor(path: Path) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_RDONLY)
    return None
