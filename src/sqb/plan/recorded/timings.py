"""How long a model took when it was last refreshed and when it was last rebuilt: its own past, as its commit holds it.

What metadata tells of costs is an estimate in rows. The past tells what these rows take, on this model's machines.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

from sqb.light_dataclass import dataclass

Run = Literal["full", "incremental"]
# A refresh that lost against rebuilds is tried again after so many of them: what made it slow may be gone. One that
# took far longer is tried again much later.
_TRIED_AGAIN_AFTER, _TRIED_AGAIN_LATE = 5, 50
_FAR_LONGER = 1.5
# The first build of a model is often the first work of a Spark that was just started, and takes longer than any later
# rebuild. A refresh that takes more than a share of it has not won yet; it may take more if it is less work.
_SHARE_OF_A_FIRST_BUILD, _SHARE_WITH_LESS_WORK = 0.4, 0.6
# Of each sort so many runs are kept, and the quickest counts: what else a machine does only ever makes them slower.
_RUNS_KEPT = 3
# What is only estimated must be so much quicker than rebuilds were to be tried for their times alone, which may have
# been taken on a busy machine.
_SURELY_QUICKER = 0.5
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
    def is_single(self) -> bool:
        """Whether it tells of one run alone."""
        return not self.earlier

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
    # Whether the only rebuild was the first build.
    is_first_build: bool = False

    @property
    def is_rebuild_faster(self) -> bool:
        return self.refresh > _AT_MOST * self.rebuild and self.refresh - self.rebuild > _SECONDS_THAT_MATTER

    def may_rebuild_be_faster(self, is_less_work: bool) -> bool:
        """Whether a second rebuild is worth its time, to know what it takes; by the estimate a refresh may be less
        work."""
        share = _SHARE_WITH_LESS_WORK if is_less_work else _SHARE_OF_A_FIRST_BUILD
        return self.is_first_build and self.refresh > share * self.rebuild


@dataclass(frozen=True, slots=True)
class ExpectedRebuild:
    """The seconds that a rebuild is expected to take, and whether the only one so far was the first build."""

    seconds: float
    is_first_build: bool

    def is_surely_beaten_by(self, seconds: float) -> bool:
        """Whether a refresh that is estimated to take so long is worth its preparations and a try."""
        return seconds <= _SURELY_QUICKER * self.seconds


def parse_timings(text: str) -> dict[Run, Timing]:
    """The last runs that a commit tells of; what is not understood counts as nothing."""
    try:
        listed = json.loads(text or "{}")
    except ValueError:
        return {}
    by_name: dict[Run, Timing] = {}
    for run in ("full", "incremental"):
        match listed.get(run) if isinstance(listed, dict) else None:
            case [int() | float() as seconds, int(rows), int(age), *more]:
                by_name[run] = Timing(float(seconds), rows, age, _parse_earlier(more))
    return by_name


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
        name: replace(t, age=t.age + 1)
        for name, t in past.items()
        if name != run and _is_worth_keeping(name, t, seconds)
    }
    last = past.get(run)
    earlier = ((last.seconds, last.rows), *last.earlier)[: _RUNS_KEPT - 1] if last is not None else ()
    runs[run] = Timing(round(seconds, 3), rows, 0, earlier)
    return json.dumps({name: [t.seconds, t.rows, t.age, *t.earlier] for name, t in runs.items()}, sort_keys=True)


def _is_worth_keeping(run: Run, timing: Timing, other_seconds: float) -> bool:
    """Whether the times of one sort still tell something after another run of the other; those of rebuilds do."""
    if run == "full":
        return True
    return timing.age < (_TRIED_AGAIN_LATE if timing.seconds > _FAR_LONGER * other_seconds else _TRIED_AGAIN_AFTER)


def predict_times(text: str, refresh_rows: int, rebuild_rows: int) -> ExpectedTimes | None:
    """What a refresh and a rebuild would take by the past; None where it does not tell of both."""
    past = parse_timings(text)
    if rebuild_rows < _ROWS_THAT_TELL or "full" not in past or "incremental" not in past:
        return None
    # Of a refresh most is spent whatever the rows; each more takes at most what a row takes in a rebuild.
    per_row = past["full"].per_row
    refresh, rebuild = past["incremental"].predict(refresh_rows, per_row), past["full"].predict(rebuild_rows, per_row)
    return ExpectedTimes(refresh, rebuild, past["full"].is_single)


def predict_rebuild(text: str, rows: int) -> ExpectedRebuild | None:
    """What a rebuild would take by the past; None where it does not tell."""
    full = parse_timings(text).get("full")
    if full is None or rows < _ROWS_THAT_TELL:
        return None
    return ExpectedRebuild(full.predict(rows, full.per_row), full.is_single)
