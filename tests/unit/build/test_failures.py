"""The place of an error that says none itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.build.failures import explained
from sqb.errors import BuildError


@pytest.mark.parametrize(
    ("python", "place"),
    [({}, "models/a.sql"), ({"at": ["python/models/a.py", 4, 5, 1]}, "python/models/a.py:4:5")],
)
def test_an_error_without_a_place_is_that_of_the_whole_model(python: dict[str, Any], place: str) -> None:
    turn: Any = SimpleNamespace(node=SimpleNamespace(file="models/a.sql", python=python))
    engine: Any = SimpleNamespace(started=True, failed=None)
    assert str(explained(BuildError("the key is not unique"), turn, Path(), engine).at) == place
