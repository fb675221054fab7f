"""The warm engine as Python programs work with it: `project.engine`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqb.api.options import Listen
from sqb.build.events import Progress
from sqb.operations.engine import (
    StartEngineOptions,
    StopEngineOptions,
    inspect_project_engine,
    start_project_engine,
    stop_project_engine,
)


class Engine:
    """The commands of `sqb engine`; each returns what it prints with --json."""

    def __init__(self, root: Path, target: str | None, listen: Listen | None) -> None:
        self._root, self._target, self._listen = root, target, listen

    def start(self, *, idle_timeout: str = "30m") -> dict[str, Any]:
        """Start Spark for the project, unless it runs, and leave it running; builds use it from then on."""
        options = StartEngineOptions(self._target, idle_timeout)
        return start_project_engine(self._root, options, self._report).to_data()

    def status(self) -> dict[str, Any]:
        """Whether an engine runs that builds use."""
        return inspect_project_engine(self._root, self._target).to_data()

    def stop(self, *, now: bool = False) -> dict[str, Any]:
        """End the engine, when the builds that work with it have finished, or now."""
        return stop_project_engine(self._root, StopEngineOptions(now), self._report).to_data()

    def _report(self, text: str) -> None:
        if self._listen is not None:
            self._listen(Progress(text))
