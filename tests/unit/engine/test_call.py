"""What a command and the worker that does its work must have in common."""

from __future__ import annotations

import pytest

from sqb.engine import call


def test_an_engine_is_started_with_what_the_command_was_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "_started_with", {})
    assert "SPARK_BUFFER_SIZE" not in call.list_start_environment()
    call.remember_environment()
    before = call.describe_process(call.list_start_environment())
    # PySpark sets such when it starts Java; a worker with them would refuse every later command.
    monkeypatch.setenv("SPARK_BUFFER_SIZE", "65536")
    assert call.describe_process(call.list_start_environment()) == before
    assert "SPARK_BUFFER_SIZE" not in call.list_start_environment()


def test_without_a_command_it_is_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "_started_with", {})
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert call.list_start_environment()["SPARK_HOME"] == "/opt/spark"
