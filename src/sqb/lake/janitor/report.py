"""What one round of the janitor did, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ActionKind = Literal[
    "stage", "history", "tag", "snapshots", "files", "clone", "kept", "environment", "checkpoint", "version"
]


@dataclass(frozen=True, slots=True)
class JanitorAction:
    """One thing that was removed, or would be, and how much that frees; `kept` is one that stays, and why.

    A `clone` is one that was made independent: what is counted is what was copied.
    """

    what: ActionKind
    name: str
    why: str
    files: int = 0
    bytes: int = 0
    tables: int = 0
    snapshots: int = 0
    rows: int = 0
    tags: int = 0
    environments: int = 0
    views: int = 0
    checkpoints: int = 0
    # Physical tables and views of virtual environments.
    versions: int = 0
