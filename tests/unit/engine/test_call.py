"""What a command and the worker that does its work must have in common."""

from __future__ import annotations

import resource

import pytest

from sqb.cli import worker
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


def test_limits_come_with_the_call() -> None:
    limits = call.read_limits()
    assert limits["RLIMIT_NOFILE"] == resource.getrlimit(resource.RLIMIT_NOFILE)
    # What this process has already is taken without asking the system.
    worker._take_limits(limits)


def test_a_worker_that_may_not_have_the_limits_of_the_call_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: int, limit: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(worker.Refusal, match="another RLIMIT_NOFILE"):
        worker._take_limits({"RLIMIT_NOFILE": (1 << 40, 1 << 40)})
