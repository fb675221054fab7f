"""Commands that only look: `compile`, `query`, `history`, `version`."""

from __future__ import annotations

import functools
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqb import __version__
from sqb.build.node.render import build_live_names, render_query
from sqb.build.result import generate_run_id
from sqb.cli.build import open_project
from sqb.console.lines import format_table
from sqb.console.style import Paint
from sqb.errors.base import SqbError
from sqb.graph import select as choose
from sqb.names import format_seconds
from sqb.operations.environment import open_read_only
from sqb.operations.history import encode_result, encode_runs, format_run_time, read_runs
from sqb.operations.query import execute_query

# How much of a result is shown; --json has all of it.
_MAX_PAYLOAD = 60


def run_compile(
    project_dir: Path,
    target: str | None,
    variables: str | None,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    debug: bool,
    virtual_env: str | None = None,
) -> int:
    """Print each selected model's SQL."""
    workspace, _ = open_read_only(open_project(project_dir, target, variables), virtual_env)
    project = workspace.project
    chosen = choose(project.nodes, project.externals, select, exclude).names
    names = build_live_names(project, workspace.connection.catalog.name, {})
    nodes = [n for n in project if n.name in chosen]
    if as_json:
        rows = [
            {
                "name": n.name,
                "type": n.type,
                "kind": n.kind,
                "relation": str(n.relation),
                "file": n.file,
                "upstream": list(n.upstream),
                "sql": render_query(n, names).sql.strip() if n.type == "model" and not n.python else None,
            }
            for n in nodes
        ]
        print(json.dumps({"target": project.target, "nodes": rows}, indent=2, ensure_ascii=False))
        return 0
    paint = Paint(sys.stdout)
    for node in nodes:
        if node.type == "model":
            print(paint(f"-- {node.name} ({node.kind}) → {node.relation}", "dim"))
            called = f"{node.python['function']}(ctx)" if node.python else ""
            sql = render_query(node, names).sql.strip() + ";"
            print((f"-- its rows come from {called} in {node.file}" if called else sql) + "\n")
    return 0


def run_query(
    sql: str,
    limit: int,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
    virtual_env: str | None = None,
) -> int:
    """Run one query on Spark and print its rows."""
    from sqb.build.spark_engine import LazyEngine

    workspace, lake = open_read_only(open_project(project_dir, target, variables), virtual_env, as_shown=True)
    log = workspace.folder / "logs" / f"query_{generate_run_id()}.log"
    report = functools.partial(print, file=sys.stderr)
    width = os.cpu_count() or 2
    started_at = time.monotonic()
    header, rows = execute_query(
        sql, limit, workspace, lake, lambda called: LazyEngine(workspace, log, report, width, functions=called)
    )
    if as_json:
        data = [dict(zip(header, (_encode_value(v) for v in row), strict=True)) for row in rows]
        print(json.dumps({"columns": list(header), "rows": data}, indent=2, ensure_ascii=False, default=str))
        return 0
    for line in format_table(header, rows):
        print(line)
    cut = f", the first {limit}" if len(rows) == limit else ""
    print(f"({len(rows)} {'row' if len(rows) == 1 else 'rows'}{cut}, {format_seconds(time.monotonic() - started_at)})")
    return 0


def _encode_value(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None.__class__ | list | dict) else str(value)


def run_history(
    run_id: str | None,
    node: str | None,
    limit: int,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
    virtual_env: str | None = None,
) -> int:
    """Print the runs of a target, or what one run did."""
    workspace, lake = open_read_only(open_project(project_dir, target, variables), virtual_env)
    runs = read_runs(workspace, lake, run_id, node, limit)
    if as_json:
        document = encode_runs(workspace.project.target, runs)
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    if not runs:
        print("No runs yet." if node is None else f"No runs of {node} yet.")
    elif run_id is not None or node is not None:
        _print_nodes([n for rows in runs.values() for n in rows])
    else:
        _print_runs(runs)
    return 0


def _print_runs(runs: Mapping[str, list[Any]]) -> None:
    table = []
    for name, rows in runs.items():
        data = [encode_result(r) for r in rows]
        seconds = sum(d["seconds"] for d in data)
        failed = [d["name"] for d in data if d["status"] == "failed"]
        names = [d["name"] for d in data if d["status"] == "ok"]
        what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        if failed:
            what += f"{'; ' if what else ''}failed: {', '.join(failed[:3])}"
        table.append(
            (
                name,
                format_run_time(rows),
                len(names),
                len(failed),
                sum(d["rows"] for d in data),
                format_seconds(seconds),
                what,
            )
        )
    for line in format_table(("run", "at (UTC)", "ran", "failed", "rows", "node time", "what"), table):
        print(line)


def _print_nodes(rows: list[Any]) -> None:
    table: list[tuple[Any, ...]] = []
    for row in rows:
        d = encode_result(row)
        error = (d["error"] or "").splitlines()
        why = d["reason"] if row.status == "ok" else error[0] if error else d["detail"]
        result = row.payload if len(row.payload) <= _MAX_PAYLOAD else f"{row.payload[:_MAX_PAYLOAD]}…"
        cells = (row.run_id, d["name"], row.status, d["run_type"], d["rows"], format_seconds(d["seconds"]), why)
        table.append((*cells, result))
    header: tuple[str, ...] = ("run", "node", "status", "run type", "rows", "time", "why", "result")
    if not any(row.payload for row in rows):
        # Only Python nodes return something.
        header, table = header[:-1], [cells[:-1] for cells in table]
    for line in format_table(header, table):
        print(line)


def run_version(as_json: bool) -> int:
    """Print the versions of everything that matters for a report."""
    from importlib import metadata

    from sqb.spark.session.jars import PACKAGES
    from sqb.spark.session.java import find_java

    try:
        java = find_java()
        java_text = f"{java.major} ({java.path})"
    except SqbError as error:
        java_text = error.message
    versions = {
        "sqb": __version__,
        "python": platform.python_version(),
        "pyspark": metadata.version("pyspark"),
        "pyiceberg": metadata.version("pyiceberg"),
        "sqlglot": metadata.version("sqlglot"),
        "iceberg": next(p for p in PACKAGES if "iceberg" in p).rpartition(":")[2],
        "java": java_text,
    }
    if as_json:
        print(json.dumps(versions, indent=2))
    else:
        print(f"sqb {__version__}")
        for name, value in list(versions.items())[1:]:
            print(f"  {name:<10} {value}")
    return 0
