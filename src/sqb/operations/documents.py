"""Plans and builds as `--json` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.build.observe.lake import LakeState
from sqb.inspect.concerned import find_concerned
from sqb.operations.environment import BuildEnvironment, VirtualEnvironment, list_misplaced_views
from sqb.plan.model import Plan

if TYPE_CHECKING:
    from sqb.environments.build.finalize import EnvironmentResult
    from sqb.operations.build import BuildOutcome

_PLAN_KEYS = ("name", "type", "kind", "relation", "action", "run_type", "reason", "detail", "incremental", "upstream")
_EXPLAIN_KEYS = ("root", "changes", "drivers", "lookups")
_BUILD_KEYS = (*_PLAN_KEYS, "root", "status", "rows", "seconds", "snapshot_id", "error", "failures")


def encode_plan(plan: Plan) -> dict[str, Any]:
    """A plan as `--json` prints it, less what it says of an environment."""
    data = plan.to_data()
    nodes = [{k: n[k] for k in (*_PLAN_KEYS, *_EXPLAIN_KEYS)} for n in data["nodes"]]
    return {"target": data["target"], "nodes": nodes, "summary": data["summary"]}


def encode_shown_plan(plan: Plan, seen: LakeState, environment: BuildEnvironment) -> dict[str, Any]:
    """A plan as `sqb plan --json` prints it."""
    document = encode_plan(plan)
    if concerned := find_concerned(environment.workspace.project, plan):
        document["concerned"] = concerned.to_data()
    if isinstance(environment, VirtualEnvironment):
        document["environment"] = encode_environment(environment, plan, seen)
    return document


def encode_build(outcome: BuildOutcome) -> dict[str, Any]:
    """A build as `sqb build --json` prints it."""
    planned, environment, result = outcome.planned, outcome.planned.environment, outcome.result
    nodes = [{k: d[k] for k in _BUILD_KEYS} for d in (n.to_data() for n in result.nodes)]
    document: dict[str, Any] = {
        "target": result.plan.target,
        "run_id": result.run_id,
        "nodes": nodes,
        "summary": result.summary,
    }
    if concerned := find_concerned(planned.workspace.project, planned.plan):
        document["concerned"] = concerned.to_data()
    if planned.workspace.project.tests:
        document["tests"] = [t.to_data() for t in result.tests]
    if isinstance(environment, VirtualEnvironment):
        document["environment"] = encode_environment(environment, planned.plan, planned.seen, outcome.environment)
    return document


def encode_environment(
    environment: VirtualEnvironment, plan: Plan, seen: LakeState, result: EnvironmentResult | None = None
) -> dict[str, Any]:
    """What `--json` says of the environment."""
    session = environment.session
    remaining = result.remaining if result is not None else session.list_unselected_stale(plan.options.selected)
    data: dict[str, Any] = {
        "name": session.name,
        "status": (result if result is not None else session).status.label,
        "baseline": session.baseline,
        "exists": session.environment is not None,
        "stale_roots": [s.to_data() for s in session.stale.values() if s.root],
        "stale": [s.to_data() for s in session.stale.values()],
        "stale_count": len(session.stale),
        "removed": list(session.removed),
        "views_missing": list_misplaced_views(session),
        "views_to_move": environment.count_changed_views(plan, seen),
        "remaining_stale": list(remaining),
    }
    if result is not None:
        data |= {"views_made": result.initial_views, "views_moved": result.views}
        data |= {"checkpoint": result.checkpoint or None, "shown": not result.failed}
    return data
