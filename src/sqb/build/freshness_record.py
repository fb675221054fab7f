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
from sqb.plan.freshness import POLICY, SourceSeen, nodes_below, with_freshness
from sqb.plan.observed import Observed, Standing

if TYPE_CHECKING:
    from sqb.build.observe import Look
    from sqb.compiled import Project
    from sqb.lake.iceberg import IcebergLake
    from sqb.lake.state import FreshnessRow
    from sqb.names import Relation
    from sqb.workspace import Workspace


def taken_in(
    workspace: Workspace,
    lake: IcebergLake,
    look: Look,
    relations: Mapping[Relation, Standing],
    run_id: str,
    cut: datetime,
) -> list[FreshnessRow]:
    """The observations that a build which ran something has to record."""
    from sqb.build.freshness import observe, recorded_freshness

    project, observed = workspace.project, replace(look.observed, relations=relations)
    # Sources that only have versions were not needed for the plan; they are known without asking anybody.
    rest = [name for name in project.externals if name not in observed.sources and not _has_values(name, project)]
    seen = {name: s.observation for name, s in observed.sources.items()}
    seen |= observe(project, lake, look, rest, _nobody).seen
    recorded = recorded_freshness(project, lake, cut.timestamp())
    judged = with_freshness(project, observed, seen, recorded, observed.now)
    return _rows(project, judged, judged.sources.values(), run_id, cut)


def taken_in_already(project: Project, observed: Observed, run_id: str) -> list[FreshnessRow]:
    """The observations that a build with nothing to run has to record: new values of data that has come everywhere."""
    news = [s for s in observed.sources.values() if s.verdict in ("new", "changed") and _has_values(s.name, project)]
    return _rows(project, observed, news, run_id, datetime.now(UTC)) if news else []


def _has_values(name: str, project: Project) -> bool:
    declared = project.sources.get(name)
    return declared is not None and declared.watch is not None and declared.watch.has_values


def _rows(
    project: Project, observed: Observed, sources: Iterable[SourceSeen], run_id: str, at: datetime
) -> list[FreshnessRow]:
    from sqb.lake.state import FreshnessRow

    settled = _settled(project, observed)
    rows = []
    for source in sources:
        below = nodes_below(source.name, project)
        if source.verdict not in ("new", "changed") or not below or not settled.issuperset(below):
            continue
        seen = source.observation
        for schema in sorted({project.nodes[n].relation.schema for n in below}):
            rows.append(FreshnessRow(source.name, schema, run_id, seen.strategy, seen.kind, seen.value, at))
    return rows


def _settled(project: Project, observed: Observed) -> set[str]:
    """The nodes that have nothing to take in any more; policies, and what nobody can see, would run some for ever."""
    nodes = {
        n.name: replace(n, settings={k: v for k, v in n.settings.items() if k != POLICY}) if POLICY in n.settings else n
        for n in project
    }
    # Loaders run in every build, whatever has been taken in.
    models = replace(project, nodes=nodes, python={}, order=())
    plan = make_plan(models, replace(observed, opaque=frozenset(), unknown={}))
    return {n.name for n in plan.nodes if n.action == "skip"}


def _nobody() -> object:
    raise AssertionError("versions are known without asking")
