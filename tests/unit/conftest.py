"""Unit tests share a busy machine, so that no example of a property has a time limit of its own."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("sqb", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sqb")
