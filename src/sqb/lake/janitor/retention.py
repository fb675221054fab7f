"""What may go, decided from facts alone: nothing here looks at a lake or removes anything.

The caller gathers the facts in this order: files are listed first, then the catalog is read, then the tables' metadata.
A file that was there at the first look and that neither a stage nor a table knows at the second is an orphan: a stage
is in the catalog before its first file is written, and until its files are in the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Literal

from sqb.lake.port import Run
from sqb.light_dataclass import dataclass
from sqb.project.config.settings import Retention

_RUN_ID = r"\d{8}_\d{6}_[0-9a-f]{6}"
_STAGE_NAME = re.compile(rf"__({_RUN_ID})$")
_RUN_FOLDER = re.compile(rf"/data/({_RUN_ID})/")
_RUN_PATH = re.compile(rf"(?:/data/|__)({_RUN_ID})(?:/|$)")


@dataclass(frozen=True, slots=True)
class StageFact:
    """A stage in the catalog, and when it was last written to."""

    name: str
    written: float

    @property
    def run_id(self) -> str | None:
        match = _STAGE_NAME.search(self.name)
        return match[1] if match else None


@dataclass(frozen=True, slots=True)
class FileFact:
    """A file in storage."""

    path: str
    size: int
    written: float


@dataclass(frozen=True, slots=True)
class SnapshotFact:
    """A snapshot of a table, with the one that it came after."""

    id: int
    parent: int | None
    made: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something may go, and why or why not."""

    may_go: bool
    why: str


def judge_stage(stage: StageFact, runs: Mapping[str, Run], now: float, keep: Retention) -> Verdict:
    """A stage goes when its run is dead, or, where that is unknown, when it is old enough."""
    run = runs.get(stage.run_id or "")
    match run.alive if run is not None else None:
        case True:
            return Verdict(False, "its build is running")
        case False:
            return Verdict(True, "its build was killed")
    where = "on another machine" if run is not None else "unknown"
    if max(stage.written, run.started if run else 0.0) > now - keep.stages:
        return Verdict(False, f"its build is {where}: it goes when it is older than stage_retention")
    return Verdict(True, f"its build is {where}, and it is older than stage_retention")


FileKind = Literal["run", "loose"]


def judge_file(
    file: FileFact, staged: Collection[str], runs: Mapping[str, Run], now: float, keep: Retention
) -> FileKind | None:
    """What a file is that no table leads to, if it may go: left by a known run, or loose.

    `staged` are the data folders of stages in the catalog; what is in them is judged with its stage.
    """
    match = _RUN_FOLDER.search(file.path)
    run = runs.get(match[1]) if match is not None else None
    if match is not None and any(file.path.startswith(f"{folder}/") for folder in staged):
        return None
    if run is not None and run.alive is False:
        return "run"
    if run is not None:
        # A living run may be about to write a stage of the same name again; one on another machine is given time.
        return "run" if run.alive is None and file.written <= now - keep.stages else None
    # Rows of a run that ended well were a table's once, and a user may want to restore them after a mistake.
    return "loose" if file.written <= now - keep.files else None


def parse_stage_run(name: str) -> str | None:
    """The run that the folder of a stage is named after."""
    match = _STAGE_NAME.search(name)
    return match[1] if match else None


def parse_path_run(path: str) -> str | None:
    """The run that a folder, or one above it, is named after."""
    match = _RUN_PATH.search(path)
    return match[1] if match else None


def find_expired_snapshots(
    snapshots: Sequence[SnapshotFact],
    current: int | None,
    refs: Collection[int],
    needed: Collection[int],
    cutoff: float,
    newest: int,
) -> tuple[int, ...]:
    """Find the snapshots that are no longer needed, oldest first.

    Kept are the `newest`, every one that a branch or tag leads to, every one that was current after `cutoff`, and every
    one since the oldest that is `needed`: a reader that has not followed the changes since then needs all of them.
    """
    by_id = {s.id: s for s in snapshots}
    line = list(_list_ancestors(current, by_id))
    retained = set(line[: max(1, newest)])
    oldest_needed = max((i for i, s in enumerate(line) if s in needed), default=-1)
    retained |= set(line[: oldest_needed + 1]) | set(needed)
    retained |= {line[i] for i in range(1, len(line)) if by_id[line[i - 1]].made > cutoff}
    main = set(line)
    for ref in refs:
        retained.add(ref)
        retained |= {s for s in _list_ancestors(ref, by_id) if s not in main}
    beside = {s.id for s in snapshots if s.id not in main and s.made > cutoff}
    return tuple(s.id for s in sorted(snapshots, key=lambda s: s.made) if s.id not in retained | beside)


def _list_ancestors(start: int | None, by_id: Mapping[int, SnapshotFact]) -> dict[int, None]:
    line: dict[int, None] = {}
    while start is not None and start in by_id and start not in line:
        line[start] = None
        start = by_id[start].parent
    return line


def find_rows_to_keep(keys: Sequence[Hashable], times: Sequence[int], cutoff: int) -> list[int]:
    """The places of rows that are young enough or the latest of their identity, by time and then by order."""
    latest: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        known = latest.get(key)
        if known is None or times[place] >= times[known]:
            latest[key] = place
    newest = set(latest.values())
    return [place for place, moment in enumerate(times) if moment >= cutoff or place in newest]


def find_oldest_reader_start(runs: Iterable[Run], now: float, keep: Retention) -> float:
    """When the oldest run began that may still be reading what was current then."""
    begun = (r.started for r in runs if r.alive or (r.alive is None and r.started > now - keep.stages))
    return min(begun, default=now)


def is_busy(runs: Iterable[Run], now: float, keep: Retention) -> bool:
    """Whether a run is alive, or may be where that is unknown."""
    return any(r.alive or (r.alive is None and r.started > now - keep.stages) for r in runs)
