"""The process that imports the modules of `python/`: it is started, listened to, and ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# How long the import of one module may take. What it imports counts, and that may be large.
SECONDS = 120.0
_GRACE = 5.0


@dataclass(slots=True)
class ImportReport:
    """What the process reported: failures of modules, and in the end what it found."""

    failures: list[dict[str, Any]] = field(default_factory=list)
    found: dict[str, Any] | None = None


def import_modules(root: Path, folder: Path, modules: Mapping[str, str], seconds: float = SECONDS) -> ImportReport:
    """Import modules (names with their files) in a process of their own, anew without each that ends it."""
    heard, left = ImportReport(), dict(modules)
    while True:
        now = _run_once(root, folder, left, seconds)
        if now.found is not None or not left:
            heard.found = now.found
            heard.failures += now.failures
            return heard
        # It ended with a module: what others reported will be reported again.
        heard.failures.append(now.failures[-1])
        ended = now.failures[-1]["failed"]
        if ended not in left.values():
            return heard
        left = {name: file for name, file in left.items() if file != ended}


def _run_once(root: Path, folder: Path, modules: Mapping[str, str], seconds: float) -> ImportReport:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sqb.python_runtime.discovery_worker", str(writing)],
        cwd=root,
        env=build_child_environment(),
        stdin=subprocess.PIPE,
        stdout=2,
        pass_fds=(writing,),
        start_new_session=True,
    )
    try:
        os.close(writing)
        task = {"folder": str(folder), "modules": dict(modules), "seconds": seconds}
        # Anything that ends the process early is seen by what it does not say.
        with suppress(BrokenPipeError), process.stdin as asking:  # type: ignore[union-attr]
            asking.write(json.dumps(task).encode())
        return _listen(process, reading, seconds)
    finally:
        # Whatever the modules started goes with it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(reading)


def build_child_environment() -> dict[str, str]:
    """The environment for code of the project: Python's path is meant from here, not from the project's folder."""
    path = os.environ.get("PYTHONPATH")
    absolute = {"PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in path.split(os.pathsep) if p)} if path else {}
    return {**os.environ, **absolute}


def _listen(process: subprocess.Popen[bytes], reading: int, seconds: float) -> ImportReport:
    heard, importing = ImportReport(), ""
    for line in _iter_lines(process, reading, seconds + _GRACE):
        try:
            message = json.loads(line)
        except ValueError:
            # Output of other code: the descriptor is open in the process that runs the code of people.
            continue
        if "nodes" in message:
            heard.found = message
            return heard
        importing = message.get("importing", importing)
        if "importing" not in message:
            heard.failures.append(message)
    code = process.poll()
    how = {"error": "ImportTimeout"} if code is None else {"error": "Ended", "code": code}
    heard.failures.append({"failed": importing, "message": "", "frames": [], **how})
    return heard


def _iter_lines(process: subprocess.Popen[bytes], reading: int, seconds: float) -> Iterator[bytes]:
    """The lines that come, until the process ended or was silent for a while."""
    buffer, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        # A process that a module left running may hold the pipe open: its end alone would say nothing.
        over = process.poll() is not None
        if not select.select([reading], [], [], 0 if over else 0.2)[0]:
            if over:
                return
            continue
        read = os.read(reading, 1 << 20)
        if not read:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
            return
        *lines, buffer = (buffer + read).split(b"\n")
        yield from lines
        deadline = time.monotonic() + seconds
