"""`sqb promote` and `sqb rollback`: neither starts Java."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqb.build.observe import open_lake
from sqb.build.steps import from_environment
from sqb.cli.build import opened
from sqb.console.paint import Paint
from sqb.console.promotion import promotion_data, promotion_lines, rollback_data, rollback_lines
from sqb.environments.choosing import choose_nodes
from sqb.environments.entering import default_environment, owner_here, store_of
from sqb.environments.promoting import PromotionOptions, promote
from sqb.environments.rolling_back import roll_back


def run_promote(
    source: str,
    to: str,
    select: tuple[str, ...],
    allow_partial_promotion: bool,
    include_stale_upstreams: bool,
    merged: bool,
    dry_run: bool,
    take_over: bool,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
) -> int:
    """Make one environment show what another one shows, and print what changed."""
    began = time.monotonic()
    workspace = opened(project_dir, target, variables)
    with closing(store_of(workspace)) as store:
        done = promote(
            workspace,
            store,
            open_lake(workspace),
            source,
            to,
            lambda mine, theirs: choose_nodes(select, workspace.project, mine, theirs),
            PromotionOptions(allow_partial_promotion, include_stale_upstreams, dry_run, take_over, merged),
            owner_here("promote"),
            from_environment(),
        )
    seconds = time.monotonic() - began
    lines = promotion_lines(done, dry_run, seconds, verbose, Paint(sys.stdout))
    return _tell(as_json, promotion_data(done, dry_run, seconds), lines)


def run_rollback(
    virtual_env: str | None,
    checkpoint: str | None,
    dry_run: bool,
    take_over: bool,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
) -> int:
    """Make an environment show what it showed at a checkpoint, and print what changed."""
    began = time.monotonic()
    workspace = opened(project_dir, target, variables)
    with closing(store_of(workspace)) as store:
        done = roll_back(
            workspace,
            store,
            open_lake(workspace),
            virtual_env if virtual_env is not None else default_environment(workspace),
            checkpoint,
            dry_run=dry_run,
            take_over=take_over,
            owner=owner_here("rollback"),
            announce=from_environment(),
        )
    seconds = time.monotonic() - began
    lines = rollback_lines(done, dry_run, seconds, verbose, Paint(sys.stdout))
    return _tell(as_json, rollback_data(done, dry_run, seconds), lines)


def _tell(as_json: bool, document: dict[str, Any], lines: Iterable[str]) -> int:
    """Print one document, or lines for people."""
    if as_json:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in lines:
            print(line)
    return 0
