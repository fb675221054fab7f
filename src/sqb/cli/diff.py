"""`sqb diff`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from sqb.build.diff import Answer, Question, answer, between_snapshots, between_targets, would_be
from sqb.build.engine import LazyEngine
from sqb.build.observe import look, open_lake
from sqb.build.run_id import new_run_id
from sqb.cli.build import opened
from sqb.cli.environment_diff import run_environment_diff
from sqb.console.diff import diff_lines
from sqb.console.paint import Paint, terminal_width
from sqb.environments.choosing import the_one
from sqb.errors import CallError
from sqb.graph import select
from sqb.names import human_seconds
from sqb.workspace import Workspace

# Where there is no terminal, most rows have room.
_ROOM = 160


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
        workspace = opened(project_dir, target, variables)
        differ = run_environment_diff(workspace, name, source, to, _columns(key), limit, as_json, verbose)
        return 1 if exit_code and differ else 0
    if name is None:
        raise CallError("a diff is of one node", hint="name it, or two virtual environments with --from and --to")
    began = time.monotonic()
    workspace = opened(project_dir, target, variables)
    node = workspace.project.nodes[_the_one(workspace, name)]
    columns = _columns(key)
    if against is not None:
        question = between_targets(workspace, opened(project_dir, against, variables), node, columns)
    else:
        lake = open_lake(workspace)
        seen = look(workspace, lake)
        if snapshot is not None:
            question = between_snapshots(workspace, lake, seen, node, snapshot, to_snapshot, columns)
        else:
            question = would_be(workspace, lake, seen, node, columns)
    found = answered(question, limit, workspace)
    if as_json:
        document = {"target": workspace.project.target, **found.to_data()}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in diff_lines(found, terminal_width(sys.stdout) or _ROOM, Paint(sys.stdout)):
            print(line)
        print(f"({human_seconds(time.monotonic() - began)})")
    return 1 if exit_code and not found.same else 0


def _the_one(workspace: Workspace, name: str) -> str:
    project = workspace.project
    chosen = [n for n in project.nodes if n in select(project.nodes, project.externals, (name,)).names]
    return the_one(name, chosen)


def _columns(key: str | None) -> tuple[str, ...]:
    found = tuple(part.strip().strip("`") for part in key.split(",")) if key is not None else ()
    if key is not None and not all(found):
        raise CallError(f'--key "{key}" is not a list of columns', hint="write --key a or --key a,b")
    return found


def _tell(text: str) -> None:
    if text:
        print(text, file=sys.stderr)


def answered(question: Question, limit: int, workspace: Workspace) -> Answer:
    """Compare two sides on Spark, which is started for it."""
    log = workspace.folder / "logs" / f"diff_{new_run_id()}.log"
    engine = LazyEngine(workspace, log, _tell, os.cpu_count() or 2)
    try:
        return answer(question, engine.session(), limit, workspace)
    finally:
        engine.stop()
