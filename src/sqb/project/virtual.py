"""`[virtual]`: whether builds go into virtual environments, and where these are kept."""

from __future__ import annotations

from dataclasses import dataclass

_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class VirtualSettings:
    """How virtual environments are kept; ages are in seconds."""

    enabled: bool = False
    # Where refs and checkpoints are: duckdb:///path or postgresql://…
    state: str = "duckdb:///lake/state.duckdb"
    # The environment whose views have the names that models have without environments.
    unsuffixed: str | None = None
    # The environment that new ones begin as; the one that is called like the target where nothing is said.
    baseline: str | None = None
    # How long environments live after their last build, the baseline and the unsuffixed one excepted; for ever if None.
    ttl: float | None = None
    # How long versions stay that no environment and no checkpoint refers to.
    grace: float = 7 * _DAY
    # How many checkpoints of each environment are kept.
    keep_checkpoints: int = 20
