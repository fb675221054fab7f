"""`sqb janitor`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from sqb.build.history.recovery import repair_history
from sqb.build.observe.lake import open_lake
from sqb.cli.build import open_project
from sqb.console.janitor import format_entry, format_summary
from sqb.console.style import Paint
from sqb.environments.janitor import EnvironmentsJanitor, NoEnvironments, RetentionRules
from sqb.environments.session import describe_owner, get_baseline, get_default_environment, open_workspace_store
from sqb.environments.versions import build_physical_project
from sqb.lake.iceberg import IcebergLake
from sqb.workspace import Workspace

_COUNTS = ("tables", "snapshots", "tags", "rows", "files", "bytes", "environments", "views", "checkpoints", "versions")


def _create_tenants(workspace: Workspace, lake: IcebergLake) -> EnvironmentsJanitor | NoEnvironments:
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


def run_janitor(
    dry_run: bool,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
) -> int:
    """Remove what is not needed any more from the lake of a target, and print what and how much."""
    from sqb.lake.janitor.run import Janitor  # loads pyiceberg

    workspace = open_project(project_dir, target, variables)
    lake = open_lake(workspace)
    if not dry_run:
        # The trace of a killed run is also what says that its history is missing.
        repair_history(_build_physical_workspace(workspace), lake)
    paint = Paint(sys.stdout)
    entries = []
    interrupted = False
    try:
        for entry in Janitor(lake, workspace.retention, dry_run, tenants=_create_tenants(workspace, lake)).clean():
            entries.append(entry)
            if not as_json:
                print(format_entry(entry, dry_run, paint), flush=True)
    except KeyboardInterrupt:
        interrupted = True
    removed = [s for s in entries if s.what not in ("kept", "clone")]
    if as_json:
        total = {key: sum(getattr(s, key) for s in removed) for key in _COUNTS}
        document = {
            "dry_run": dry_run,
            "removed": [asdict(s) for s in removed],
            "copied": [asdict(s) for s in entries if s.what == "clone"],
            "kept": [{"name": s.name, "why": s.why} for s in entries if s.what == "kept"],
            "summary": total,
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(format_summary(entries, dry_run))
    if interrupted:
        print("Interrupted: only unneeded files were removed, and the next round does the rest.", file=sys.stderr)
    return 1 if interrupted else 0
