"""Spark for questions before a build: started by the first that nothing cheaper answers, and left to the build."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.engine import LazyEngine

Tell = Callable[[str], None]


class Asker:
    """The engine of one command, if it needs one."""

    def __init__(
        self, workspace: Workspace, run_id: str, tell: Tell, stop: threading.Event | None = None, given: Any = None
    ) -> None:
        self.run_id = run_id
        self.stop_asked = stop or threading.Event()
        # A session that is to be used instead of Spark of its own.
        self._given = given
        self._workspace, self._tell = workspace, tell
        self._engine: LazyEngine | None = None

    @property
    def log(self) -> Path:
        """Where Spark's words go."""
        return self._workspace.folder / "logs" / f"{self.run_id}.log"

    def engine(self, tell: Tell | None = None, width: int | None = None, functions: Collection[str] = ()) -> LazyEngine:
        """The engine, made when it is first asked for; `tell` hears from then on what it says."""
        from sqb.build.engine import LazyEngine  # nothing unchanged needs it

        self._tell = tell or self._tell
        if self._engine is None:
            width = width or self._workspace.concurrency or max(2, os.cpu_count() or 2)
            self._engine = LazyEngine(
                self._workspace, self.log, self._say, width, self.stop_asked, functions, self._given
            )
        return self._engine

    def _say(self, text: str) -> None:
        self._tell(text)

    def session(self) -> Any:
        """A session of this thread's own."""
        return self.engine().session()

    @property
    def started(self) -> bool:
        """Whether a JVM was asked for."""
        return self._engine is not None and self._engine.started

    def stop(self) -> None:
        """End Spark if it was started."""
        if self._engine is not None:
            self._engine.stop()
