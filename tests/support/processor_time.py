"""How much processor time each test file takes, with all that its tests start: seconds on a clock depend on the load.

Processes that detach themselves, as a warm engine does, are not counted.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

_PROPERTY = "processor_seconds"
_TICKS = os.sysconf("SC_CLK_TCK")
_SHOWN = 20


class ProcessorTime:
    """Measures at the end of each file where tests run; lists the files that took most where results are collected."""

    def __init__(self) -> None:
        self._before = 0.0
        self._is_last = False
        self._by_file: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        self._is_last = nextitem is None or nextitem.path != item.path
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._is_last and call.when == "teardown":
            now = measure_processor_seconds()
            report.user_properties.append((_PROPERTY, now - self._before))
            self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self._by_file[report.nodeid.partition("::")[0]] += float(str(value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        ordered = sorted(self._by_file.items(), key=lambda item: -item[1])
        total = sum(self._by_file.values())
        terminalreporter.section(f"processor time: {total:.0f} s, and the {_SHOWN} files that took most")
        for file, seconds in ordered[:_SHOWN]:
            terminalreporter.write_line(f"{seconds:.1f}s {file}")


def measure_processor_seconds() -> float:
    """The processor time of this process and everything below it, also of what has ended."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            pid = int(folder.name)
            parents[pid] = int(fields[1])
            # utime, stime, and those of children that have ended and were waited for.
            seconds[pid] = sum(map(int, fields[11:15])) / _TICKS
    return sum(seconds[pid] for pid in seconds if _is_below(pid, os.getpid(), parents))


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == ancestor:
            return True
        pid = parents[pid]
    return False
