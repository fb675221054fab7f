"""Settings of a project that every command has at hand: when a refresh pays, what stays how long, events."""

from __future__ import annotations

from typing import Literal, get_args

from sqb.light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CostGate:
    """Fewer input rows than `min_rows`, or a larger share of them rewritten than `max_share`: a rebuild is faster.

    The defaults are on the safe side of where the two cross over in bench/incremental.py.
    """

    min_rows: int = 1_000_000
    max_share: float = 0.3
    # A table of up to so many rows is written anew as a whole, and not file by file.
    small_rows: int = 200_000

    @property
    def min_additive_rows(self) -> int:
        """The number of input rows from which adding changes to the figures of groups is faster than a rebuild.

        It costs a fixed time more than other ways (bench/star.py), as the figures are written besides the table.
        """
        return 2 * self.min_rows

    def explain_rebuild(self, total: int, changed: int) -> str | None:
        """Why following the changes would not pay, with the numbers; None when it does."""
        if total < self.min_rows:
            return f"{total:,} input rows: under {self.min_rows:,} a rebuild is faster"
        # A row that was rewritten again and again counts each time: more than all of them is all of them.
        share = min(changed, total) / max(1, total)
        if share > self.max_share:
            return f"{share:.0%} of {total:,} input rows were rewritten: over {self.max_share:.0%} a rebuild is faster"
        return None


# When a command leaves an engine for the next one: at a terminal, always, or never.
EngineMode = Literal["auto", "on", "off"]
ENGINE_MODES: tuple[EngineMode, ...] = get_args(EngineMode)

_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages in seconds from which the janitor may remove what is not needed."""

    # Stages of runs on other machines, of which this machine cannot tell whether they are alive.
    stages: float = 7 * _DAY
    # Files that no table leads to and no known run has written: another process may be about to commit them.
    files: float = 3 * _DAY
    history: float = 90 * _DAY
    # Counted from when another snapshot took its place.
    snapshots: float = 30 * _DAY
    keep_snapshots: int = 5
    # How long a clone shares files with its source.
    clones: float = 30 * _DAY


@dataclass(frozen=True, slots=True)
class OpenLineageSettings:
    """The settings of OpenLineage events; what the variables and files of its client say comes before them."""

    # None where the other settings decide.
    enabled: bool | None = None
    url: str = ""
    # Relative to the project.
    file: str = ""
    # Of jobs, and of tables.
    namespace: str = ""
    dataset_namespace: str = ""
