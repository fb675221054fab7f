"""How fresh the sources are, against what was last recorded of them; nothing is built and nothing recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqb.build.observe.lake import observe_lake
from sqb.build.observe.sources import observe_names, read_recorded_freshness
from sqb.build.spark_engine import OnDemandSpark
from sqb.compile.model import External, Project, add_underlying_externals
from sqb.compile.source_model import DeclaredSource, Watch
from sqb.errors.base import SqbError
from sqb.errors.call import BadSelector
from sqb.operations.environment import open_environment
from sqb.operations.selection import Wanted, select_nodes
from sqb.plan.freshness import SourceFreshness, Verdict, add_freshness, list_sources_above
from sqb.plan.observed import Observed, is_same_version
from sqb.selection.methods import match_names
from sqb.selection.select import Selection
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class FreshnessOptions:
    """Which sources are observed."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    virtual_env: str | None = None
    selector: str | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """What was seen of the sources, by their names in the order of the project, and what could not be."""

    project: Project
    names: list[str]
    seen: Mapping[str, SourceFreshness]
    failed: Mapping[str, SqbError]

    @property
    def ok(self) -> bool:
        """Whether all could be observed, and none is too old."""
        return not self.failed and not any(s.is_too_old for s in self.seen.values())

    def to_data(self) -> dict[str, Any]:
        """The same as `sqb freshness --json` prints it."""
        rows = [_encode_source(n, self.project, self.seen.get(n), self.failed.get(n)) for n in self.names]
        return {"target": self.project.target, "sources": rows, "summary": _count_statuses(rows)}


def observe_freshness(workspace: Workspace, options: FreshnessOptions, spark: OnDemandSpark) -> Freshness:
    """Observe the sources that are selected; `spark` is stopped."""
    try:
        environment = open_environment(workspace, options.virtual_env)
        workspace, lake = environment.workspace, environment.lake
        watched_here = {s.name for s in workspace.project.sources.values() if _is_filled(s)}
        project = _add_all_sources(workspace.project)
        names = _select_sources(
            project, options, lambda wanted: select_nodes(environment, wanted, project.nodes, spark)
        )
        workspace = replace(workspace, project=project)
        observation = observe_lake(workspace, lake)
        result = observe_names(project, lake, observation, names, spark.session)
    finally:
        spark.stop()
    now = time.time()
    recorded = read_recorded_freshness(project, lake, now)
    judged = add_freshness(project, observation.observed, result.observations, recorded, now)
    filled = {n for n in result.observations if n in workspace.project.loaders and n not in recorded}
    sources = {
        name: replace(seen, verdict=_judge_loaded(name, workspace.project, observation.observed))
        if name in filled
        else seen
        for name, seen in judged.sources.items()
    }
    failed = {n: e for n, e in result.failed.items() if n not in watched_here}
    return Freshness(project, names, sources, failed)


def _judge_loaded(name: str, project: Project, observed: Observed) -> Verdict:
    """Whether a source that a loader fills has been read as it is by all that is built from it."""
    key = str(project.externals[name].relation)
    recorded = [s.sources[key] for n in project if (s := observed.get(n)) is not None and key in s.sources]
    current = observed.relations.get(project.externals[name].relation)
    if not recorded or current is None:
        return "new"
    return "unchanged" if all(is_same_version(then, current.version) for then in recorded) else "changed"


def _add_all_sources(project: Project) -> Project:
    """The project as if something read every declared source."""
    # A source that a loader fills is observed here, whether or not it says how: by its version.
    sources = {n: replace(s, watch=Watch()) if _is_filled(s) else s for n, s in project.sources.items()}
    project = replace(project, sources=sources)
    declared = {
        s.name: External(s.name, s.relation, True, s.at)
        for s in project.sources.values()
        if s.is_observed and s.name not in project.externals
    }
    return replace(project, externals=add_underlying_externals({**project.externals, **declared}, project.sources))


def _is_filled(source: DeclaredSource) -> bool:
    """Whether a loader fills a source that says nothing of its freshness."""
    return source.managed and source.is_table and source.watch is None


def _select_sources(project: Project, options: FreshnessOptions, choose: Callable[[Wanted], Selection]) -> list[str]:
    """The sources that are observed by themselves, as far as they are selected."""
    Wanted(options.select, options.exclude, options.selector)
    names = [n for n in project.externals if n not in project.sources or project.sources[n].is_observed]
    included = _match_sources(project, names, options.select, choose) if options.select else set(names)
    if options.selector is not None:
        included = _list_above(project, choose(Wanted(selector=options.selector)).names)
    excluded = _match_sources(project, names, options.exclude, choose) if options.exclude else set()
    return [n for n in names if n in included and n not in excluded]


def _match_sources(
    project: Project, names: list[str], terms: Sequence[str], choose: Callable[[Wanted], Selection]
) -> set[str]:
    """Sources by their own names, and by selectors of models: those that the models are made from."""
    matches: set[str] = set()
    for term in (t for text in terms for t in text.split()):
        pattern = term.removeprefix("source:")
        direct = set(match_names(names, pattern))
        if not direct and term.startswith("source:"):
            raise BadSelector(f'no source is called "{pattern}"', hint=f"the sources are {', '.join(names)}")
        matches |= direct or _list_above(project, choose(Wanted((term,))).names)
    return matches


def _list_above(project: Project, nodes: Iterable[str]) -> set[str]:
    return {s for node in nodes for s in list_sources_above(project.nodes[node], project)}


def _encode_source(name: str, project: Project, seen: SourceFreshness | None, error: SqbError | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": name, "type": "source", "relation": _format_relation(name, project)}
    fields["loader"] = project.loaders.get(name)
    if seen is None:
        return {**fields, "status": "failed" if error else "not observed", "error": str(error) if error else None}
    last = seen.recorded
    return {
        **fields,
        "strategy": seen.observation.strategy,
        "value_kind": seen.observation.kind,
        "data_version": seen.observation.value,
        "status": seen.verdict,
        "changed": seen.verdict in ("new", "changed"),
        "age_seconds": round(seen.age, 3) if seen.age is not None else None,
        "age_status": _get_age_status(seen),
        "warn_after_seconds": seen.warn_after,
        "error_after_seconds": seen.error_after,
        "recorded": {"data_version": last.value, "observed_at": format_utc(last.observed_at), "run_id": last.run_id}
        if last is not None
        else None,
        "error": None,
    }


def _format_relation(name: str, project: Project) -> str:
    source = project.sources.get(name)
    return source.path if source is not None and source.path is not None else str(project.externals[name].relation)


def _get_age_status(seen: SourceFreshness) -> str | None:
    if seen.warn_after is None and seen.error_after is None:
        return None
    return "error" if seen.is_too_old else "warn" if seen.has_warning else "ok"


def _count_statuses(rows: list[dict[str, Any]]) -> dict[str, int]:
    statuses = [r["status"] for r in rows]
    ages = [r.get("age_status") for r in rows]
    counts = {s: statuses.count(s) for s in ("changed", "new", "tolerated", "unchanged", "failed")}
    return {**counts, "warn": ages.count("warn"), "error": ages.count("error")}


def format_utc(moment: float) -> str:
    """A moment as people read it, in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")
