"""What has been said once and is not said again: kept in `.sqb/cache`, so that it is said again at worst."""

from __future__ import annotations

import json
from pathlib import Path

from sqb.build.observe import Look
from sqb.plan.settings import unrecorded_notice
from sqb.plan.values import Plan
from sqb.workspace import Workspace, write_atomically


def settings_notice(workspace: Workspace, seen: Look, plan: Plan) -> tuple[str, ...]:
    """What a plan says of tables that do not record the settings of their sessions, until a build has said it."""
    nodes = workspace.project.nodes
    found = unrecorded_notice((nodes[n.name] for n in plan.nodes if n.name in nodes), workspace.project, seen.observed)
    if found is None or workspace.project.target in _read(_path(workspace)):
        return ()
    return (found,)


def note_notices(workspace: Workspace, seen: Look, plan: Plan) -> None:
    """Keep in mind that a build is about to say it."""
    if settings_notice(workspace, seen, plan):
        known = _read(_path(workspace))
        write_atomically(_path(workspace), json.dumps({"settings": [*known, workspace.project.target]}))


def _path(workspace: Workspace) -> Path:
    return workspace.folder / "cache" / "noticed.json"


def _read(path: Path) -> list[str]:
    try:
        found = json.loads(path.read_text())["settings"]
        return [str(target) for target in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []
