"""Plans and builds as `--json` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.build.observe import Look
from sqb.operations.environment import views_to_move, views_to_put_back
from sqb.plan.values import Plan

if TYPE_CHECKING:
    from sqb.environments.building import Settled
    from sqb.environments.entering import Entered
    from sqb.operations.building import Built
    from sqb.operations.planning import Planned

_PLAN_KEYS = ("name", "type", "kind", "relation", "action", "run_type", "reason", "detail", "incremental", "upstream")
_EXPLAIN_KEYS = ("root", "changes", "drivers", "lookups")
_BUILD_KEYS = (*_PLAN_KEYS, "root", "status", "rows", "seconds", "snapshot_id", "error", "failures")


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as `--json` prints it, less what it says of an environment."""
    data = plan.to_data()
    nodes = [{k: n[k] for k in (*_PLAN_KEYS, *_EXPLAIN_KEYS)} for n in data["nodes"]]
    return {"target": data["target"], "nodes": nodes, "summary": data["summary"]}


def shown_plan_document(plan: Plan, seen: Look, entered: Entered | None) -> dict[str, Any]:
    """A plan as `sqb plan --json` prints it."""
    document = plan_document(plan)
    if entered is not None:
        document["environment"] = environment_data(entered, plan, seen)
    return document


def build_document(made: Planned, built: Built, entered: Entered | None) -> dict[str, Any]:
    """A build as `sqb build --json` prints it."""
    result = built.result
    nodes = [{k: d[k] for k in _BUILD_KEYS} for d in (n.to_data() for n in result.nodes)]
    document = {"target": result.plan.target, "nodes": nodes, "summary": result.summary}
    if made.workspace.project.tests:
        document["tests"] = [t.to_data() for t in result.tests]
    if entered is not None:
        document["environment"] = environment_data(entered, made.plan, made.seen, built.settled)
    return document


def environment_data(entered: Entered, plan: Plan, seen: Look, settled: Settled | None = None) -> dict[str, Any]:
    """What `--json` says of the environment."""
    remaining = settled.remaining if settled is not None else entered.left_by(plan.options.selected)
    data: dict[str, Any] = {
        "name": entered.name,
        "status": (settled if settled is not None else entered).status.shown,
        "baseline": entered.baseline,
        "exists": entered.environment is not None,
        "stale_roots": [s.to_data() for s in entered.stale.values() if s.root],
        "stale": [s.to_data() for s in entered.stale.values()],
        "stale_count": len(entered.stale),
        "removed": list(entered.removed),
        "views_missing": views_to_put_back(entered),
        "views_to_move": views_to_move(entered, plan, seen),
        "remaining_stale": list(remaining),
    }
    if settled is not None:
        data |= {"views_made": settled.begun, "views_moved": settled.views}
        data |= {"checkpoint": settled.checkpoint or None, "shown": not settled.untouched}
    return data
