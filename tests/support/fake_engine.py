"""The process of an engine whose server is no Spark: it listens, and ends when its input closes, as Spark does.

`FAKE_ENGINE` in the environment makes it misbehave: `refuses`, `dies` or `slow`; `works` gives it real workers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sqb.engine.server import WORKER_COMMAND, ServerRequest, run_server
from sqb.errors.spark import JarsUnavailable
from sqb.workspace import ProjectHome

COMMAND = (sys.executable, str(Path(__file__)))
_LISTENING = """
import socket, sys
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


class FakeServer:
    """A process that listens."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _LISTENING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.pid, self.port = self._process.pid, int(self._process.stdout.readline())

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def tidy(self) -> bool:
        return True


def serve(workspace: ProjectHome, token: str, log: Path, progress: Callable[[str], None]) -> FakeServer:
    match os.environ.get("FAKE_ENGINE"):
        case "refuses":
            raise JarsUnavailable("no jars today", hint="come back tomorrow")
        case "dies":
            print("out of order", file=sys.stderr)
            os._exit(3)
        case "slow":
            progress("taking its time")
            time.sleep(1)
    return FakeServer()


if __name__ == "__main__":
    workers = WORKER_COMMAND if os.environ.get("FAKE_ENGINE") == "works" else ()
    sys.exit(run_server(ServerRequest(**json.loads(sys.argv[1])), serve, worker_command=workers))
