"""Whether a Python node runs: decided from what it is, and from what it depends on.

What a loader fetches cannot be seen from here, and neither can what a task without dependencies works on: these run in
every build, and say themselves that there is nothing to do. The rest is pruned with what it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqb.compiled import Project
from sqb.compiled_python import PythonNode
from sqb.names import Relation
from sqb.plan.above import Why, makes_rows, why_blocked
from sqb.plan.observed import Input, Observed, Standing, inputs_of_names, same_version, version_of
from sqb.plan.values import Options, PlannedNode, Reason


@dataclass(frozen=True, slots=True)
class PythonSeen:
    """The last run of a Python node that did its work: what it was then, and what it found."""

    run_id: str
    local_hash: str
    source_hash: str = ""
    config_hash: str = ""
    dependencies: Mapping[str, str] = field(default_factory=dict)
    # The versions of tables that it depends on, and the runs of Python nodes.
    sources: Mapping[str, list[Any]] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
    # It was tried since, and failed or skipped hard.
    owed: bool = False


def decide_python(
    node: PythonNode,
    project: Project,
    observed: Observed,
    options: Options,
    planned: Mapping[str, PlannedNode],
    waits_for: tuple[str, ...],
) -> PlannedNode:
    """The decision about one Python node."""
    if node.type == "loader" and not project.loads:
        why_off = f"loaders are off in {project.target}"
        return PlannedNode(
            node.name, node.type, node.kind, node.relation, "skip", "skip", Reason.NORMAL, why_off, upstream=waits_for
        )
    blocked = why_blocked(waits_for, project, observed, planned)
    why = blocked or _why_alone(node, project, observed, options, planned) or _why_above(planned, waits_for)
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


def _why_alone(
    node: PythonNode,
    project: Project,
    observed: Observed,
    options: Options,
    planned: Mapping[str, PlannedNode],
) -> Why | None:
    """Why a node runs whatever else does, or None."""
    seen = observed.python.get(node.name)
    if seen is None:
        return Why(Reason.FIRST_RUN)
    if (changed := _code_change(node, seen)) is not None:
        return changed
    if options.force or options.full_refresh:
        return Why(Reason.FORCED if options.force else Reason.FULL_REFRESH)
    if seen.owed:
        return Why(Reason.LAST_RUN_FAILED, "its last run did not succeed")
    if node.type == "loader":
        return Why(Reason.EVERY_BUILD, "a loader runs in every build")
    if not node.after:
        return Why(Reason.EVERY_BUILD, "it depends on nothing that could tell whether it must run")
    return _why_moved(node, seen, project, observed, planned)


def decide_hook(node: PythonNode, observed: Observed, runs: bool) -> PlannedNode:
    """A hook: it runs with every build that runs something, and has an identity as other nodes have."""
    seen = observed.python.get(node.name)
    changed = Why(Reason.FIRST_RUN) if seen is None else _code_change(node, seen)
    why = changed or Why(Reason.EVERY_BUILD if runs else Reason.NORMAL)
    if not runs:
        detail = f"{why.detail}; a hook runs where something else does".removeprefix("; ")
        return PlannedNode(node.name, "hook", node.kind, None, "skip", "skip", why.reason, detail)
    return PlannedNode(node.name, "hook", node.kind, None, "run", "full", why.reason, why.detail)


def _code_change(node: PythonNode, seen: PythonSeen) -> Why | None:
    if node.local_hash == seen.local_hash:
        return None
    if node.source_hash != seen.source_hash:
        return Why(Reason.CODE_CHANGED, f"source {seen.source_hash[:8]} → {node.source_hash[:8]}")
    then, now = seen.dependencies, node.dependencies
    files = sorted(f for f in then.keys() | now.keys() if then.get(f) != now.get(f))
    if files:
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        return Why(Reason.CODE_CHANGED, f"{', '.join(files[:3])}{more}")
    return Why(Reason.CONFIG_CHANGED, f"{seen.config_hash[:8]} → {node.config_hash[:8]}")


def _why_moved(
    node: PythonNode, seen: PythonSeen, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Why | None:
    """Something that it depends on is not what it was at its last run."""
    for name in python_above(node, project):
        last = observed.python.get(name)
        if last is not None and seen.runs.get(name) != last.run_id and not makes_rows(planned.get(name)):
            return Why(Reason.UPSTREAM_CHANGED, f"{name} has run since")
    changed = [
        i for i in changed_tables(node, seen, project, observed.relations) if not _may_return(i, project, planned)
    ]
    if not changed:
        unknown = [i.name for i in tables_above(node, project) if i.external and i.name in observed.unknown]
        return Why(Reason.SOURCE_UNKNOWN, f"{unknown[0]} could not be observed") if unknown else None
    first = changed[0]
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    reason = Reason.SOURCE_CHANGED if first.external else Reason.UPSTREAM_CHANGED
    return Why(reason, f"{first.name} changed since its last run{more}")


def _may_return(found: Input, project: Project, planned: Mapping[str, PlannedNode]) -> bool:
    """Whether a table that moved is made again, and may be what it was."""
    above = planned.get(project.loaders.get(found.name, found.name) if found.external else found.name)
    return not found.view and makes_rows(above)


def _why_above(planned: Mapping[str, PlannedNode], waits_for: tuple[str, ...]) -> Why | None:
    above = [name for name in waits_for if makes_rows(planned.get(name))]
    if not above:
        return None
    names = ", ".join(above[:3]) + (" …" if len(above) > 3 else "")
    return Why(Reason.UPSTREAM_CHANGED, f"{names} runs; if that changes something", pending=True)


def python_above(node: PythonNode, project: Project) -> Iterator[str]:
    """The Python nodes that a node depends on, by name; a loader is known by its table instead."""
    return (name for name in node.after if name in project.python and not project.python[name].fills)


def tables_above(node: PythonNode, project: Project) -> tuple[Input, ...]:
    """The tables and views that a node depends on, those of loaders among them."""
    names = [project.python[n].fills if n in project.python else n for n in node.after]
    return inputs_of_names([n for n in names if n], project)


def changed_tables(
    node: PythonNode, seen: PythonSeen, project: Project, relations: Mapping[Relation, Standing]
) -> list[Input]:
    """The tables and views that a node depends on and that are not what they were at its last run."""
    return [
        i
        for i in tables_above(node, project)
        if not same_version(seen.sources.get(i.key), version_of(i, project, relations))
    ]


def recorded_tables(node: PythonNode, project: Project, relations: Mapping[Relation, Standing]) -> dict[str, list[Any]]:
    """The versions of what a node depends on, as they are recorded."""
    found = ((i, version_of(i, project, relations)) for i in tables_above(node, project))
    return {i.key: version.record() for i, version in found if version is not None}
