"""`sqb promote` and `sqb rollback`: neither starts Java."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqb.build.failpoints import read_failpoint
from sqb.build.observe.lake import open_lake
from sqb.cli.build import open_project
from sqb.console.promotion import encode_promotion, encode_rollback, format_promotion, format_rollback
from sqb.console.style import Paint
from sqb.environments.promotion.promote import PromotionOptions, promote
from sqb.environments.promotion.rollback import roll_back
from sqb.environments.selection import select_nodes
from sqb.environments.session import describe_owner, get_default_environment, open_workspace_store


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
    started_at = time.monotonic()
    workspace = open_project(project_dir, target, variables)
    with closing(open_workspace_store(workspace)) as store:
        result = promote(
            workspace,
            store,
            open_lake(workspace),
            source,
            to,
            lambda mine, theirs: select_nodes(select, workspace.project, mine, theirs),
            PromotionOptions(allow_partial_promotion, include_stale_upstreams, dry_run, take_over, merged),
            describe_owner("promote"),
            read_failpoint(),
        )
    seconds = time.monotonic() - started_at
    lines = format_promotion(result, dry_run, seconds, verbose, Paint(sys.stdout))
    return _print_result(as_json, encode_promotion(result, dry_run, seconds), lines)


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
    started_at = time.monotonic()
    workspace = open_project(project_dir, target, variables)
    with closing(open_workspace_store(workspace)) as store:
        result = roll_back(
            workspace,
            store,
            open_lake(workspace),
            virtual_env if virtual_env is not None else get_default_environment(workspace),
            checkpoint,
            dry_run=dry_run,
            take_over=take_over,
            owner=describe_owner("rollback"),
            announce=read_failpoint(),
        )
    seconds = time.monotonic() - started_at
    lines = format_rollback(result, dry_run, seconds, verbose, Paint(sys.stdout))
    return _print_result(as_json, encode_rollback(result, dry_run, seconds), lines)


def _print_result(as_json: bool, document: dict[str, Any], lines: Iterable[str]) -> int:
    """Print one document, or lines for people."""
    if as_json:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in lines:
            print(line)
    return 0
