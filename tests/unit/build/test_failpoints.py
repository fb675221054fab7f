"""Where a build is cut off when a test says so."""

from __future__ import annotations

import pytest

from sqb.build import failpoints
from sqb.build.failpoints import Step, read_failpoint

STORY: tuple[tuple[Step, str], ...] = (
    ("planned", ""),
    ("written", "a"),
    ("published", "a"),
    ("written", "b"),
    ("published", "b"),
    ("view created", "c"),
    ("written", "d"),
    ("before history", ""),
)


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ("", None),
        ("kill:written:", ("written", "a")),
        ("kill:written:b", ("written", "b")),
        ("kill:written::1", ("written", "b")),
        # What has just been published is not one of those before it.
        ("kill:published::1", ("published", "b")),
        ("kill:written::3", ("written", "d")),
        ("kill:written:b:2", None),
        ("kill:before history::2", ("before history", "")),
    ],
)
def test_a_fault_ends_the_build_at_its_step(
    fault: str, end: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, number: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("SQB_FAULT", fault)
    monkeypatch.setattr(failpoints.os, "kill", kill)
    announce = read_failpoint()
    ended = None
    for step, node in STORY:
        try:
            announce(step, node)
        except KeyboardInterrupt:
            ended = (step, node)
            break
    assert ended == end
