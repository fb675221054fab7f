"""How long a model took when it was last refreshed and when it was last rebuilt: its own past, as its commit holds it.

What metadata tells of costs is an estimate in rows. The past tells what these rows take, on this model's machines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal

Run = Literal["full", "incremental"]
# A refresh that lost against rebuilds is tried again after so many of them: what made it slow may be gone.
_TRIED_AGAIN_AFTER = 5
# Of each sort so many runs are kept, and the quickest counts: what else a machine does only ever makes them slower.
_RUNS_KEPT = 3
# Shorter differences, and times of fewer rows, are noise.
_SECONDS_THAT_MATTER = 0.1
_ROWS_THAT_TELL = 1_000_000
_AT_MOST = 1.1


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of a run, the rows that it had to read, and how many runs of the other sort came after it."""

    seconds: float
    rows: int
    age: int = 0
    # The runs of the same sort before it, the last one first: their seconds and rows.
    earlier: tuple[tuple[float, int], ...] = ()

    def predict(self, rows: int, per_row: float) -> float:
        """The seconds that so many rows would take by the quickest of the runs; each more takes at most so long."""
        return min(seconds + per_row * max(0, rows - read) for seconds, read in self._runs)

    @property
    def per_row(self) -> float:
        return min(seconds / max(1, rows) for seconds, rows in self._runs)

    @property
    def _runs(self) -> tuple[tuple[float, int], ...]:
        return ((self.seconds, self.rows), *self.earlier)


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
            case [int() | float() as seconds, int(rows), int(age), *more]:
                found[run] = Timing(float(seconds), rows, age, _parse_earlier(more))
    return found


def _parse_earlier(listed: list[object]) -> tuple[tuple[float, int], ...]:
    runs = []
    for entry in listed:
        match entry:
            case [int() | float() as seconds, int(rows)]:
                runs.append((float(seconds), rows))
    return tuple(runs)


def record_timing(text: str, run: Run, seconds: float, rows: int) -> str:
    """What a commit tells of the last runs, with one more."""
    past = parse_timings(text)
    runs: dict[Run, Timing] = {
        name: replace(t, age=t.age + 1) for name, t in past.items() if name != run and t.age < _TRIED_AGAIN_AFTER
    }
    last = past.get(run)
    earlier = ((last.seconds, last.rows), *last.earlier)[: _RUNS_KEPT - 1] if last is not None else ()
    runs[run] = Timing(round(seconds, 3), rows, 0, earlier)
    return json.dumps({name: [t.seconds, t.rows, t.age, *t.earlier] for name, t in runs.items()}, sort_keys=True)


def predict_times(text: str, refresh_rows: int, rebuild_rows: int) -> ExpectedTimes | None:
    """What a refresh and a rebuild would take by the past; None where it does not tell of both."""
    past = parse_timings(text)
    if rebuild_rows < _ROWS_THAT_TELL or "full" not in past or "incremental" not in past:
        return None
    # Of a refresh most is spent whatever the rows; each more takes at most what a row takes in a rebuild.
    per_row = past["full"].per_row
    refresh, rebuild = past["incremental"].predict(refresh_rows, per_row), past["full"].predict(rebuild_rows, per_row)
    return ExpectedTimes(refresh, rebuild)


def has_refreshed(text: str) -> bool:
    """Whether the past tells how long a refresh took."""
    return "incremental" in parse_timings(text)


def predict_rebuild(text: str, rows: int) -> float | None:
    """What a rebuild would take by the past; None where it does not tell."""
    full = parse_timings(text).get("full")
    return full.predict(rows, full.per_row) if full is not None and rows >= _ROWS_THAT_TELL else None
