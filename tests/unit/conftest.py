"""Unit tests share a busy machine, so that no example of a property has a time limit of its own."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from sqb.project.config import secrets
from support.examples import count_examples

settings.register_profile(
    "sqb", deadline=None, max_examples=count_examples(50), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sqb")


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has come to know it hides from then on, and tests call anything a secret."""
    monkeypatch.setattr(secrets, "_KNOWN", set())
