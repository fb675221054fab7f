"""The settings of Spark's sessions as a part of what a table is: what is recorded of them, and whether they changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from sqb.compile.model import Node, Project
from sqb.plan.observed import Observed, RelationState
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.project.config.session_settings import LEGACY, LIST, LISTS, list_non_default
from sqb.project.models.kinds import HISTORY_KINDS

_LIST = "list"
_SHOWN = 3


def encode_settings(node: Node, project: Project) -> str:
    """What is committed about the session that made a node's rows; "" for a seed, which is loaded without one."""
    if node.type == "seed" or not project.session:
        return ""
    return json.dumps({_LIST: LIST, **list_non_default(project.session)}, separators=(",", ":"))


def parse_settings(identity: CommitIdentity) -> dict[str, str] | None:
    """The settings that a commit records; None when it records none."""
    return _parse_text(identity.settings)


def _parse_text(text: str) -> dict[str, str] | None:
    try:
        settings = json.loads(text)
    except ValueError:
        return None
    if not isinstance(settings, dict):
        return None
    return {**LISTS.get(settings.pop(_LIST, ""), {}), **settings}


def describe_settings_change(node: Node, project: Project, identity: CommitIdentity) -> str | None:
    """Which settings are others than when a node's rows were made, in words; None when none is, or none is recorded."""
    if node.type == "seed" or not project.session:
        return None
    return _describe_change(identity.settings, tuple(project.session.items()))


@lru_cache(maxsize=64)
def _describe_change(settings: str, session: tuple[tuple[str, str], ...]) -> str | None:
    """The same for the settings that a commit records: mostly those of all models are one text."""
    then, now = _parse_text(settings), dict(session)
    if then is None:
        return None
    changed = list_changed_settings(then, now)
    parts = [f"{key} {_format_value(then.get(key))} → {_format_value(now.get(key))}" for key in changed[:_SHOWN]]
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return ", ".join(parts) + more if parts else None


def list_changed_settings(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The settings that differ; one that only one of the two lists was not known to the other, and counts as equal."""
    comparable = [key for key in sorted({*then, *now}) if key.startswith(LEGACY) or (key in then and key in now)]
    return [key for key in comparable if then.get(key) != now.get(key)]


def is_history(node: Node) -> bool:
    """Whether a node's rows are a history, which other settings do not make anew."""
    return node.kind in HISTORY_KINDS


def build_settings_warning(node: Node, project: Project, current: RelationState | None) -> str | None:
    """What is said of a history that goes on under other settings."""
    keeps_lost_rows = node.settings.get("on_source_delete") == "keep"
    if current is None or not (is_history(node) or keeps_lost_rows):
        return None
    change = describe_settings_change(node, project, current.known_identity)
    if change is None:
        return None
    if keeps_lost_rows:
        return (
            f"{node.name}: {change} since its last rows were made; rows that have left its result stay as they were"
            " made (on_source_delete: keep; --full-refresh drops them)"
        )
    return (
        f"{node.name}: {change} since its last rows were made; {node.kind} goes on, so that its table holds rows of"
        " both (--full-refresh rebuilds it)"
    )


def build_unrecorded_notice(nodes: Iterable[Node], project: Project, observed: Observed) -> str | None:
    """What is said, once, of tables whose commits do not say under which settings they were made."""
    if not project.session:
        return None
    silent = [n.name for n in nodes if n.type == "model" and is_unrecorded(observed.get(n))]
    if not silent:
        return None
    tables = f"{silent[0]} does" if len(silent) == 1 else f"{len(silent)} models do"
    return f"{tables} not record the session settings that they were built under: they count as built under today's"


def is_unrecorded(current: RelationState | None) -> bool:
    """Whether rows that sqb made say nothing of the settings of their session."""
    return current is not None and bool(current.local_hash) and not current.known_identity.settings


def _format_value(value: str | None) -> str:
    return value if value is not None else "Spark's default"
