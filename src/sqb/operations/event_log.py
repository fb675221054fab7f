"""What happens during a run as JSON, one event a line: for systems that read logs while they are written."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

from sqb.build.events import (
    Event,
    NodeDone,
    NodeSaid,
    NodeStarted,
    NodeWaiting,
    Notice,
    PhaseStarted,
    Progress,
    SparkStarted,
    UnitTestDone,
    UnitTestsDone,
)

_NODE_KEYS = ("name", "type", "kind", "relation", "status", "run_type", "reason", "detail", "rows", "seconds")
_MORE_KEYS = ("snapshot_id", "error", "failures")


def encode_event(event: Event) -> dict[str, Any] | None:
    """An event as data: `event` says what it is; None for what only moves a line on a terminal."""
    match event:
        case NodeStarted(name=name, kind=kind):
            return {"event": "node_started", "name": name, "kind": kind}
        case NodeDone():
            data = event.to_data()
            return {"event": "node_done", **{key: data[key] for key in (*_NODE_KEYS, *_MORE_KEYS)}}
        case UnitTestDone():
            return {"event": "test_done", **event.to_data(), "seconds": round(event.seconds, 3)}
        case UnitTestsDone(tests=tests, seconds=seconds):
            failed = sum(test.status == "failed" for test in tests)
            counts = {"passed": len(tests) - failed, "failed": failed}
            return {"event": "tests_done", **counts, "seconds": round(seconds, 3)}
        case SparkStarted(seconds=seconds):
            return {"event": "spark_started", "seconds": round(seconds, 3)}
        case NodeSaid(text=text):
            return {"event": "node_said", "text": text}
        case Notice(text=text):
            return {"event": "notice", "text": text}
        case Progress(text=text) if text:
            return {"event": "progress", "text": text}
        case NodeWaiting() | PhaseStarted() | Progress():
            return None


@dataclass(slots=True)
class EventLog:
    """Writes events to a stream as they happen, each with its time and the id of its run; None before it has begun."""

    stream: TextIO
    run_id: str | None
    stopping: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: Event) -> None:
        data = encode_event(event)
        if data is not None:
            self.write(data)

    def write(self, data: dict[str, Any]) -> None:
        """Write one line."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        whole = {"event": data["event"], "ts": now, "run_id": self.run_id, **data}
        with self._lock:
            self.stream.write(json.dumps(whole, ensure_ascii=False, default=str) + "\n")
            self.stream.flush()
