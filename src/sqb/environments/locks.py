"""What locks of environments say to people: whose they are, for how long, and what to do about it."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from sqb.environments.values import LockInfo
from sqb.errors_environments import EnvironmentLocked, LockLost
from sqb.names import human_age

NOBODY_KNOWS = "somebody"


def new_token() -> str:
    """What proves that a lock is one's own."""
    return uuid.uuid4().hex


def age_of(since: datetime) -> float:
    """The seconds since a time; clocks of two machines may differ, and nothing is younger than new."""
    return max(0.0, (datetime.now(UTC) - since).total_seconds())


def locked(info: LockInfo) -> EnvironmentLocked:
    """The error for somebody who finds an environment locked."""
    return EnvironmentLocked(
        f"{info.environment} is being worked on by {info.owner}, for {human_age(age_of(info.since))}",
        hint="wait until that has ended; if it never will, --take-over takes the environment from it",
    )


def lost(environment: str, taker: LockInfo | None) -> LockLost:
    """The error for somebody whose lock was taken over."""
    by = f" by {taker.owner}" if taker is not None else ""
    return LockLost(
        f"{environment} was taken over{by} while this command worked; it has changed nothing there since",
        hint="look at what the other one does, then run the command again",
    )
