"""What is written down after dbt has run: fingerprints of what succeeded, and the versions of sources that it read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from sqb.dbt.running import DbtRun
from sqb.dbt.stored import fingerprint, partial_fingerprint, renewed
from sqb.dbt.values import DbtObserved, DbtPlan, DbtProject
from sqb.dbt.versions import versions_of_run
from sqb.lake.port import Lake
from sqb.lake.state import Fingerprint, FreshnessRow


def record_run(
    lake: Lake,
    project: DbtProject,
    run: DbtRun,
    before: DbtObserved,
    after: DbtObserved,
    run_id: str,
) -> None:
    """Write down what succeeded."""
    now = datetime.now(UTC)
    rows = list(_succeeded(project, run, before, after, run_id, now))
    if rows:
        lake.append_fingerprints(rows)
        lake.append_freshness(_sources(project, (r.node_name for r in rows), before, run_id, now))


def record_partial(lake: Lake, project: DbtProject, names: Iterable[str], option: str, run_id: str) -> None:
    """Write down, before dbt runs, that what it makes of these nodes is not what they say: the next build runs them."""
    now = datetime.now(UTC)
    rows = [partial_fingerprint(project.nodes[n], option, run_id, now) for n in names if project.nodes[n].is_built]
    if rows:
        lake.append_fingerprints(rows)


def record_same(lake: Lake, project: DbtProject, plan: DbtPlan, observed: DbtObserved, run_id: str) -> None:
    """Write down the new identity of what proved to mean the same, so that nobody asks again."""
    now = datetime.now(UTC)
    skipped = {n.unique_id for n in plan.of("skip")}
    rows = [
        renewed(project.nodes[name], observed.stored[name], run_id, now)
        for name in sorted(observed.same_compiled & skipped)
        if name in observed.stored and observed.stored[name].identity != project.nodes[name].identity
    ]
    if rows:
        lake.append_fingerprints(rows)


def _succeeded(
    project: DbtProject,
    run: DbtRun,
    before: DbtObserved,
    after: DbtObserved,
    run_id: str,
    now: datetime,
) -> Iterator[Fingerprint]:
    read = versions_of_run(project, before, after, frozenset(run.succeeded), run_id)
    for name in run.succeeded:
        node, seen = project.nodes.get(name), after.seen.get(name)
        # dbt tells of its hooks too.
        if node is None:
            continue
        version = seen.version if seen is not None else None
        yield fingerprint(
            node,
            read.read_by(node),
            run_id,
            now,
            compiled=run.results[name].compiled,
            in_catalog=seen is None or seen.exists,
            snapshot=version.value if version is not None and version.kind == "snapshot" else None,
        )


def _sources(
    project: DbtProject, names: Iterable[str], seen: DbtObserved, run_id: str, now: datetime
) -> Iterator[FreshnessRow]:
    """The versions of the sources that were read, once for each schema that has readers."""
    told: set[tuple[str, str]] = set()
    for node in (project.nodes[name] for name in names):
        for source in node.depends_on:
            found = seen.seen.get(source) if source in project.sources else None
            if found is None or found.version is None or (source, node.schema) in told:
                continue
            told.add((source, node.schema))
            strategy = "loaded_at_field" if found.version.kind == "value" else "snapshot"
            yield FreshnessRow(source, node.schema, run_id, strategy, found.version.kind, str(found.version.value), now)
