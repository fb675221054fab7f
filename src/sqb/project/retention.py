"""How long the janitor leaves things alone, by the project's settings."""

from __future__ import annotations

from dataclasses import dataclass

_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages in seconds from which something that nobody needs may go."""

    # Stages of runs on other machines, of which nobody here can tell whether they are alive.
    stages: float = 7 * _DAY
    # Files that no table leads to and that no run is known to have written: somebody may be about to commit them.
    files: float = 3 * _DAY
    history: float = 90 * _DAY
    # Counted from when another snapshot took its place.
    snapshots: float = 30 * _DAY
    keep_snapshots: int = 5
    # How long a clone shares files with its source.
    clones: float = 30 * _DAY
