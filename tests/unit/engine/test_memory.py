"""What an engine holds is the memory of all processes of its session."""

from __future__ import annotations

import subprocess
import sys

from sqb.engine.memory import measure_memory


def test_the_memory_of_a_session_is_that_of_all_of_it() -> None:
    code = (
        "import subprocess, sys\n"
        "held = b'x' * 30_000_000\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c',"
        " 'import sys; held = b\"y\" * 40_000_000; print(1, flush=True); sys.stdin.read()'],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(1, flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdout.readline()
        held = measure_memory(process.pid)
        assert held is not None and 70_000_000 < held < 200_000_000
    finally:
        process.stdin.close()
        process.wait(30)
    assert measure_memory(process.pid) is None
