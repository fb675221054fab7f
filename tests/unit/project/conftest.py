"""What the tests of the project readers share: a collector of errors and a view of what it found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqb.errors.base import Errors

Seen = list[tuple[str, str, str | None]]


@pytest.fixture
def errors() -> Errors:
    return Errors()


@pytest.fixture
def seen(errors: Errors) -> Callable[[], Seen]:
    """The errors found so far as (class name, place, hint), in the order of a reader."""
    return lambda: [(type(e).__name__, str(e.at), e.hint) for e in sorted(errors.found, key=lambda e: e.key())]
