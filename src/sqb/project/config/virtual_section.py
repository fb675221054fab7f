"""`[virtual]` read from the project's files."""

from __future__ import annotations

from sqb.errors.project import BadValue
from sqb.names import parse_duration
from sqb.project.config.located import Section
from sqb.project.config.virtual import (
    NAME_RULE,
    STATE_VARIABLE,
    VirtualSettings,
    find_address_problem,
    has_password,
    is_environment_name,
)

VIRTUAL_KEYS = ("enabled", "state", "unsuffixed_virtual_env", "baseline", "ttl", "grace", "keep_checkpoints")


def read_virtual(top: Section, committed: str) -> VirtualSettings:
    """The section `[virtual]`; `committed` is the file that must not hold passwords."""
    section = top.read_table("virtual", "[virtual]")
    section.refuse_unknown(VIRTUAL_KEYS)
    default = VirtualSettings()
    keep = section.entries.get("keep_checkpoints")
    if keep is not None and not (type(keep.value) is int and keep.value >= 1):
        section.report("keep_checkpoints", "a whole number, 1 or more")
        keep = None
    grace = _read_age(section, "grace")
    return VirtualSettings(
        enabled=section.read_flag("enabled") is True,
        state=_read_state(section, committed) or default.state,
        unsuffixed=_read_name(section, "unsuffixed_virtual_env"),
        baseline=_read_name(section, "baseline"),
        ttl=_read_age(section, "ttl"),
        grace=grace if grace is not None else default.grace,
        keep_checkpoints=keep.value if keep is not None else default.keep_checkpoints,
    )


def _read_state(section: Section, committed: str) -> str | None:
    state = section.read_text("state")
    if state is None:
        return None
    at = section.entries["state"].at
    # The value is not repeated: it may hold a password.
    if (problem := find_address_problem(state)) is not None:
        section.errors.add(BadValue(f"`state` must be {problem}", at=at))
        return None
    if at.file == committed and has_password(state):
        ways = f"put it into sqlbuild_local.toml or {STATE_VARIABLE}, or leave the password to PGPASSWORD or ~/.pgpass"
        section.errors.add(BadValue("`state` holds a password, and this file is for everybody", at=at, hint=ways))
        return None
    return state


def _read_name(section: Section, key: str) -> str | None:
    name = section.read_text(key)
    if name is not None and not is_environment_name(name):
        section.report(key, "the name of an environment", NAME_RULE)
        return None
    return name


def _read_age(section: Section, key: str) -> float | None:
    text = section.read_text(key)
    seconds = parse_duration(text) if text is not None else None
    if text is not None and seconds is None:
        section.report(key, "a duration", 'such as "7d", "12h" or "1d12h"')
    return seconds
