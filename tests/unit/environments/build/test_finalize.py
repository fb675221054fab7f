"""What builds leave behind for the janitor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sqb.environments.build.finalize import touch_environment
from sqb.environments.model import Environment, Status
from support.memory_store import MemoryStore

MADE = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(("ttl", "minutes", "noted"), [(3600.0, 10, True), (3600.0, 5, False), (None, 10**6, False)])
def test_an_environment_that_is_built_lives_on(ttl: float | None, minutes: int, noted: bool) -> None:
    store, now = MemoryStore(), MADE + timedelta(minutes=minutes)
    environment = Environment("pr", Status.FINALIZED, MADE, MADE, ttl=ttl)
    with store.lock("pr", "me") as token:
        store.set_environment(environment, token)
        touch_environment(store, environment, token, now)
    assert store.read_environments()["pr"].updated_at == (now if noted else MADE)
