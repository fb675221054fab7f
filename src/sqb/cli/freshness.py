"""`sqb freshness`: the sources as they are, against what was last recorded of them."""

from __future__ import annotations

import fnmatch
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqb.build.asking import Asker
from sqb.build.freshness import observe, recorded_freshness
from sqb.build.observe import look
from sqb.build.run_id import new_run_id
from sqb.cli.build import opened
from sqb.compiled import External, Project, with_beneath
from sqb.console.lines import columns_of_text
from sqb.errors import BadSelector, SqbError
from sqb.graph import select as choose
from sqb.lake.iceberg import IcebergLake
from sqb.operations.environment import opened_in
from sqb.plan.freshness import SourceSeen, sources_above, with_freshness
from sqb.workspace import Workspace

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
    project = _with_all_sources(workspace.project)
    names = _chosen(project, select, exclude)
    seen, failed = _observed(replace(workspace, project=project), lake, names)
    if as_json:
        rows = [_data(name, project, seen.get(name), failed.get(name)) for name in names]
        print(json.dumps({"target": project.target, "sources": rows, "summary": _summary(rows)}, indent=2))
    else:
        _print(names, project, seen, failed)
    if failed and not as_json:
        from sqb.console.errors import print_error

        for error in failed.values():
            print_error(error, workspace.root)
    return 1 if failed or any(s.too_old for s in seen.values()) else 0


def _with_all_sources(project: Project) -> Project:
    """The project as if something read every declared source."""
    declared = {
        s.name: External(s.name, s.relation, True, s.at)
        for s in project.sources.values()
        if s.is_observed and s.name not in project.externals
    }
    return replace(project, externals=with_beneath({**project.externals, **declared}, project.sources))


def _chosen(project: Project, include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """The sources that are observed by themselves, as far as they are selected."""
    every = [n for n in project.externals if n not in project.sources or project.sources[n].is_observed]
    wanted = _named(project, every, include) if include else set(every)
    dropped = _named(project, every, exclude) if exclude else set()
    return [n for n in every if n in wanted and n not in dropped]


def _named(project: Project, every: list[str], terms: Sequence[str]) -> set[str]:
    """Sources by their own names, and by selectors of models: those that the models are made from."""
    found: set[str] = set()
    for term in (t for text in terms for t in text.split()):
        pattern = term.removeprefix("source:").lower()
        direct = {name for name in every if fnmatch.fnmatchcase(name.lower(), pattern)}
        if not direct and term.startswith("source:"):
            raise BadSelector(f'no source is called "{pattern}"', hint=f"the sources are {', '.join(every)}")
        nodes: Iterable[str] = () if direct else choose(project.nodes, project.externals, [term]).names
        found |= direct | {s for node in nodes for s in sources_above(project.nodes[node], project)}
    return found


def _observed(
    workspace: Workspace, lake: IcebergLake, names: list[str]
) -> tuple[dict[str, SourceSeen], Mapping[str, SqbError]]:
    project = workspace.project
    asker = Asker(workspace, f"freshness_{new_run_id()}", lambda text: print(text, file=sys.stderr))
    try:
        there = look(workspace, lake)
        told = observe(project, lake, there, names, asker.session)
    finally:
        asker.stop()
    now = time.time()
    recorded = recorded_freshness(project, lake, now)
    judged = with_freshness(project, there.observed, told.seen, recorded, now)
    return dict(judged.sources), told.failed


def _data(name: str, project: Project, seen: SourceSeen | None, error: SqbError | None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "type": "source", "relation": _relation(name, project)}
    if seen is None:
        return {**found, "status": "failed" if error else "not observed", "error": str(error) if error else None}
    last = seen.recorded
    return {
        **found,
        "strategy": seen.observation.strategy,
        "value_kind": seen.observation.kind,
        "data_version": seen.observation.value,
        "status": seen.verdict,
        "changed": seen.verdict in ("new", "changed"),
        "age_seconds": round(seen.age, 3) if seen.age is not None else None,
        "age_status": _age_status(seen),
        "warn_after_seconds": seen.warn_after,
        "error_after_seconds": seen.error_after,
        "recorded": {"data_version": last.value, "observed_at": _time(last.observed_at), "run_id": last.run_id}
        if last is not None
        else None,
        "error": None,
    }


def _relation(name: str, project: Project) -> str:
    source = project.sources.get(name)
    return source.path if source is not None and source.path is not None else str(project.externals[name].relation)


def _age_status(seen: SourceSeen) -> str | None:
    if seen.warn_after is None and seen.error_after is None:
        return None
    return "error" if seen.too_old else "warn" if seen.to_be_warned else "ok"


def _summary(rows: list[dict[str, Any]]) -> dict[str, int]:
    statuses = [r["status"] for r in rows]
    ages = [r.get("age_status") for r in rows]
    counts = {s: statuses.count(s) for s in ("changed", "new", "tolerated", "unchanged", "failed")}
    return {**counts, "warn": ages.count("warn"), "error": ages.count("error")}


def _print(names: list[str], project: Project, seen: Mapping[str, SourceSeen], failed: Mapping[str, SqbError]) -> None:
    if not names:
        print("No sources.")
        return
    rows = []
    for name in names:
        source = seen.get(name)
        if source is None:
            rows.append((name, "", "", "", "", "failed" if name in failed else "not observed"))
            continue
        last = source.recorded
        rows.append(
            (
                name,
                source.observation.strategy,
                _shown(source.observation.kind, source.observation.value),
                source.age_text,
                f"{_shown(last.kind, last.value)} at {_time(last.observed_at)}" if last is not None else "never",
                _status(source),
            )
        )
    for line in columns_of_text(_HEADER, rows):
        print(line)


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


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")
