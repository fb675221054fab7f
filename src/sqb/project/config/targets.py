"""The [targets] of a project: where each builds, and which other target it reuses or reads sources from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sqb.errors.project import BadValue, Contradiction
from sqb.names import suggest_nearest
from sqb.project.config.connections.model import Connection
from sqb.project.config.located import Section
from sqb.project.values import Target

OTHER_TARGET_KEYS = ("reuse_from", "reuse_hard_copy", "defer_sources_to")
TARGET_KEYS = ("schema", "connection", "loaders", *OTHER_TARGET_KEYS)
LOADERS = ("on", "off")


def read_targets(top: Section, connections: Mapping[str, Connection], virtual: bool) -> dict[str, Target]:
    """The targets under [targets], each checked against the others; `dev` where none is written."""
    section = top.read_table("targets", "[targets]")
    targets: dict[str, Target] = {}
    sections: dict[str, Section] = {}
    for name, entry in section.entries.items():
        target = sections[name] = section.read_table(name, f"[targets.{name}]")
        target.refuse_unknown(TARGET_KEYS)
        connection = read_known_name(target, "connection", connections)
        loads = _read_loads(target)
        targets[name] = Target(name, _read_schema(target) or "{folder}", connection, entry.key_at, loads=loads)
    if virtual:
        _refuse_other_targets(sections)
    first = next(iter(connections))
    linked = {name: _link_target(sections[name], name, targets, first) for name in targets}
    return linked or {"dev": Target("dev")}


def read_known_name(section: Section, key: str, named: Mapping[str, object]) -> str | None:
    """The text under `key` when it is one of the names."""
    value = section.read_text(key)
    if value is None or value in named:
        return value
    hint = suggest_nearest(value, named) or f"known names: {', '.join(named)}"
    message = f'`{key}` names "{value}", which does not exist'
    section.errors.add(BadValue(message, at=section.entries[key].at, hint=hint))
    return None


def _read_loads(target: Section) -> bool:
    written = target.read_text("loaders")
    if written not in (None, *LOADERS):
        target.report("loaders", '"on" or "off"')
    return written != "off"


def _read_schema(target: Section) -> str | None:
    schema = target.read_text("schema")
    if schema is None:
        return None
    if not schema:
        target.report("schema", "a name that is not empty", 'leave the line out for the default, "{folder}"')
    elif braces := [b for b in re.findall(r"\{[^}]*\}?|\}", schema) if b != "{folder}"]:
        target.report(
            "schema", "a name that may hold {folder}", f"{braces[0]} has no meaning here; only {{folder}} has"
        )
    elif not re.fullmatch(r"[A-Za-z0-9_{}]+", schema):
        target.report("schema", "letters, digits, _ and {folder}")
    else:
        return schema
    return None


def _refuse_other_targets(sections: Mapping[str, Section]) -> None:
    """Refuse targets that name another one: with virtual environments, targets have nothing to share by hand."""
    for section in sections.values():
        for key in (k for k in OTHER_TARGET_KEYS if k in section.entries):
            message = f"`{key}` cannot be used with virtual environments: they share unchanged tables themselves"
            hint = "remove this line, or `enabled` under [virtual]"
            section.errors.add(Contradiction(message, at=section.entries[key].key_at, hint=hint))


def _link_target(written: Section, name: str, targets: Mapping[str, Target], first: str) -> Target:
    """A target with what it says of others; `first` is the connection of those that name none."""
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
