"""What the janitor did, as people read it."""

from __future__ import annotations

import io

import pytest

from sqb.console.janitor import format_entry, format_summary
from sqb.console.style import Paint
from sqb.lake.janitor.run import JanitorAction
from sqb.names import format_bytes

PLAIN = Paint(io.StringIO())
STAGE = JanitorAction("stage", "_sqlbuild_stage.s__t__r", "its build was killed", files=5, bytes=10_123, tables=1)
SNAPSHOTS = JanitorAction("snapshots", "s.t", "superseded", files=1, bytes=0, snapshots=2)
HISTORY = JanitorAction(
    "history", "s._sqlbuild_node_results", "old rows", files=3, bytes=2_000_000, snapshots=1, rows=1200
)
KEPT = JanitorAction("kept", "_sqlbuild_stage.s__t__q", "its build is running")


def test_lines() -> None:
    assert format_entry(STAGE, False, PLAIN) == (
        "removed   1 stage, 5 files of _sqlbuild_stage.s__t__r (10.1 kB): its build was killed"
    )
    assert format_entry(SNAPSHOTS, True, PLAIN) == "would go  2 snapshots, 1 file of s.t (0 bytes): superseded"
    assert format_entry(KEPT, False, PLAIN) == "kept      _sqlbuild_stage.s__t__q: its build is running"


def test_summaries() -> None:
    assert format_summary([], False) == format_summary([KEPT], True) == "Nothing to remove."
    everything = [STAGE, SNAPSHOTS, HISTORY, KEPT]
    assert format_summary(everything, False) == ("Freed 2.0 MB: 1 stage, 3 snapshots, 1,200 rows of history, 9 files")
    assert format_summary([SNAPSHOTS], True) == "Would free 0 bytes: 2 snapshots, 1 file"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_234_567_890, "1.2 GB"),
        (10**18, "1000.0 PB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert format_bytes(count) == text
