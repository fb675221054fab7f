"""`sqb freshness`: the sources as they are, against what was last recorded of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sqb.build.asking import Asker
from sqb.build.run_id import new_run_id
from sqb.cli.build import opened
from sqb.console.lines import columns_of_text
from sqb.operations.environment import opened_in
from sqb.operations.freshness import Freshness, observe_sources, utc_text
from sqb.plan.freshness import Recorded, SourceSeen

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
    workspace, lake = opened_in(opened(project_dir, target, variables), virtual_env)
    asker = Asker(workspace, f"freshness_{new_run_id()}", lambda text: print(text, file=sys.stderr))
    found = observe_sources(workspace, lake, select, exclude, asker)
    if as_json:
        print(json.dumps(found.to_data(), indent=2))
    else:
        _print(found)
        for error in found.failed.values():
            from sqb.console.errors import print_error

            print_error(error, workspace.root)
    return 0 if found.ok else 1


def _print(found: Freshness) -> None:
    if not found.names:
        print("No sources.")
        return
    rows = []
    for name in found.names:
        source = found.seen.get(name)
        if source is None:
            rows.append((name, "", "", "", "", "failed" if name in found.failed else "not observed"))
            continue
        last = source.recorded
        rows.append(
            (
                name,
                source.observation.strategy,
                _shown(source.observation.kind, source.observation.value),
                source.age_text,
                _recorded(last, found.project.loaders.get(name)),
                _status(source),
            )
        )
    for line in columns_of_text(_HEADER, rows):
        print(line)


def _recorded(last: Recorded | None, loader: str | None) -> str:
    if last is None:
        return f"filled by {loader}" if loader is not None else "never"
    return f"{_shown(last.kind, last.value)} at {utc_text(last.observed_at)}"


def _shown(kind: str, value: str) -> str:
    match kind:
        case "timestamp":
            return value.replace("T", " ").replace("+00:00", "").removesuffix(".000000")
        case "listing":
            return f"files {value[:8]}"
        case _:
            return value


def _status(source: SourceSeen) -> str:
    verdict = "within tolerance" if source.verdict == "tolerated" else source.verdict
    if source.too_old:
        return f"{verdict}, too old"
    return f"{verdict}, getting old" if source.to_be_warned else verdict
