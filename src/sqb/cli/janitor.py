"""`sqb janitor`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from sqb.build.observe import open_lake
from sqb.build.recovery import repair
from sqb.cli.build import opened
from sqb.console.janitor import summary_line, swept_line
from sqb.console.paint import Paint
from sqb.environments.entering import baseline_of, default_environment, owner_here, store_of
from sqb.environments.janitor import EnvironmentsJanitor, NoEnvironments, Rules
from sqb.environments.versions import physical_project
from sqb.lake.iceberg import IcebergLake
from sqb.workspace import Workspace

_COUNTS = ("tables", "snapshots", "tags", "rows", "files", "bytes", "environments", "views", "checkpoints", "versions")


def _tenants(workspace: Workspace, lake: IcebergLake) -> EnvironmentsJanitor | NoEnvironments:
    """Who counts on more of the lake than its tables tell."""
    virtual = workspace.virtual
    if not virtual.enabled:
        return NoEnvironments()
    protected = {default_environment(workspace), baseline_of(workspace), virtual.unsuffixed or ""}
    rules = Rules(frozenset(protected), virtual.grace, virtual.keep_checkpoints, owner_here("janitor"))
    return EnvironmentsJanitor(store_of(workspace), lake, rules)


def _as_built(workspace: Workspace) -> Workspace:
    """The project at the tables that its builds write to."""
    virtual = workspace.virtual.enabled
    return replace(workspace, project=physical_project(workspace.project)) if virtual else workspace


def run_janitor(
    dry_run: bool,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
) -> int:
    """Remove what nobody needs from the lake of a target, and print what and how much."""
    from sqb.lake.janitor import Janitor  # loads pyiceberg

    workspace = opened(project_dir, target, variables)
    lake = open_lake(workspace)
    if not dry_run:
        # The trace of a killed run is also what says that its history is missing.
        repair(_as_built(workspace), lake)
    paint = Paint(sys.stdout)
    swept = []
    interrupted = False
    try:
        for one in Janitor(lake, workspace.retention, dry_run, tenants=_tenants(workspace, lake)).clean():
            swept.append(one)
            if not as_json:
                print(swept_line(one, dry_run, paint), flush=True)
    except KeyboardInterrupt:
        interrupted = True
    gone = [s for s in swept if s.what not in ("kept", "clone")]
    if as_json:
        total = {key: sum(getattr(s, key) for s in gone) for key in _COUNTS}
        document = {
            "dry_run": dry_run,
            "removed": [asdict(s) for s in gone],
            "copied": [asdict(s) for s in swept if s.what == "clone"],
            "kept": [{"name": s.name, "why": s.why} for s in swept if s.what == "kept"],
            "summary": total,
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(summary_line(swept, dry_run))
    if interrupted:
        print("Interrupted: what was removed was nobody's, and the next round does the rest.", file=sys.stderr)
    return 1 if interrupted else 0
