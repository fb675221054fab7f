"""What is recorded of sources: an observation, once everything below the source has taken its data in.

Whether something has is not asked of the build's events but of the lake as the build leaves it: what a plan would find
up to date is up to date, whatever was selected, failed or was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqb.plan.decide import make_plan
from sqb.plan.freshness import POLICY, SourceFreshness, add_freshness, list_nodes_below
from sqb.plan.observed import Observed, RelationState

if TYPE_CHECKING:
    from sqb.build.observe.lake import LakeState
    from sqb.compile.model import Project
    from sqb.lake.port import Lake
    from sqb.lake.state.rows import FreshnessRow
    from sqb.names import Relation
    from sqb.workspace import Workspace


def list_consumed_sources(
    workspace: Workspace,
    lake: Lake,
    lake_state: LakeState,
    relations: Mapping[Relation, RelationState],
    run_id: str,
    cut: datetime,
) -> list[FreshnessRow]:
    """The observations that a build which ran something has to record."""
    from sqb.build.observe.sources import observe_names, read_recorded_freshness

    project, observed = workspace.project, replace(lake_state.observed, relations=relations)
    # Sources that only have versions were not needed for the plan; they are known without a query.
    rest = [
        name for name in project.externals if name not in observed.sources and not _is_observed_by_value(name, project)
    ]
    observations = {name: s.observation for name, s in observed.sources.items()}
    observations |= observe_names(project, lake, lake_state, rest, _refuse_session).observations
    recorded = read_recorded_freshness(project, lake, cut.timestamp())
    judged = add_freshness(project, observed, observations, recorded, observed.now)
    return _build_rows(project, judged, judged.sources.values(), run_id, cut)


def list_settled_sources(project: Project, observed: Observed, run_id: str) -> list[FreshnessRow]:
    """The observations that a build with nothing to run has to record: new values of data that has come everywhere."""
    news = [
        s
        for s in observed.sources.values()
        if s.verdict in ("new", "changed") and _is_observed_by_value(s.name, project)
    ]
    return _build_rows(project, observed, news, run_id, datetime.now(UTC)) if news else []


def _is_observed_by_value(name: str, project: Project) -> bool:
    declared = project.sources.get(name)
    return declared is not None and declared.watch is not None and declared.watch.has_values


def _build_rows(
    project: Project, observed: Observed, sources: Iterable[SourceFreshness], run_id: str, at: datetime
) -> list[FreshnessRow]:
    from sqb.lake.state.rows import FreshnessRow

    settled = _find_settled_nodes(project, observed)
    rows = []
    for source in sources:
        below = list_nodes_below(source.name, project)
        if source.verdict not in ("new", "changed") or not below or not settled.issuperset(below):
            continue
        observation = source.observation
        for schema in sorted({project.nodes[n].relation.schema for n in below}):
            rows.append(
                FreshnessRow(source.name, schema, run_id, observation.strategy, observation.kind, observation.value, at)
            )
    return rows


def _find_settled_nodes(project: Project, observed: Observed) -> set[str]:
    """The nodes that have nothing to take in any more; policies and unobservable sources are ignored."""
    nodes = {
        n.name: replace(n, settings={k: v for k, v in n.settings.items() if k != POLICY}) if POLICY in n.settings else n
        for n in project
    }
    # Loaders run in every build, whatever has been taken in.
    models = replace(project, nodes=nodes, python={}, order=())
    plan = make_plan(models, replace(observed, opaque=frozenset(), unknown={}))
    return {n.name for n in plan.nodes if n.action == "skip"}


def _refuse_session() -> object:
    raise AssertionError("versions are known without asking")
