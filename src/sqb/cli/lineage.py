"""`sqb lineage`: the tables and columns of a project, up and down."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sqb.build.lineage import find_focus, known_columns, trace
from sqb.cli.build import opened
from sqb.console.lineage import lineage_data, lineage_lines, mermaid_lines
from sqb.console.paint import Paint
from sqb.errors import CallError
from sqb.graph import closure, reversed_edges
from sqb.operations.environment import opened_in


def run_lineage(
    name: str | None,
    mermaid: bool,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
    virtual_env: str | None = None,
) -> int:
    """Print what a table or column is made of and what it is used for, or the whole project."""
    if mermaid and as_json:
        raise CallError("--json and --mermaid are two forms of one answer", hint="take one of them")
    workspace, lake = opened_in(opened(project_dir, target, variables), virtual_env)
    project = workspace.project
    known = known_columns(project, lake)
    focus = find_focus(name, project, lambda table: trace(project, known, [table]).tables[table])
    wanted = None
    if focus.node is not None:
        # What is below is only known when all that it reads is.
        wanted = closure([focus.node], reversed_edges({n.name: n.upstream for n in project}))
    graph = trace(project, known, wanted)
    if as_json:
        print(json.dumps(lineage_data(graph, focus), indent=2, ensure_ascii=False))
        return 0
    lines = mermaid_lines(graph, focus) if mermaid else lineage_lines(graph, focus, Paint(sys.stdout))
    for line in lines:
        print(line)
    return 0
