"""Notices that a project gets once: `.sqb/cache` records which; where that is lost, they are printed again."""

from __future__ import annotations

from pathlib import Path

from sqb.build.observe.lake import LakeState
from sqb.cache.files import read_value, write_value
from sqb.plan.changes.session_settings import build_unrecorded_notice
from sqb.plan.model import Plan
from sqb.workspace import Workspace

_FORMAT = "sqb notices 1"


def find_settings_notice(workspace: Workspace, lake_state: LakeState, plan: Plan) -> tuple[str, ...]:
    """The notice about tables that do not record the settings of their sessions, until a build has printed it."""
    nodes = workspace.project.nodes
    notice = build_unrecorded_notice(
        (nodes[n.name] for n in plan.nodes if n.name in nodes), workspace.project, lake_state.observed
    )
    if notice is None or workspace.project.target in _read_targets(_get_path(workspace)):
        return ()
    return (notice,)


def record_notices(workspace: Workspace, lake_state: LakeState, plan: Plan) -> None:
    """Record that a build is about to print the notice."""
    if find_settings_notice(workspace, lake_state, plan):
        targets = _read_targets(_get_path(workspace))
        write_value(_get_path(workspace), _FORMAT, [*targets, workspace.project.target], list[str])


def _get_path(workspace: Workspace) -> Path:
    return workspace.folder / "cache" / "noticed.json"


def _read_targets(path: Path) -> list[str]:
    return read_value(path, _FORMAT, list[str]) or []
