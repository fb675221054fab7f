"""Freshness of sources: what was observed against what was recorded, as decisions.

Observe, compare, propagate: `build.observe` observes; here values are compared, and what counts as unchanged becomes
part of the versions that planning goes by, so that it propagates like any other change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from sqb.compile.model import Node, Project
from sqb.compile.source_model import Watch
from sqb.graph import find_reachable, reverse_edges
from sqb.light_dataclass import dataclass
from sqb.names import format_seconds, parse_duration
from sqb.plan.observed import FileStamp, FreshnessValue, Observed, Version, has_changed_value, list_inputs
from sqb.plan.recorded.versions import RecordedVersion

Verdict = Literal["new", "changed", "tolerated", "unchanged"]
POLICY = "run_despite_unchanged"
# The kind of a value that a table function tells of itself.
VERSION = "version"


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of a source: the version of its data, what kind of value that is, and since when it has been so."""

    strategy: str
    kind: str
    value: str
    # In seconds since 1970; None where nothing tells.
    moment: float | None = None


@dataclass(frozen=True, slots=True)
class RecordedFreshness:
    """What the last build that took the source in has recorded of it."""

    strategy: str
    kind: str
    value: str
    # In seconds since 1970.
    observed_at: float
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class SourceFreshness:
    """A source observed and judged."""

    name: str
    observation: Observation
    recorded: RecordedFreshness | None
    verdict: Verdict
    age: float | None = None
    warn_after: float | None = None
    error_after: float | None = None

    @property
    def is_too_old(self) -> bool:
        return self.age is not None and self.error_after is not None and self.age > self.error_after

    @property
    def has_warning(self) -> bool:
        return self.age is not None and self.warn_after is not None and self.age > self.warn_after

    @property
    def age_text(self) -> str:
        return "" if self.age is None else "in the future" if self.age < 0 else f"{format_age(self.age)} old"


def judge_freshness(watch: Watch, observation: Observation, recorded: RecordedFreshness | None) -> Verdict:
    """Whether an observation is news; values of another strategy or kind cannot be compared with it."""
    if recorded is None or (recorded.strategy, recorded.kind) != (observation.strategy, observation.kind):
        return "new"
    if recorded.value == observation.value:
        return "unchanged"
    return (
        "changed" if has_changed_value(observation.kind, recorded.value, observation.value, watch.lag) else "tolerated"
    )


def add_freshness(
    project: Project,
    observed: Observed,
    observations: Mapping[str, Observation],
    recorded: Mapping[str, RecordedFreshness],
    now: float,
) -> Observed:
    """What is observed of the lake, with what is observed of sources laid over the versions of their data."""
    relations = dict(observed.relations)
    sources: dict[str, SourceFreshness] = {}
    observed_names: set[str] = set()
    for name, observation in observations.items():
        declared = project.sources.get(name)
        watch = declared.watch if declared is not None and declared.watch is not None else Watch()
        verdict = judge_freshness(watch, observation, recorded.get(name))
        age = now - observation.moment if observation.moment is not None else None
        sources[name] = SourceFreshness(
            name, observation, recorded.get(name), verdict, age, watch.warn_after, watch.error_after
        )
        relation = project.externals[name].relation if name in project.externals else None
        if watch.has_values and relation in relations:
            current = relations[relation]
            version = _add_value(current.version, watch, sources[name], name in observed.opaque)
            relations[relation] = replace(current, version=version)
            observed_names.add(name)
    opaque = frozenset(observed.opaque - observed_names)
    policies = {name: row.observed_at for name, row in recorded.items() if _is_timestamp(name, project)}
    return replace(observed, relations=relations, sources=sources, opaque=opaque, last_observed=policies, now=now)


def _add_value(version: Version, watch: Watch, source: SourceFreshness, is_view: bool) -> Version:
    observation = source.observation
    unchanged = source.verdict in ("unchanged", "tolerated")
    baseline = source.recorded.value if source.recorded is not None and unchanged else None
    fresh = FreshnessValue(watch.token, observation.value, observation.kind, watch.lag, unchanged, baseline)
    if is_view:
        # What is beneath a view of others cannot be seen: the value is all that tells one version from another.
        return replace(version, definition=fresh.text, fresh=fresh)
    return replace(version, fresh=fresh)


def _is_timestamp(name: str, project: Project) -> bool:
    declared = project.sources.get(name)
    return declared is not None and declared.watch is not None and declared.watch.is_timestamp


def build_source_version(value: str) -> Version:
    """The version of a source that says it of itself."""
    fresh = FreshnessValue(VERSION, value, VERSION)
    return Version(definition=fresh.text, fresh=fresh)


def explain_unversioned(node: Node, project: Project, observed: Observed) -> str | None:
    """Why the version of what a node reads is unknown; None when everything that it reads has a version."""
    return next(
        (observed.unversioned[i.name] for i in list_inputs(node, project) if i.name in observed.unversioned), None
    )


