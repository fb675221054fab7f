"""Real Spark servers of one test process, and the command on projects that use them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.proxy import Proxy
    from support.spark_servers import SparkServer

SQB = Path(sys.executable).with_name("sqb")
TOKEN = "hush/of=tests+1"
_CASES = Path(__file__).parent.parent / "cases"


@pytest.fixture(scope="session")
def connect_server() -> Iterator[SparkServer]:
    """A Spark Connect server that wants a token."""
    from support.spark_servers import start_connect_server

    server = start_connect_server(token=TOKEN)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[SparkServer]:
    """A standalone cluster of a master and two workers."""
    from support.spark_servers import start_cluster

    server = start_cluster()
    yield server
    server.stop()


class Shop:
    """A project on a Spark server."""

    def __init__(self, root: Path, spark: str) -> None:
        self.root = root
        self.write("sqlbuild_project.toml", f'name = "shop"\n[connections.big]\nspark = {{ {spark} }}\n')
        self.write("models/first.sql", "SELECT 1 AS id")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(SQB), *arguments],
            cwd=self.root,
            env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def python(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """What a script in the project's folder said."""
        return subprocess.run(
            [sys.executable, "-c", script],
            cwd=self.root,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def sqb(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """How the command ended, and all that it said."""
        process = self.start(*arguments, **variables)
        messages, _ = process.communicate(timeout=120)
        return process.returncode, messages


def cut_after(build: subprocess.Popen[str], line: str, proxy: Proxy, timeout: float) -> tuple[str, float]:
    """Cut the network of a build a second after it said a line; all that it said, and how long it lived on."""
    assert build.stdout is not None
    lines = []
    for messages in build.stdout:
        lines.append(messages)
        if messages.startswith(line):
            break
    time.sleep(1)
    proxy.cut()
    began = time.monotonic()
    rest = build.communicate(timeout=timeout)[0]
    return "".join(lines) + rest, time.monotonic() - began


def run_cases(address: str, folder: Path, *cases: str, variables: Mapping[str, str] | None = None) -> list[str]:
    """Run behaviours on a server, in a process of their own; what did not hold. `make cluster` runs all there are."""
    import json

    every = bool(os.environ.get("SQB_EVERY_CASE"))
    if every:
        cases = (*cases, *sorted({path.parent.name for path in _CASES.glob("*/steps.yml")} - set(cases)))
    done = subprocess.run(
        [sys.executable, "-m", "support.run_cases", address, str(folder), *cases],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=None if every else 280,
        check=False,
    )
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    assert [one["case"] for one in messages] == ["", *cases], done.stdout + done.stderr
    print(*(f"{one['case'] or 'start'}: {one['seconds']} s" for one in messages), sep="\n")
    return [f"{one['case']}: {one['error']}" for one in messages if one["error"]]
