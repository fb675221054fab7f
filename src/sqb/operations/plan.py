"""A plan and everything that it was made from; what `sqb plan` shows of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from sqb.build.history.recovery import find_unrecorded
from sqb.build.notices import find_settings_notice
from sqb.build.observe.lake import LakeState
from sqb.build.observe.orphans import describe_orphans, find_orphans
from sqb.build.observe.renames import find_renames
from sqb.build.spark_engine import OnDemandSpark
from sqb.compile.model import Project, UnitTest
from sqb.errors.call import CallError
from sqb.lake.port import Lake, TableState
from sqb.light_dataclass import dataclass
from sqb.names import Relation, format_age
from sqb.operations.environment import BuildEnvironment, open_environment
from sqb.operations.selection import Wanted, select_nodes
from sqb.plan.decide import make_plan, refine_plan
from sqb.plan.defer import defer_project
from sqb.plan.freshness import POLICY
from sqb.plan.model import Options, Plan
from sqb.plan.new_versions import plan_new_versions
from sqb.project.models.cursor import get_cursor_type, is_point, parse_point
from sqb.workspace import Workspace

# Machines that set their clocks by the network differ by far less.
_CLOCK_TOLERANCE = 60.0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is planned: the selection, the window and the environment."""

    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    force: bool = False
    full_refresh: bool = False
    start_cursor: str | None = None
    end_cursor: str | None = None
    virtual_env: str | None = None
    include_stale_upstreams: bool = False
    changes_only: bool = False
    allow_breaking: bool = False
    selector: str | None = None

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        Wanted(self.select, self.exclude, self.selector)

    def build_options(self, names: frozenset[str] | None) -> Options:
        """The same of nodes that have been found."""
        return Options(names, self.force, self.full_refresh, self.start_cursor, self.end_cursor)

    def select_in(self, environment: BuildEnvironment, spark: OnDemandSpark) -> frozenset[str] | None:
        """The names of the nodes that are selected, as the environment allows it; None for all of them."""
        wanted = Wanted(self.select, self.exclude, self.selector)
        names = select_nodes(environment, wanted, spark=spark).names if wanted else None
        return environment.narrow_selection(names, self.include_stale_upstreams, self.changes_only)


@dataclass(frozen=True, slots=True)
class PlannedWorkspace:
    """A plan, and everything that it was made from."""

    workspace: Workspace
    lake: Lake
    seen: LakeState
    plan: Plan
    spark: OnDemandSpark
    environment: BuildEnvironment


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """A plan with what only its readers need, and what it was made from."""

    plan: Plan
    planned: PlannedWorkspace

    def to_data(self) -> dict[str, Any]:
        """What `sqb plan --json` prints."""
        from sqb.operations.documents import encode_shown_plan  # people read lines

        return encode_shown_plan(self.plan, self.planned.seen, self.planned.environment)

    def list_due_tests(self) -> list[UnitTest]:
        """The unit tests that a build runs before the models."""
        planned = self.planned
        if not planned.workspace.project.tests:
            return []
        from sqb.build.unit_tests.passed_cache import list_due_tests  # few projects have any

        return list_due_tests(planned.workspace, planned.lake, planned.seen, self.plan)


def plan_project(workspace: Workspace, options: PlanOptions, spark: OnDemandSpark) -> ProjectPlan:
    """Plan what a build would do, and why; `spark` answers questions that nothing cheaper answers, and is stopped."""
    planned = plan_environment(open_environment(workspace, options.virtual_env), options, spark)
    spark.stop()
    return ProjectPlan(add_reader_notices(planned), planned)


def plan_environment(environment: BuildEnvironment, request: PlanOptions, spark: OnDemandSpark) -> PlannedWorkspace:
    """Plan what is wanted, in an environment that is open; `spark` is stopped on errors."""
    workspace, lake = environment.workspace, environment.lake
    project = workspace.project
    try:
        names = request.select_in(environment, spark)
        environment.check_view_conflicts(names)
        seen = observe_environment(environment, workspace, names, spark)
        options = request.build_options(names)
        validate_window(project, options)
        if project.other_target is not None:
            workspace = replace(workspace, project=defer_project(project, seen.observed, options.selected))
        plan = decide_plan(workspace, lake, seen, options)
        if not plan.nothing_to_do:
            from sqb.build.observe.mistakes import refuse_mistakes  # reads queries, which nothing unchanged needs

            refuse_mistakes(workspace, seen, plan, request.allow_breaking)
        warnings = (*check_clocks(seen.states, time.time()), *find_settings_notice(workspace, seen, plan))
        if not plan.nothing_to_do or not project.nodes:
            from sqb.project.unread_files import find_unread_files  # what is unchanged needs no words

            warnings = (*warnings, *find_unread_files(workspace.root))
        plan = replace(plan, warnings=(*plan.warnings, *warnings))
    except BaseException:
        spark.stop_requested.set()
        spark.stop()
        raise
    return PlannedWorkspace(workspace, lake, seen, plan, spark, environment)


def replan(planned: PlannedWorkspace, names: frozenset[str]) -> tuple[LakeState, Plan]:
    """Plan some of the nodes again, after another look at the lake."""
    environment, workspace, lake = planned.environment, planned.workspace, planned.lake
    seen = observe_environment(environment, workspace, names, planned.spark)
    return seen, decide_plan(workspace, lake, seen, replace(planned.plan.options, selected=names))


