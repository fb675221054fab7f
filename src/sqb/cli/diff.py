"""`sqb diff`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from sqb.build.observe.lake import observe_lake, open_lake
from sqb.build.result import generate_run_id
from sqb.build.spark_engine import LazyEngine
from sqb.cli.build import open_project
from sqb.cli.environment_diff import run_environment_diff
from sqb.console.diff import format_diff
from sqb.console.style import Paint, get_terminal_width
from sqb.environments.selection import require_single
from sqb.errors.call import CallError
from sqb.graph import select
from sqb.inspect.diff import (
    DiffRequest,
    DiffResult,
    compare_snapshots,
    compare_targets,
    compare_with_query,
    compute_diff,
)
from sqb.names import format_seconds
from sqb.workspace import Workspace

# Where there is no terminal, most rows have room.
_DEFAULT_WIDTH = 160


def run_diff(
    name: str | None,
    source: str | None,
    to: str | None,
    against: str | None,
    snapshot: str | None,
    to_snapshot: str | None,
    key: str | None,
    limit: int,
    exit_code: bool,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
) -> int:
    """Compare two sides of a node on Spark and print how they differ."""
    if against is not None and snapshot is not None:
        raise CallError("--against and --snapshot are two comparisons", hint="give one of them")
    if to_snapshot is not None and snapshot is None:
        raise CallError("--to-snapshot needs --snapshot", hint="--snapshot names the one to compare with")
    if source is not None or to is not None:
        if source is None or against is not None or snapshot is not None:
            raise CallError(
                "--from and --to compare two virtual environments",
                hint="give --from, or --against or --snapshot for what they compare",
            )
        workspace = open_project(project_dir, target, variables)
        differ = run_environment_diff(workspace, name, source, to, _parse_columns(key), limit, as_json, verbose)
        return 1 if exit_code and differ else 0
    if name is None:
        raise CallError("a diff is of one node", hint="name it, or two virtual environments with --from and --to")
    started_at = time.monotonic()
    workspace = open_project(project_dir, target, variables)
    node = workspace.project.nodes[_select_node(workspace, name)]
    columns = _parse_columns(key)
    if against is not None:
        question = compare_targets(workspace, open_project(project_dir, against, variables), node, columns)
    else:
        lake = open_lake(workspace)
        seen = observe_lake(workspace, lake)
        if snapshot is not None:
            question = compare_snapshots(workspace, lake, seen, node, snapshot, to_snapshot, columns)
        else:
            question = compare_with_query(workspace, lake, seen, node, columns)
    answer_found = compare_sides(question, limit, workspace)
    if as_json:
        document = {"target": workspace.project.target, **answer_found.to_data()}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in format_diff(answer_found, get_terminal_width(sys.stdout) or _DEFAULT_WIDTH, Paint(sys.stdout)):
            print(line)
        print(f"({format_seconds(time.monotonic() - started_at)})")
    return 1 if exit_code and not answer_found.same else 0


def _select_node(workspace: Workspace, name: str) -> str:
    project = workspace.project
    chosen = [n for n in project.nodes if n in select(project.nodes, project.externals, (name,)).names]
    return require_single(name, chosen)


def _parse_columns(key: str | None) -> tuple[str, ...]:
    columns = tuple(part.strip().strip("`") for part in key.split(",")) if key is not None else ()
    if key is not None and not all(columns):
        raise CallError(f'--key "{key}" is not a list of columns', hint="write --key a or --key a,b")
    return columns


def _print_progress(text: str) -> None:
    if text:
        print(text, file=sys.stderr)


def compare_sides(question: DiffRequest, limit: int, workspace: Workspace) -> DiffResult:
    """Compare two sides on Spark, which is started for it."""
    log = workspace.folder / "logs" / f"diff_{generate_run_id()}.log"
    engine = LazyEngine(workspace, log, _print_progress, os.cpu_count() or 2)
    try:
        return compute_diff(question, engine.session(), limit, workspace)
    finally:
        engine.stop()
