"""How long a model took when it was last refreshed and when it was last rebuilt: its own past, as its commit holds it.

What metadata tells of costs is an estimate in rows. The past tells what these rows take, on this model's machines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

Run = Literal["full", "incremental"]
# A refresh that lost against rebuilds is tried again after so many of them: what made it slow may be gone.
_TRIED_AGAIN_AFTER = 5
# Shorter differences, and times of fewer rows, are noise.
_SECONDS_THAT_MATTER = 0.5
_ROWS_THAT_TELL = 1_000_000
_AT_MOST = 1.1


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of a run, the rows that it had to read, and how many runs of the other sort came after it."""

    seconds: float
    rows: int
    age: int = 0


@dataclass(frozen=True, slots=True)
class ExpectedTimes:
    """The seconds that a refresh and a rebuild are expected to take, by the last ones."""

    refresh: float
    rebuild: float

    @property
    def is_rebuild_faster(self) -> bool:
        return self.refresh > _AT_MOST * self.rebuild and self.refresh - self.rebuild > _SECONDS_THAT_MATTER


def parse_timings(text: str) -> dict[Run, Timing]:
    """The last runs that a commit tells of; what is not understood counts as nothing."""
    try:
        listed = json.loads(text or "{}")
    except ValueError:
        return {}
    found: dict[Run, Timing] = {}
    for run in ("full", "incremental"):
        match listed.get(run) if isinstance(listed, dict) else None:
            case [int() | float() as seconds, int(rows), int(age)]:
                found[run] = Timing(float(seconds), rows, age)
    return found


def record_timing(text: str, run: Run, seconds: float, rows: int) -> str:
    """What a commit tells of the last runs, with one more."""
    past = parse_timings(text)
    runs = {
        name: [t.seconds, t.rows, t.age + 1] for name, t in past.items() if name != run and t.age < _TRIED_AGAIN_AFTER
    }
    return json.dumps({**runs, run: [round(seconds, 3), rows, 0]}, sort_keys=True)


def predict_times(text: str, refresh_rows: int, rebuild_rows: int) -> ExpectedTimes | None:
    """What a refresh and a rebuild would take by the past; None where it does not tell of both."""
    past = parse_timings(text)
    if rebuild_rows < _ROWS_THAT_TELL or "full" not in past or "incremental" not in past:
        return None
    # Of a refresh most is spent whatever the rows; each more takes at most what a row takes in a rebuild.
    per_row = past["full"].seconds / max(1, past["full"].rows)
    refresh, rebuild = (
        timing.seconds + per_row * max(0, rows - timing.rows)
        for timing, rows in ((past["incremental"], refresh_rows), (past["full"], rebuild_rows))
    )
    return ExpectedTimes(refresh, rebuild)
