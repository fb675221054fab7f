"""Targets that look at another: which one, and what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.errors.project import BadValue, Contradiction
from sqb.names import suggest_nearest
from sqb.project.config.located import Section
from sqb.project.values import Target

OTHER_TARGET_KEYS = ("reuse_from", "reuse_hard_copy", "defer_sources_to")


def link_targets(sections: Mapping[str, Section], targets: Mapping[str, Target], first: str) -> dict[str, Target]:
    """The targets with what they say of each other; `first` is the connection of those that name none."""
    return {name: _link_target(sections[name], name, targets, first) for name in targets}


def refuse_with_environments(sections: Mapping[str, Section]) -> None:
    """Refuse targets that look at another where virtual environments do so by themselves."""
    for section in sections.values():
        for key in (k for k in OTHER_TARGET_KEYS if k in section.entries):
            message = f"`{key}` does not go with virtual environments, which share what is unchanged by themselves"
            hint = "remove this line, or `enabled` under [virtual]"
            section.errors.add(Contradiction(message, at=section.entries[key].key_at, hint=hint))


def _link_target(written: Section, name: str, targets: Mapping[str, Target], first: str) -> Target:
    reuse, defer = (
        _read_other(written, key, targets[name], targets, first) for key in ("reuse_from", "defer_sources_to")
    )
    copy = written.read_flag("reuse_hard_copy")
    if "reuse_from" in written.entries and "defer_sources_to" in written.entries:
        message = "`reuse_from` makes relations here and `defer_sources_to` reads them there: they cannot both be set"
        at = written.entries["defer_sources_to"].key_at
        written.errors.add(Contradiction(message, at=at, hint="keep one of the two"))
    if copy and "reuse_from" not in written.entries:
        message = "`reuse_hard_copy` needs `reuse_from`, which is not set"
        at = written.entries["reuse_hard_copy"].key_at
        written.errors.add(Contradiction(message, at=at, hint="set `reuse_from`, or remove this line"))
    return replace(targets[name], reuse_from=reuse, reuse_hard_copy=bool(copy), defer_sources_to=defer)


def _read_other(section: Section, key: str, target: Target, targets: Mapping[str, Target], first: str) -> str | None:
    """The other target under `key`, when it is one that this target can look at."""
    value = section.read_text(key)
    if value is None:
        return None
    at = section.entries[key].at
    known = [name for name in targets if name != target.name]
    if value == target.name:
        names = f"name another target: {', '.join(known)}" if known else "there is no other target"
        section.errors.add(BadValue(f"`{key}` names the target that it is written in", at=at, hint=names))
        return None
    if value not in targets:
        hint = suggest_nearest(value, known) or (f"known names: {', '.join(known)}" if known else None)
        section.errors.add(BadValue(f'`{key}` names "{value}", which does not exist', at=at, hint=hint))
        return None
    other = targets[value]
    if (other.connection or first) != (target.connection or first):
        message = f'`{key}` names "{value}", which has another connection: its relations are in another catalog'
        section.errors.add(BadValue(message, at=at, hint="give both targets the same `connection`"))
        return None
    if other.schema == target.schema:
        message = f'`{key}` names "{value}", whose schema is the same: both build the same relations'
        section.errors.add(Contradiction(message, at=at, hint=f"give [targets.{target.name}] a `schema` of its own"))
        return None
    return value
