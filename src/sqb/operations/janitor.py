"""Removes what a lake does not need any more: leftovers of killed builds, old snapshots and history. No Java starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sqb.build.history.recovery import repair_history
from sqb.build.observe.orphans import find_orphans
from sqb.environments.janitor import EnvironmentsJanitor, NoEnvironments, RetentionRules
from sqb.environments.session import describe_owner, get_baseline, get_default_environment, open_workspace_store
from sqb.environments.versions import build_physical_project
from sqb.lake.open import open_iceberg_lake
from sqb.lake.port import Lake
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.lake.janitor.report import JanitorAction

_COUNTS = ("tables", "snapshots", "tags", "rows", "files", "bytes", "environments", "views", "checkpoints", "versions")


@dataclass(frozen=True, slots=True)
class JanitorOptions:
    """Whether the janitor only says what it would do."""

    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class JanitorResult:
    """What the janitor did, or would do."""

    actions: tuple[JanitorAction, ...]
    dry_run: bool
    interrupted: bool = False

    @property
    def removed(self) -> list[JanitorAction]:
        return [action for action in self.actions if action.what not in ("kept", "clone")]

    def to_data(self) -> dict[str, Any]:
        """What `sqb janitor --json` prints."""
        return {
            "dry_run": self.dry_run,
            "removed": [asdict(action) for action in self.removed],
            "copied": [asdict(action) for action in self.actions if action.what == "clone"],
            "kept": [{"name": action.name, "why": action.why} for action in self.actions if action.what == "kept"],
            "summary": {key: sum(getattr(action, key) for action in self.removed) for key in _COUNTS},
        }


def clean_lake(workspace: Workspace, options: JanitorOptions, listen: Callable[[JanitorAction], None]) -> JanitorResult:
    """Remove what is not needed any more from the lake of a target; `listen` hears of each thing as it goes.

    Ctrl-C ends the round; what is removed then was not needed, and the next round does the rest.
    """
    from sqb.lake.janitor.run import Janitor  # loads pyiceberg

    lake = open_iceberg_lake(workspace)
    if not options.dry_run:
        # The trace of a killed run is also what says that its history is missing.
        repair_history(_build_physical_workspace(workspace), lake)
    actions: list[JanitorAction] = []
    tenants = _create_tenants(workspace, lake)
    try:
        for action in Janitor(lake, workspace.retention, options.dry_run, tenants=tenants).clean():
            actions.append(action)
            listen(action)
        for action in _report_orphans(workspace, lake):
            actions.append(action)
            listen(action)
    except KeyboardInterrupt:
        return JanitorResult(tuple(actions), options.dry_run, interrupted=True)
    return JanitorResult(tuple(actions), options.dry_run)


def _report_orphans(workspace: Workspace, lake: Lake) -> Iterator[JanitorAction]:
    """The tables of models that are gone: they stay until somebody says otherwise."""
    from sqb.lake.janitor.report import JanitorAction

    if workspace.virtual.enabled or not lake.exists():
        return
    for orphan in find_orphans(workspace.project, lake):
        yield JanitorAction("kept", str(orphan.relation), "its model is gone; `sqb drop` removes it")


def _create_tenants(workspace: Workspace, lake: Lake) -> EnvironmentsJanitor | NoEnvironments:
    """Who counts on more of the lake than its tables tell."""
    virtual = workspace.virtual
    if not virtual.enabled:
        return NoEnvironments()
    protected = {get_default_environment(workspace), get_baseline(workspace), virtual.unsuffixed or ""}
    rules = RetentionRules(frozenset(protected), virtual.grace, virtual.keep_checkpoints, describe_owner("janitor"))
    return EnvironmentsJanitor(open_workspace_store(workspace), lake, rules)


def _build_physical_workspace(workspace: Workspace) -> Workspace:
    """The project at the tables that its builds write to."""
    virtual = workspace.virtual.enabled
    return replace(workspace, project=build_physical_project(workspace.project)) if virtual else workspace
