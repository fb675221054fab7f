"""The place of an error that says none itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.build.errors import explain_error
from sqb.errors.base import InternalError
from sqb.errors.build import BuildError, QueryFailed
from sqb.errors.connections import SparkDisconnected
from sqb.errors.spark import SparkLost
from sqb.names import At


@pytest.mark.parametrize(
    ("python", "place"),
    [({}, "models/a.sql"), ({"at": ["python/models/a.py", 4, 5, 1]}, "python/models/a.py:4:5")],
)
def test_an_error_without_a_place_is_that_of_the_whole_model(python: dict[str, Any], place: str) -> None:
    turn: Any = SimpleNamespace(node=SimpleNamespace(file="models/a.sql", python=python))
    engine: Any = SimpleNamespace(started=True, failed=None)
    assert str(explain_error(BuildError("the key is not unique"), turn, Path(), engine).at) == place


class Engine:
    """A Spark that is there or gone, with what is known of it."""

    started, failed = True, None

    def __init__(self, gone: bool, known: bool = True) -> None:
        self.gone, self._known = gone, known

    def loss(self) -> SparkDisconnected | None:
        return SparkDisconnected("the connection big broke") if self._known else None


def test_what_a_child_says_of_a_lost_spark_names_the_connection() -> None:
    """Python models raise what their child has said; it knows nothing of connections."""
    messages = SparkLost("the connection to Spark broke", at=At("python/models/a.py", 4, 5, 1))
    engine: Any = Engine(gone=False)
    text = explain_error(messages, None, Path(), engine)
    assert (text.code, text.message, text.at) == ("SQB-N224", "the connection big broke", messages.at)
    unknown: Any = Engine(gone=True, known=False)
    assert explain_error(messages, None, Path(), unknown) is messages


def test_what_was_cut_off_failed_because_spark_is_gone() -> None:
    gone: Any = Engine(gone=True)
    there: Any = Engine(gone=False)
    for error in (QueryFailed("the query was cancelled"), ValueError("Cannot invoke RPC on closed channel!")):
        assert explain_error(error, None, Path(), gone).code == "SQB-N224"
    assert isinstance(explain_error(ValueError("x"), None, Path(), there), InternalError)
    of_another_kind = BuildError("the key is not unique")
    assert explain_error(of_another_kind, None, Path(), gone) is of_another_kind
