"""`[virtual]` read from the project's files."""

from __future__ import annotations

from sqb.errors import BadValue
from sqb.names import duration_seconds
from sqb.project.entries import Section
from sqb.project.state_url import has_password, problem_of
from sqb.project.virtual import NAME_RULE, STATE_VARIABLE, VirtualSettings, is_environment_name

_KEYS = ("enabled", "state", "unsuffixed_virtual_env", "baseline", "ttl", "grace", "keep_checkpoints")


def read_virtual(top: Section, committed: str) -> VirtualSettings:
    """The section `[virtual]`; `committed` is the file that is no place for passwords."""
    section = top.table("virtual", "[virtual]")
    section.only(_KEYS)
    default = VirtualSettings()
    keep = section.entries.get("keep_checkpoints")
    if keep is not None and not (type(keep.value) is int and keep.value >= 1):
        section.bad("keep_checkpoints", "a whole number, 1 or more")
        keep = None
    grace = _age(section, "grace")
    return VirtualSettings(
        enabled=section.flag("enabled") is True,
        state=_state(section, committed) or default.state,
        unsuffixed=_name(section, "unsuffixed_virtual_env"),
        baseline=_name(section, "baseline"),
        ttl=_age(section, "ttl"),
        grace=grace if grace is not None else default.grace,
        keep_checkpoints=keep.value if keep is not None else default.keep_checkpoints,
    )


def _state(section: Section, committed: str) -> str | None:
    state = section.text("state")
    if state is None:
        return None
    at = section.entries["state"].at
    # The value is not repeated: it may hold a password.
    if (problem := problem_of(state)) is not None:
        section.errors.add(BadValue(f"`state` must be {problem}", at=at))
        return None
    if at.file == committed and has_password(state):
        ways = f"put it into sqlbuild_local.toml or {STATE_VARIABLE}, or leave the password to PGPASSWORD or ~/.pgpass"
        section.errors.add(BadValue("`state` holds a password, and this file is for everybody", at=at, hint=ways))
        return None
    return state


def _name(section: Section, key: str) -> str | None:
    name = section.text(key)
    if name is not None and not is_environment_name(name):
        section.bad(key, "the name of an environment", NAME_RULE)
        return None
    return name


def _age(section: Section, key: str) -> float | None:
    text = section.text(key)
    seconds = duration_seconds(text) if text is not None else None
    if text is not None and seconds is None:
        section.bad(key, "a duration", 'such as "7d", "12h" or "1d12h"')
    return seconds
