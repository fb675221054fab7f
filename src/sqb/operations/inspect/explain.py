"""One node of a plan in full: all that its decision rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqb.build.spark_engine import OnDemandSpark
from sqb.errors.call import CallError
from sqb.inspect.definitions import diff_code
from sqb.inspect.explain import Explanation, explain
from sqb.inspect.explain_python import explain_hook, explain_python
from sqb.operations.documents import encode_plan
from sqb.operations.environment import NoEnvironment, open_environment
from sqb.operations.inspect.definition_diffs import read_definition_diffs
from sqb.operations.plan import PlannedWorkspace, PlanOptions, plan_environment
from sqb.operations.selection import Wanted, select_nodes
from sqb.plan.model import Plan
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ExplainOptions(PlanOptions):
    """The node that is explained, and the plan that it is part of."""

    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """One node of a plan in full."""

    explanation: Explanation
    plan: Plan
    is_hook: bool

    @property
    def name(self) -> str:
        return self.explanation.planned.name

    @property
    def is_blocked(self) -> bool:
        return self.explanation.planned.action == "blocked"

    def to_data(self) -> dict[str, Any]:
        """What `sqb plan NAME --explain --json` prints."""
        document, planned = encode_plan(self.plan), self.explanation.planned
        nodes = [planned.to_data()] if self.is_hook else [n for n in document["nodes"] if n["name"] == self.name]
        changes = [c.to_data() for c in planned.changes] if planned.action == "run" else []
        nodes = [{**n, "changes": changes, "explain": self.explanation.to_data()} for n in nodes]
        return {**document, "nodes": nodes}


def explain_node(workspace: Workspace, options: ExplainOptions, spark: OnDemandSpark) -> ExplainedNode:
    """Plan, and explain one node of the plan; `spark` is stopped."""
    planned = plan_environment(open_environment(workspace, options.virtual_env), options, spark)
    spark.stop()
    project, plan, lake = planned.workspace.project, planned.plan, planned.lake
    seen = planned.seen.project_priors(project)
    hook = _find_hook(planned, options.names)
    if hook:
        return ExplainedNode(explain_hook(hook, plan, project, lake, seen, diff_code), plan, is_hook=True)
    name = _find_node(planned, options.names)
    diff = read_definition_diffs(planned.workspace, NoEnvironment(planned.workspace, lake), plan).get(name, "")
    if name in project.python:
        return ExplainedNode(explain_python(name, plan, project, lake, seen, diff), plan, is_hook=False)
    return ExplainedNode(explain(name, plan, planned.workspace, lake, seen, diff), plan, is_hook=False)


def _find_hook(planned: PlannedWorkspace, names: Sequence[str]) -> str:
    """Find the named hook, if it is one: hooks are not in the graph, so selectors do not find them."""
    word = names[0].removeprefix("hook:") if len(names) == 1 else ""
    node = planned.workspace.project.python.get(word)
    return word if node is not None and node.type == "hook" else ""


def _find_node(planned: PlannedWorkspace, names: Sequence[str]) -> str:
    """The node that is meant: the one named, else the only one in the plan."""
    project, plan = planned.workspace.project, planned.plan
    chosen = select_nodes(planned.environment, Wanted(names), project.graph).names if names else ()
    matches = [n for n in project.graph if n in chosen] if names else _list_non_loaders(plan)
    if len(matches) != 1:
        few = ", ".join(matches[:5]) + (" …" if len(matches) > 5 else "")
        count_text = f"{len(matches)} are selected: {few}" if matches else "none is selected"
        raise CallError(f"--explain shows one node, and {count_text}", hint="name one: `sqb plan NAME --explain`")
    if matches[0] not in {n.name for n in plan.nodes}:
        raise CallError(f"{matches[0]} is not among the selected nodes", hint="leave --select and --exclude out")
    return matches[0]


def _list_non_loaders(plan: Plan) -> list[str]:
    """What is planned, without the loaders that go along with what reads their sources."""
    nodes = [n for n in plan.nodes if n.type != "loader"]
    return [n.name for n in nodes or plan.nodes]
