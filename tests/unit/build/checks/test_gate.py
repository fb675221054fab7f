"""Nothing is published before the checks are known to fit, and waiting for that is nobody's run time."""

from __future__ import annotations

import threading
import time

import pytest

from sqb.build.checks.gate import ChecksGate, WaitClock
from sqb.errors.base import SqbError
from sqb.errors.build import BuildError, Interrupted


def new_gate(stop: threading.Event | None = None) -> tuple[ChecksGate, WaitClock]:
    clock = WaitClock()
    return ChecksGate(clock, stop or threading.Event()), clock


def refuse() -> None:
    raise BuildError("a check does not fit")


def test_an_open_gate_lets_everything_through() -> None:
    gate, _ = new_gate()
    gate.open_after(lambda: None)
    gate.wait()
    gate.hold()
    gate.settle()
    assert gate.error is None and gate.held == 0


def test_whoever_has_done_what_it_can_is_held_until_the_checks_fit() -> None:
    gate, _ = new_gate()
    published, messages = threading.Event(), threading.Event()

    def publish() -> None:
        gate.hold(messages.set)
        published.set()

    worker = threading.Thread(target=publish)
    worker.start()
    while not gate.held:
        time.sleep(0.01)
    assert messages.is_set() and not published.is_set()
    gate.open_after(lambda: None)
    worker.join(30)
    assert published.is_set() and gate.held == 0


def test_a_gate_that_stays_closed_publishes_nothing_and_says_why_once() -> None:
    gate, _ = new_gate()
    gate.open_after(refuse)
    for wait in (gate.wait, gate.hold):
        with pytest.raises(Interrupted):
            wait()
    for tell in (gate.settle, gate.raise_error):
        with pytest.raises(SqbError, match="a check does not fit"):
            tell()
    assert gate.held == 0


def test_a_build_that_is_to_end_does_not_wait() -> None:
    stop = threading.Event()
    gate, _ = new_gate(stop)
    stop.set()
    with pytest.raises(Interrupted):
        gate.hold()
    gate.settle()


def test_what_fails_beside_the_project_opens_it() -> None:
    gate, _ = new_gate()

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gate.open_after(fail)
    gate.wait()


def test_waiting_is_counted_for_each_thread() -> None:
    _, clock = new_gate()
    others: list[float] = []
    with clock.count_wait():
        time.sleep(0.05)
        with clock.count_wait():
            time.sleep(0.05)
    assert clock.waited >= 0.1
    outer, began = clock.waited, time.monotonic()
    with clock.count_wait():
        time.sleep(0.01)
    assert clock.waited - outer <= time.monotonic() - began, "what is inside is not counted twice"
    thread = threading.Thread(target=lambda: others.append(clock.waited))
    thread.start()
    thread.join()
    assert others == [0.0]
