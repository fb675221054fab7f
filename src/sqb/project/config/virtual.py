"""`[virtual]`: whether builds go into virtual environments, and where these are kept."""

from __future__ import annotations

import os
import re
from dataclasses import field, replace

from sqb.light_dataclass import dataclass
from sqb.project.config.connections import postgres_url
from sqb.project.config.connections.postgres_url import PostgresAddress, is_postgres

# Overrides `state`, so that CI keeps addresses and passwords out of files.
STATE_VARIABLE = "SQB_STATE"
# Part of the schema's name of all physical tables, so no environment can have it.
PHYSICAL = "sqb_physical"
# The same of the figures of groups.
GROUP_STATE = "sqb_state"
_LONGEST_NAME = 64
NAME_RULE = (
    f"small letters, digits and _, beginning with a letter, at most {_LONGEST_NAME}; not {PHYSICAL} or {GROUP_STATE}"
)
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
    # The environment that new ones begin as; the one that is called like the target where none is set.
    baseline: str | None = None
    # How long environments live after their last build, the baseline and the unsuffixed one excepted; for ever if None.
    ttl: float | None = None
    # How long versions stay that no environment and no checkpoint refers to.
    grace: float = 7 * _DAY
    # How many checkpoints of each environment are kept.
    keep_checkpoints: int = 20


def apply_state_variable(settings: VirtualSettings) -> VirtualSettings:
    """The settings with the address that the environment variable gives."""
    address = os.environ.get(STATE_VARIABLE)
    return replace(settings, state=address) if address else settings


def is_environment_name(name: str) -> bool:
    """Whether a name can be that of an environment, which is part of the names of schemas."""
    return name not in (PHYSICAL, GROUP_STATE) and _NAME.fullmatch(name) is not None and len(name) <= _LONGEST_NAME


DUCKDB = "duckdb:///"
EXPECTED = "duckdb:///path or postgresql://user@host/database"
DEFAULT_SCHEMA = "sqb_state"


def find_address_problem(url: str) -> str | None:
    """What is wrong with an address, in words that never repeat it; None when it can be used."""
    if url.startswith(DUCKDB):
        return None if url.removeprefix(DUCKDB).strip("/ ") else EXPECTED
    if not is_postgres(url):
        return EXPECTED
    try:
        parse_postgres(url)
    except ValueError as error:
        return str(error)
    return None


def has_password(url: str) -> bool:
    """Whether an address holds a password, wherever in it."""
    try:
        return bool(is_postgres(url) and parse_postgres(url).password)
    except ValueError:
        # Whatever it is, it is treated with care.
        return True


def parse_postgres(url: str) -> PostgresAddress:
    """The address of the database that environments are kept in; raises ValueError with what was expected."""
    return postgres_url.parse_postgres(url, DEFAULT_SCHEMA)