def observe_environment(
    environment: BuildEnvironment, workspace: Workspace, names: frozenset[str] | None, spark: OnDemandSpark
) -> LakeState:
    """Observe all that a plan depends on; sources only where there are any."""
    project, lake = workspace.project, environment.lake
    seen = add_dbt_checksums(environment.observe(workspace), lake, project)
    if project.externals or any(POLICY in node.settings for node in project):
        from sqb.build.observe.sources import observe_sources  # loads what asks sources for their versions

        seen = observe_sources(workspace, lake, seen, spark.session, names)
    return seen


def decide_plan(workspace: Workspace, lake: Lake, seen: LakeState, options: Options) -> Plan:
    """The plan from what is observed: first who runs, which starts nothing, and where anything does, also how."""
    project = workspace.project
    plan = make_plan(project, seen.observed, options)
    if not plan.nothing_to_do:
        from sqb.build.observe.refreshes import observe_refreshes  # reads queries, which nothing unchanged needs

        refreshes = observe_refreshes(workspace, lake, seen.project_priors(project), plan)
        plan = refine_plan(plan, project, refreshes.observed, workspace.gate)
    return plan_new_versions(plan, project, seen.observed) if seen.observed.new_versions else plan


def add_dbt_checksums(seen: LakeState, lake: Lake, project: Project) -> LakeState:
    """Add the known checksums of dbt tables that the project reads to the observations."""
    names = {e.name: e.name for e in project.externals.values() if e.dbt}
    if not names:
        return seen
    from sqb.dbt.checksums import add_checksums  # only projects beside dbt need it

    return add_checksums(seen, lake, names)


def check_clocks(states: Mapping[Relation, TableState], now: float) -> list[str]:
    """The warnings where tables were written later than it is here: then ages and windows of time are wrong."""
    ahead = [(s.made_ms / 1000 - now, relation) for relation, s in states.items() if s.made_ms is not None]
    most, relation = max(ahead, default=(0.0, None), key=lambda entry: entry[0])
    if most <= _CLOCK_TOLERANCE:
        return []
    return [f"{relation} was written {format_age(most)} from now by the clock of its writer: check the clocks"]


def add_reader_notices(planned: PlannedWorkspace) -> Plan:
    """Add what builds report themselves: the rows that a build would lose, and the history that a killed one lacks.

    Decisions stay as they are.
    """
    workspace, lake, plan = planned.workspace, planned.lake, planned.plan
    if missing := find_unrecorded(workspace, lake, planned.seen.states).text:
        plan = replace(plan, warnings=(*plan.warnings, f"{missing}; the next build writes it"))
    if renames := find_renames(workspace.project, lake):
        texts = [f"{rename.text}; the next build renames it to {rename.relation}" for rename in renames]
        plan = replace(plan, warnings=(*plan.warnings, *texts))
    if not workspace.virtual.enabled and (orphans := find_orphans(workspace.project, lake)):
        is_new = any(node.reason == "First run" and node.type == "model" for node in plan.nodes)
        plan = replace(plan, warnings=(*plan.warnings, describe_orphans(orphans, is_new)))
    if not plan.nothing_to_do:
        from sqb.build.kinds.cursor_origin import add_lost_history_notices

        projected = planned.seen.project_priors(workspace.project)
        plan = add_lost_history_notices(plan, workspace.project, lake, projected)
    return plan


def validate_window(project: Project, options: Options) -> None:
    """Refuse a window that no model is run for, or that is not one of a model's cursor."""
    bounds = {"--start-cursor": options.start_cursor, "--end-cursor": options.end_cursor}
    words = {option: text for option, text in bounds.items() if text is not None}
    if not words:
        return
    first = next(iter(words))
    if options.full_refresh:
        message = f"{first} and --full-refresh contradict each other"
        raise CallError(message, hint="a full refresh rebuilds everything; leave one of the two out")
    chosen = [n for n in project if options.selected is None or n.name in options.selected]
    models = [n for n in chosen if n.kind == "incremental"]
    if not models:
        message = f"{first} is for models of the kind incremental, and none is selected"
        raise CallError(message, hint="select one with -s name")
    for model in models:
        kind = get_cursor_type(model.settings)
        for option, text in words.items():
            if not is_point(text, kind):
                what = "date or timestamp, such as 2024-01-31" if kind == "timestamp" else "whole number"
                message = f'{option}: "{text}" is not a {what}, and the cursor of {model.name} is of the type {kind}'
                raise CallError(message, hint="with -s only models of one type of cursor can be selected")
    if len(words) == 2:
        form = get_cursor_type(models[0].settings)
        start, end = (parse_point(text, form, UTC) for text in words.values())
        if start >= end:
            raise CallError("--start-cursor must be before --end-cursor", hint="a window is [start, end)")


def validate_values(values: Mapping[str, Any]) -> None:
    """Raise CallError for values that cannot replace a variable in SQL."""
    for name, value in values.items():
        parts = value if isinstance(value, list) else [value]
        if not all(part is None or isinstance(part, str | int | float) for part in parts):
            raise CallError(
                f"--vars: {name} must be text, a number, true/false, null or a list of these",
                hint="""such as --vars '{"day": "2024-01-31", "countries": ["de", "fr"]}'""",
            )
