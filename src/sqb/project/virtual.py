"""`[virtual]`: whether builds go into virtual environments, and where these are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from sqb.project.state_url import has_password

# Overrides `state`, so that CI keeps addresses and passwords out of files.
STATE_VARIABLE = "SQB_STATE"
# Part of the schema's name of all physical tables, so no environment can have it.
PHYSICAL = "sqb_physical"
_LONGEST_NAME = 64
NAME_RULE = f"small letters, digits and _, beginning with a letter, at most {_LONGEST_NAME}; not {PHYSICAL}"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class VirtualSettings:
    """How virtual environments are kept; ages are in seconds."""

    enabled: bool = False
    # Where refs and checkpoints are: duckdb:///path or postgresql://…, which may hold a password.
    state: str = field(default="duckdb:///lake/state.duckdb", repr=False)
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

    def to_cache(self) -> list[Any]:
        """The settings as plain values, without an address that holds a password."""
        kept = list(astuple(self))
        if has_password(self.state):
            kept[1] = None
        return kept

    @classmethod
    def from_cache(cls, kept: Sequence[Any]) -> VirtualSettings | None:
        """What `to_cache` gave; None when the address has to be read from the files again."""
        return cls(*kept) if kept[1] is not None else None


def with_variable(settings: VirtualSettings) -> VirtualSettings:
    """The settings with the address that the environment variable gives."""
    given = os.environ.get(STATE_VARIABLE)
    return replace(settings, state=given) if given else settings


def is_environment_name(name: str) -> bool:
    """Whether a name can be that of an environment, which is part of the names of schemas."""
    return name != PHYSICAL and _NAME.fullmatch(name) is not None and len(name) <= _LONGEST_NAME
