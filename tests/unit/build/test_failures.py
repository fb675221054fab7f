"""The place of an error that says none itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.build.failures import explained
from sqb.errors import BuildError, InternalError, QueryFailed, SparkLost
from sqb.errors_connections import SparkDisconnected
from sqb.names import At


@pytest.mark.parametrize(
    ("python", "place"),
    [({}, "models/a.sql"), ({"at": ["python/models/a.py", 4, 5, 1]}, "python/models/a.py:4:5")],
)
def test_an_error_without_a_place_is_that_of_the_whole_model(python: dict[str, Any], place: str) -> None:
    turn: Any = SimpleNamespace(node=SimpleNamespace(file="models/a.sql", python=python))
    engine: Any = SimpleNamespace(started=True, failed=None)
    assert str(explained(BuildError("the key is not unique"), turn, Path(), engine).at) == place


class Engine:
    """A Spark that is there or gone, with what is known of it."""

    started, failed = True, None

    def __init__(self, gone: bool, known: bool = True) -> None:
        self.gone, self._known = gone, known

    def loss(self) -> SparkDisconnected | None:
        return SparkDisconnected("the connection big broke") if self._known else None


def test_what_a_child_says_of_a_lost_spark_names_the_connection() -> None:
    """Python models raise what their child has said; it knows nothing of connections."""
    said = SparkLost("the connection to Spark broke", at=At("python/models/a.py", 4, 5, 1))
    engine: Any = Engine(gone=False)
    found = explained(said, None, Path(), engine)
    assert (found.code, found.message, found.at) == ("SQB-N224", "the connection big broke", said.at)
    unknown: Any = Engine(gone=True, known=False)
    assert explained(said, None, Path(), unknown) is said


def test_what_was_cut_off_failed_because_spark_is_gone() -> None:
    gone: Any = Engine(gone=True)
    there: Any = Engine(gone=False)
    for error in (QueryFailed("the query was cancelled"), ValueError("Cannot invoke RPC on closed channel!")):
        assert explained(error, None, Path(), gone).code == "SQB-N224"
    assert isinstance(explained(ValueError("x"), None, Path(), there), InternalError)
    of_another_kind = BuildError("the key is not unique")
    assert explained(of_another_kind, None, Path(), gone) is of_another_kind
