"""Whether a Python node runs: decided from what it is, and from what it depends on.

What a loader fetches cannot be seen from here, and neither can what a task without dependencies works on: these run in
every build, and say themselves that there is nothing to do. The rest is pruned with what it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from sqb.compile.model import Project
from sqb.compile.python.model import PythonNode
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.model import Cause, Options, PlannedNode, Reason, is_producing_rows
from sqb.plan.observed import Input, Observed, RelationState, find_version, is_same_version, list_inputs_of_names
from sqb.plan.recorded.versions import RecordedVersion


@dataclass(frozen=True, slots=True)
class LastPythonRun:
    """The last run of a Python node that did its work: what it was then, and what it found."""

    run_id: str
    local_hash: str
    source_hash: str = ""
    config_hash: str = ""
    dependencies: Mapping[str, str] = field(default_factory=dict)
    # The versions of tables that it depends on, and the runs of Python nodes.
    sources: Mapping[str, RecordedVersion] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
    # It was tried since, and failed or skipped hard.
    retry_due: bool = False


def decide_python(
    node: PythonNode,
    project: Project,
    observed: Observed,
    options: Options,
    planned: Mapping[str, PlannedNode],
    waits_for: tuple[str, ...],
    blocked: Cause | None,
) -> PlannedNode:
    """The decision about one Python node; `blocked` is why something that it waits for keeps it from running."""
    if node.type == "loader" and not project.loads:
        why_off = f"loaders are off in {project.target}"
        return PlannedNode(
            node.name, node.type, node.kind, node.relation, "skip", "skip", Reason.NORMAL, why_off, upstream=waits_for
        )
    why = (
        blocked
        or _find_own_cause(node, project, observed, options, planned)
        or _find_upstream_cause(planned, waits_for)
    )
    return PlannedNode(
        name=node.name,
        type=node.type,
        kind=node.kind,
        relation=node.relation,
        action="blocked" if blocked else "run" if why else "skip",
        run_type="full" if why and not blocked else "skip",
        reason=why.reason if why else Reason.NORMAL,
        detail=why.detail if why else "",
        upstream=waits_for,
        pending=why.pending if why else False,
    )


def _find_own_cause(
    node: PythonNode,
    project: Project,
    observed: Observed,
    options: Options,
    planned: Mapping[str, PlannedNode],
) -> Cause | None:
    """Why a node runs whatever else does, or None."""
    last_run = observed.python.get(node.name)
    if last_run is None:
        return Cause(Reason.FIRST_RUN)
    if (changed := _find_code_change(node, last_run)) is not None:
        return changed
    if options.force or options.full_refresh:
        return Cause(Reason.FORCED if options.force else Reason.FULL_REFRESH)
    if last_run.retry_due:
        return Cause(Reason.LAST_RUN_FAILED, "its last run did not succeed")
    if node.type == "loader":
        return Cause(Reason.EVERY_BUILD, "a loader runs in every build")
    if not node.after:
        return Cause(Reason.EVERY_BUILD, "nothing that it depends on shows whether it must run")
    return _find_dependency_change(node, last_run, project, observed, planned)


def decide_hook(node: PythonNode, observed: Observed, runs: bool) -> PlannedNode:
    """A hook: it runs with every build that runs something, and has an identity as other nodes have."""
    last_run = observed.python.get(node.name)
    changed = Cause(Reason.FIRST_RUN) if last_run is None else _find_code_change(node, last_run)
    why = changed or Cause(Reason.EVERY_BUILD if runs else Reason.NORMAL)
    if not runs:
        detail = f"{why.detail}; a hook runs where something else does".removeprefix("; ")
        return PlannedNode(node.name, "hook", node.kind, None, "skip", "skip", why.reason, detail)
    return PlannedNode(node.name, "hook", node.kind, None, "run", "full", why.reason, why.detail)


def _find_code_change(node: PythonNode, last_run: LastPythonRun) -> Cause | None:
    if node.local_hash == last_run.local_hash:
        return None
    if node.source_hash != last_run.source_hash:
        return Cause(Reason.CODE_CHANGED, f"source {last_run.source_hash[:8]} → {node.source_hash[:8]}")
    then, now = last_run.dependencies, node.dependencies
    files = sorted(f for f in then.keys() | now.keys() if then.get(f) != now.get(f))
    if files:
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        return Cause(Reason.CODE_CHANGED, f"{', '.join(files[:3])}{more}")
    return Cause(Reason.CONFIG_CHANGED, f"{last_run.config_hash[:8]} → {node.config_hash[:8]}")


def _find_dependency_change(
    node: PythonNode, last_run: LastPythonRun, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Cause | None:
    """Something that it depends on is not what it was at its last run."""
    for name in iter_python_above(node, project):
        last = observed.python.get(name)
        if last is not None and last_run.runs.get(name) != last.run_id and not is_producing_rows(planned.get(name)):
            return Cause(Reason.UPSTREAM_CHANGED, f"{name} has run since")
    changed = [
        i
        for i in list_changed_tables(node, last_run, project, observed.relations)
        if not _may_be_restored(i, project, planned)
    ]
    if not changed:
        unknown = [i.name for i in list_tables_above(node, project) if i.external and i.name in observed.unknown]
        return Cause(Reason.SOURCE_UNKNOWN, f"{unknown[0]} could not be observed") if unknown else None
    first = changed[0]
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    reason = Reason.SOURCE_CHANGED if first.external else Reason.UPSTREAM_CHANGED
    return Cause(reason, f"{first.name} changed since its last run{more}")


def _may_be_restored(upstream_input: Input, project: Project, planned: Mapping[str, PlannedNode]) -> bool:
    """Whether a table that moved is made again, and may be what it was."""
    above = planned.get(
        project.loaders.get(upstream_input.name, upstream_input.name)
        if upstream_input.external
        else upstream_input.name
    )
    return not upstream_input.view and is_producing_rows(above)


def _find_upstream_cause(planned: Mapping[str, PlannedNode], waits_for: tuple[str, ...]) -> Cause | None:
    above = [name for name in waits_for if is_producing_rows(planned.get(name))]
    if not above:
        return None
    names = ", ".join(above[:3]) + (" …" if len(above) > 3 else "")
    return Cause(Reason.UPSTREAM_CHANGED, f"{names} runs; if that changes something", pending=True)


def iter_python_above(node: PythonNode, project: Project) -> Iterator[str]:
    """The Python nodes that a node depends on, by name; a loader is known by its table instead."""
    return (name for name in node.after if name in project.python and not project.python[name].fills)


def list_tables_above(node: PythonNode, project: Project) -> tuple[Input, ...]:
    """The tables and views that a node depends on, those of loaders among them."""
    names = [project.python[n].fills if n in project.python else n for n in node.after]
    return list_inputs_of_names([n for n in names if n], project)


def list_changed_tables(
    node: PythonNode, last_run: LastPythonRun, project: Project, relations: Mapping[Relation, RelationState]
) -> list[Input]:
    """The tables and views that a node depends on and that are not what they were at its last run."""
    return [
        i
        for i in list_tables_above(node, project)
        if not is_same_version(last_run.sources.get(i.key), find_version(i, project, relations))
    ]


def record_tables(
    node: PythonNode, project: Project, relations: Mapping[Relation, RelationState]
) -> dict[str, RecordedVersion]:
    """The versions of what a node depends on, as they are recorded."""
    versions = ((i, find_version(i, project, relations)) for i in list_tables_above(node, project))
    return {i.key: version.record() for i, version in versions if version is not None}
