"""What is written down of a build into an environment for the janitor's sake."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sqb.environments.bindings import versions_of
from sqb.environments.entering import Entered
from sqb.environments.port import Store
from sqb.environments.values import Environment

# A build with nothing to do writes only when a good part of the environment's life is over.
_PART = 0.1


def note_versions(entered: Entered) -> None:
    """Keep which versions a build may make: whose tables these are must be known also when it ends too early."""
    if entered.stale:
        entered.store.add_versions(versions_of(entered, entered.stale.keys(), ""))


def note_use(store: Store, environment: Environment, token: str, now: datetime) -> None:
    """Let an environment live on that was built, though nothing of it had to move."""
    if environment.ttl is not None and now > environment.updated_at + timedelta(seconds=environment.ttl * _PART):
        store.set_environment(replace(environment, updated_at=now), token)
