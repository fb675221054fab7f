"""What a server that stays does about sessions that builds left behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sqb.names import parse_duration
from sqb.spark.connect import server, sessions
from sqb.spark.connect.server import ConnectServer
from sqb.spark.private_api import attach_copy


def test_builds_touch_their_sessions_before_the_engine_forgets_them() -> None:
    timeout = parse_duration(server._SERVING["spark.connect.session.manager.defaultSessionTimeout"])
    assert timeout is not None and timeout > 3 * sessions._SECONDS_BETWEEN_TOUCHES


def test_copies_for_child_processes_are_touched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        def __init__(self) -> None:
            self.asked = 0
            self.client = SimpleNamespace(close=lambda: None, _channel=SimpleNamespace(close=lambda: None))

        @property
        def version(self) -> str:
            self.asked += 1
            return "4"

    monkeypatch.setattr(sessions, "Heartbeat", lambda *_: SimpleNamespace(end=lambda: None))
    monkeypatch.setattr(sessions, "_SECONDS_BETWEEN_TOUCHES", -1.0)
    base, own, copy = Session(), Session(), Session()
    group = sessions.ConnectSessions(base, lambda: None)  # type: ignore[arg-type,return-value]
    attach_copy(own, copy)
    group._created.append(own)
    group._ping()
    assert (base.asked, own.asked, copy.asked) == (1, 1, 1)


def test_a_session_that_the_server_has_forgotten_is_not_the_end_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        client = SimpleNamespace(close=lambda: None, _channel=SimpleNamespace(close=lambda: None))
        version = "4"

    class Released(Session):
        @property
        def version(self) -> str:  # type: ignore[override]
            raise RuntimeError("INVALID_HANDLE.SESSION_CLOSED")

    monkeypatch.setattr(sessions, "Heartbeat", lambda *_: SimpleNamespace(end=lambda: None))
    monkeypatch.setattr(sessions, "_SECONDS_BETWEEN_TOUCHES", -1.0)
    own = Session()
    attach_copy(own, Released())
    group = sessions.ConnectSessions(Session(), lambda: None)  # type: ignore[arg-type,return-value]
    group._created.append(own)
    group._ping()
    assert group.alive()


@pytest.mark.parametrize(("free", "stays"), [(900, True), (300, True), (100, False)])
def test_a_server_whose_heap_stays_full_is_replaced(free: int, stays: bool) -> None:
    runtime = SimpleNamespace(totalMemory=lambda: 1000, freeMemory=lambda: free, maxMemory=lambda: 1000)
    lang: Any = SimpleNamespace(Runtime=SimpleNamespace(getRuntime=lambda: runtime))
    jvm = SimpleNamespace(System=SimpleNamespace(gc=lambda: None), java=SimpleNamespace(lang=lang))
    one = ConnectServer.__new__(ConnectServer)
    one._engine = SimpleNamespace(worker_session=lambda: SimpleNamespace(_jvm=jvm))  # type: ignore[assignment]
    one.pid = 0
    assert one.tidy() is stays
