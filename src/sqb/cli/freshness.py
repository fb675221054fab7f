"""`sqb freshness`: the sources as they are, against what was last recorded of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sqb.build.result import generate_run_id
from sqb.build.spark_engine import OnDemandSpark
from sqb.cli.build import open_project
from sqb.console.lines import format_table
from sqb.operations.environment import open_read_only
from sqb.operations.freshness import Freshness, format_utc, observe_sources
from sqb.plan.freshness import RecordedFreshness, SourceFreshness

_HEADER = ("source", "strategy", "version", "age", "last recorded", "status")


def run_freshness(
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
    """Observe sources and print what was seen."""
    workspace, lake = open_read_only(open_project(project_dir, target, variables), virtual_env)
    spark = OnDemandSpark(workspace, f"freshness_{generate_run_id()}", lambda text: print(text, file=sys.stderr))
    result = observe_sources(workspace, lake, select, exclude, spark)
    if as_json:
        print(json.dumps(result.to_data(), indent=2))
    else:
        _print_freshness(result)
        for error in result.failed.values():
            from sqb.console.errors import print_error

            print_error(error, workspace.root)
    return 0 if result.ok else 1


def _print_freshness(result: Freshness) -> None:
    if not result.names:
        print("No sources.")
        return
    rows = []
    for name in result.names:
        source = result.seen.get(name)
        if source is None:
            rows.append((name, "", "", "", "", "failed" if name in result.failed else "not observed"))
            continue
        last = source.recorded
        rows.append(
            (
                name,
                source.observation.strategy,
                _format_value(source.observation.kind, source.observation.value),
                source.age_text,
                _format_recorded(last, result.project.loaders.get(name)),
                _format_status(source),
            )
        )
    for line in format_table(_HEADER, rows):
        print(line)


def _format_recorded(last: RecordedFreshness | None, loader: str | None) -> str:
    if last is None:
        return f"filled by {loader}" if loader is not None else "never"
    return f"{_format_value(last.kind, last.value)} at {format_utc(last.observed_at)}"


def _format_value(kind: str, value: str) -> str:
    match kind:
        case "timestamp":
            return value.replace("T", " ").replace("+00:00", "").removesuffix(".000000")
        case "listing":
            return f"files {value[:8]}"
        case _:
            return value


def _format_status(source: SourceFreshness) -> str:
    verdict = "within tolerance" if source.verdict == "tolerated" else source.verdict
    if source.is_too_old:
        return f"{verdict}, too old"
    return f"{verdict}, getting old" if source.has_warning else verdict
