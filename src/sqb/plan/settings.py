"""The settings of Spark's sessions as a part of what a table is: what is recorded of them, and whether they changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from sqb.compiled import Node, Project
from sqb.plan.observed import Observed, Standing
from sqb.project.session_settings import LEGACY, LIST, LISTS, other_than_default

# In the commit of a model's rows: the settings that can change a result, as the session had them.
SETTINGS = "sqb.settings"
# What these hold cannot be computed again: they go on under other settings, and the plan says so.
_GOES_ON = frozenset({"append", "scd2", "incremental"})
_LIST = "list"
_SHOWN = 3


def record_settings(node: Node, project: Project) -> dict[str, str]:
    """What is committed about the session that made a node's rows; a seed is loaded without one."""
    if node.type == "seed" or not project.session:
        return {}
    return {SETTINGS: json.dumps({_LIST: LIST, **other_than_default(project.session)}, separators=(",", ":"))}


def read_settings(identity: Mapping[str, str]) -> dict[str, str] | None:
    """The settings that a commit records; None when it records none."""
    try:
        found = json.loads(identity.get(SETTINGS, ""))
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return {**LISTS.get(found.pop(_LIST, ""), {}), **found}


def settings_change(node: Node, project: Project, identity: Mapping[str, str]) -> str | None:
    """Which settings are others than when a node's rows were made, in words; None when none is, or none is recorded."""
    then = read_settings(identity)
    if node.type == "seed" or not project.session or then is None:
        return None
    changed = changed_settings(then, project.session)
    parts = [f"{key} {_shown(then.get(key))} → {_shown(project.session.get(key))}" for key in changed[:_SHOWN]]
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return ", ".join(parts) + more if parts else None


def changed_settings(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The settings that differ; one that only one of the two lists was not known to the other, and counts as equal."""
    known = [key for key in sorted({*then, *now}) if key.startswith(LEGACY) or (key in then and key in now)]
    return [key for key in known if then.get(key) != now.get(key)]


def goes_on(node: Node) -> bool:
    """Whether a node's rows are a history, which other settings do not make anew."""
    return node.kind in _GOES_ON


def settings_warning(node: Node, project: Project, standing: Standing | None) -> str | None:
    """What is said of a history that goes on under other settings."""
    if standing is None or not goes_on(node):
        return None
    change = settings_change(node, project, standing.identity or standing.left)
    if change is None:
        return None
    return (
        f"{node.name}: {change} since its last rows were made; {node.kind} goes on, so that its table holds rows of"
        " both (--full-refresh makes it anew)"
    )


def unrecorded_notice(nodes: Iterable[Node], project: Project, observed: Observed) -> str | None:
    """What is said, once, of tables whose commits do not say under which settings they were made."""
    if not project.session:
        return None
    silent = [n.name for n in nodes if n.type == "model" and is_unrecorded(observed.of(n))]
    if not silent:
        return None
    tables = f"{silent[0]} does" if len(silent) == 1 else f"{len(silent)} models do"
    return f"{tables} not record the session settings that they were built under: they count as built under today's"


def is_unrecorded(standing: Standing | None) -> bool:
    """Whether rows that sqb made say nothing of the settings of their session."""
    return standing is not None and bool(standing.local_hash) and SETTINGS not in (standing.identity or standing.left)


def _shown(value: str | None) -> str:
    return value if value is not None else "Spark's default"