def find_unknown_source(node: Node, project: Project, observed: Observed) -> str | None:
    """The first source that a node reads whose changes are unknown; None when there is none."""
    if node.kind == "view":
        return None
    names = [i.name for i in list_inputs(node, project) if i.external and i.name in observed.unknown]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]} could not be observed{more}" if names else None


def list_unknown_warnings(observed: Observed) -> list[str]:
    """The warnings about sources that could not be observed."""
    return [f"{why}; what reads {name} runs, as it may have changed" for name, why in observed.unknown.items()]


def explain_too_old(node: Node, project: Project, observed: Observed) -> str | None:
    """Why a node must not run on the sources that it reads, directly or through views; None when it may."""
    if not any(s.is_too_old for s in observed.sources.values()):
        return None
    old = [s for i in list_inputs(node, project) if i.external and (s := observed.sources.get(i.name)) and s.is_too_old]
    if not old:
        return None
    first = max(old, key=lambda s: s.age or 0.0)
    more = f" and {len(old) - 1} more" if len(old) > 1 else ""
    age, limit = format_age(first.age or 0.0), format_age(first.error_after or 0.0)
    return f"{first.name} is {age} old, error_after is {limit}{more}"


def list_age_warnings(observed: Observed) -> list[str]:
    """The warnings about sources that are getting old."""
    return [
        f"the source {s.name} is {format_age(s.age or 0.0)} old, warn_after is {format_age(s.warn_after or 0.0)}"
        for s in observed.sources.values()
        if s.has_warning and not s.is_too_old
    ]


def explain_policy_run(node: Node, project: Project, observed: Observed) -> str | None:
    """Why a node runs though nothing changed, by its own policy; None when it does not."""
    policy = node.settings.get(POLICY)
    current = observed.get(node)
    if policy is None or current is None:
        return None
    if policy == "always":
        return f"{POLICY} is always"
    wait = parse_duration(str(policy))
    if wait is None:
        return None
    # Its own last run counts as well: else one run past the time would be followed by another in every build.
    moments = [observed.last_observed[s] for s in list_sources_above(node, project) if s in observed.last_observed]
    moments += [current.built_at] if current.built_at is not None else []
    if not moments:
        return None
    passed = observed.now - max(moments)
    return (
        f"{format_age(passed)} since its sources were last observed, {POLICY} is {policy}" if passed >= wait else None
    )


def list_sources_above(node: Node, project: Project) -> list[str]:
    """The sources that a node is made from, directly or not."""
    return sorted(n for n in find_reachable([node.name], _map_upstream(project)) if n in project.externals)


def list_nodes_below(source: str, project: Project) -> list[str]:
    """The nodes that are made from a source, directly or not."""
    below = find_reachable([source], reverse_edges(_map_upstream(project)))
    return [n.name for n in project if n.name in below]


def _map_upstream(project: Project) -> dict[str, tuple[str, ...]]:
    above = {s.name: s.expression.reads for s in project.sources.values() if s.expression is not None}
    return {**above, **{n.name: n.upstream for n in project}}


def describe_source_change(name: str, recorded: RecordedVersion, now: Version) -> str:
    """What differs between a source as it was read and as it is, in words."""
    if now.definition is None and recorded.is_table and recorded.columns != now.columns:
        return f"{name} has other columns"
    if now.fresh is not None:
        then = now.fresh.get_recorded(recorded)
        if then is not None and now.fresh.kind == VERSION:
            return f"{name} {then} → {now.fresh.value}"
        if then is not None and then != now.fresh.value:
            return f"{name} moved from {then} to {now.fresh.value}"
    if now.files is not None:
        return f"{name}: {_describe_files(recorded.files, now.files)}"
    if now.definition is not None and now.fresh is None:
        return f"the expression of {name} changed"
    if now.definition is not None:
        return f"{name} was not observed like this before"
    return f"{name} moved from snapshot {recorded.snapshot_id} to {now.snapshot_id}"


def _describe_files(recorded: Any, files: tuple[FileStamp, ...]) -> str:
    if not isinstance(recorded, list):
        return f"other files, {len(files)} of them now"
    then = {name: (size, time) for name, size, time in recorded}
    now = {name: (size, time) for name, size, time in files}
    groups = (
        ("new", sorted(now.keys() - then.keys())),
        ("changed", sorted(n for n in now.keys() & then.keys() if now[n] != then[n])),
        ("gone", sorted(then.keys() - now.keys())),
    )
    texts = [f"{_format_names(names)} {what}" for what, names in groups if names]
    return ", ".join(texts) or "its files are read in another way"


def _format_names(names: list[str]) -> str:
    return f"{len(names)} files" if len(names) > 2 else " and ".join(names)


def format_age(seconds: float) -> str:
    """An age as people read it: `90s`, `45m`, `13h`, `3d 4h`."""
    if seconds < 120:
        return format_seconds(max(0.0, seconds)) if seconds < 1 else f"{seconds:.0f}s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f}m"
    hours, rest = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours}h {rest}m" if rest else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h" if hours else f"{days}d"
