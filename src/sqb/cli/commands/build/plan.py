"""`sqb plan`: its output and exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import create_spark, print_document, print_lines, print_warnings
from sqb.console.lines import format_plan, shorten_diff
from sqb.console.style import Paint, get_terminal_width
from sqb.operations.environment import VirtualEnvironment, list_misplaced_views
from sqb.operations.plan import PlanOptions, ProjectPlan, plan_project


def run_plan(names: tuple[str, ...], explain: bool, **values: Any) -> int:
    """Show the plan, or one node of it in full."""
    if explain:
        return _run_explain(names=names, **values)
    # A node is explained as part of the plan that it belongs to; without that, a name is one more selector.
    common, options = parse_call(PlanOptions, {**values, "select": (*values["select"], *names)})
    workspace = common.open_or_explain(options.virtual_env)
    shown = plan_project(workspace, options, create_spark(workspace))
    if common.as_json:
        print_document(shown.to_data())
        print_warnings(shown.plan)
    else:
        print_lines(_format_plan(shown, common))
    return 1 if shown.plan.summary["blocked"] else 0


def _format_plan(shown: ProjectPlan, common: CommonOptions) -> Iterator[str]:
    paint = Paint(sys.stdout)
    yield from _format_environment(shown, paint)
    yield from format_plan(
        shown.plan, common.verbose, paint, _read_diffs(shown, common), get_terminal_width(sys.stdout)
    )
    if not shown.plan.nothing_to_do:
        from sqb.console.concerned import format_concerned  # only what runs concerns anybody
        from sqb.inspect.concerned import find_concerned

        yield from format_concerned(find_concerned(shown.planned.workspace.project, shown.plan), paint)
    if due := shown.list_due_tests():
        yield f"Unit tests: {len(due)} to run before the models"


def _format_environment(shown: ProjectPlan, paint: Paint) -> Iterator[str]:
    """What a plan says of its environment."""
    environment = shown.planned.environment
    if isinstance(environment, VirtualEnvironment):
        from sqb.console.environments.build import format_environment

        views = environment.count_changed_views(shown.plan, shown.planned.seen)
        missing = list_misplaced_views(environment.session)
        yield from format_environment(environment.session, shown.plan, views, paint, missing)


def _read_diffs(shown: ProjectPlan, common: CommonOptions) -> dict[str, str]:
    """What changed in definitions: with -v, and in short where the plan is for an environment."""
    planned = shown.planned
    is_short = isinstance(planned.environment, VirtualEnvironment)
    if not (is_short or common.verbose) or all(n.action == "skip" for n in shown.plan.nodes):
        return {}
    from sqb.operations.inspect.definition_diffs import read_definition_diffs  # reads what nothing unchanged needs

    diffs = read_definition_diffs(planned.workspace, planned.environment, shown.plan)
    return diffs if common.verbose else {name: shorten_diff(text) for name, text in diffs.items()}


def _run_explain(**values: Any) -> int:
    """Show one node of a plan in full."""
    from sqb.console.inspect.explain import format_explanation
    from sqb.operations.inspect.explain import ExplainOptions, explain_node

    common, options = parse_call(ExplainOptions, values)
    workspace = common.open_or_explain(options.virtual_env)
    explained = explain_node(workspace, options, create_spark(workspace))
    if common.as_json:
        print_document(explained.to_data())
        print_warnings(explained.plan)
    else:
        paint, name = Paint(sys.stdout), explained.name
        print_lines(format_explanation(explained.explanation, paint))
        for warning in explained.plan.warnings:
            if warning.startswith((f"{name} ", f"{name}:")):
                print_lines([paint(f"warning: {warning}", "yellow")])
    return 1 if explained.is_blocked else 0
