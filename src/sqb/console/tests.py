"""Unit tests of models as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.build.events import UnitTestDone, UnitTestsDone
from sqb.compiled import UnitTest
from sqb.console.paint import Paint
from sqb.names import human_seconds


def test_line(done: UnitTestDone, paint: Paint) -> str:
    """What became of one test, on one line."""
    how = f"{done.test.name} ({done.test.model}, {human_seconds(done.seconds)})"
    return f"{paint('[OK]', 'green')} {how}" if done.status == "passed" else f"{paint('[FAIL]', 'red', 'bold')} {how}"


def tests_line(done: UnitTestsDone, paint: Paint) -> str:
    """What became of the tests of a build, on one line."""
    failed = sum(t.status == "failed" for t in done.tests)
    told = f", {paint(f'{failed} failed', 'red')}" if failed else ""
    return f"Unit tests: {len(done.tests) - failed} passed{told} ({human_seconds(done.seconds)})"


def unchanged_lines(unchanged: Sequence[UnitTest], verbose: bool, paint: Paint) -> Iterator[str]:
    """Tests that passed before and would do the same again: one line each when everything is to be told."""
    if verbose:
        yield from (f"{paint('[OK]', 'green')} {t.name} ({t.model}, skip — unchanged)" for t in unchanged)


def test_summary(passed: int, failed: int, unchanged: int, seconds: float) -> str:
    """The last line of `sqb test`."""
    return f"Done: {passed} passed, {failed} failed, {unchanged} unchanged ({human_seconds(seconds)})"
