"""What a build needs of Spark, whoever runs it: Spark of its own, a server, or a session that was handed in."""

from __future__ import annotations

from typing import Any, Protocol

from sqb.errors import SqbError


class Engine(Protocol):
    """A Spark that runs. Sessions are classic ones or Spark Connect's; both have the same methods."""

    def worker_session(self) -> Any:
        """A session of its own for one worker: settings and temporary views are not shared."""

    def alive(self) -> bool:
        """Whether Spark is there."""

    def loss(self) -> SqbError | None:
        """What is said when Spark went away in the middle of the work; None where nothing is known beyond that."""

    def cancel_all(self) -> None:
        """Cancel whatever this build runs; safe in a signal handler, even while a thread waits for Spark."""

    def stop(self) -> None:
        """End what was started for this build, and nothing else; a second call does nothing."""


def speaks_connect(session: Any) -> bool:
    """Whether a session is one of Spark Connect; asked of its class, so that nothing has to be loaded."""
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(session).__mro__)
