"""What happens during a build, as the values that a listener gets: `match` tells them apart."""

from __future__ import annotations

from sqb.build.events import (
    Event,
    NodeDone,
    NodeSaid,
    NodeStarted,
    NodeWaiting,
    Notice,
    PhaseStarted,
    Progress,
    SparkStarted,
    UnitTestDone,
    UnitTestsDone,
)

__all__ = [
    "Event",
    "NodeDone",
    "NodeSaid",
    "NodeStarted",
    "NodeWaiting",
    "Notice",
    "PhaseStarted",
    "Progress",
    "SparkStarted",
    "UnitTestDone",
    "UnitTestsDone",
]
