"""`sqb lineage`: the tables and columns of a project, up and down."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sqb.cli.build import open_project
from sqb.console.lineage import encode_lineage, format_lineage, format_mermaid
from sqb.console.style import Paint
from sqb.errors.call import CallError
from sqb.graph import find_reachable, reverse_edges
from sqb.inspect.lineage import build_column_lookup, find_focus, trace_project
from sqb.operations.environment import open_read_only


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
    workspace, lake = open_read_only(open_project(project_dir, target, variables), virtual_env)
    project = workspace.project
    columns = build_column_lookup(project, lake)
    focus = find_focus(name, project, lambda table: trace_project(project, columns, [table]).tables[table])
    tables = None
    if focus.node is not None:
        # What is below is only known when all that it reads is.
        tables = find_reachable([focus.node], reverse_edges({n.name: n.upstream for n in project}))
    graph = trace_project(project, columns, tables)
    if as_json:
        print(json.dumps(encode_lineage(graph, focus), indent=2, ensure_ascii=False))
        return 0
    lines = format_mermaid(graph, focus) if mermaid else format_lineage(graph, focus, Paint(sys.stdout))
    for line in lines:
        print(line)
    return 0
