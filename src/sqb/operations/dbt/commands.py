"""The commands of `sqb dbt`: plan, compile, and those that let dbt run something."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqb.build.result import generate_run_id
from sqb.dbt.command import Dbt, stream_dbt
from sqb.dbt.fingerprints import record_partial, record_run, record_same
from sqb.dbt.interleave import Phase
from sqb.dbt.model import DbtObserved, DbtPlan
from sqb.dbt.observe import observe_dbt
from sqb.dbt.run import DbtRun, PassThrough, run_plan
from sqb.errors.dbt import DbtFailed
from sqb.operations.dbt.call import DbtCall, DbtCommandOptions, open_call
from sqb.operations.dbt.listener import DbtListener
from sqb.operations.dbt.projects import (
    DbtProjects,
    PlannedPhase,
    observe_projects,
    open_projects,
    plan_nodes,
    read_diffs,
)
from sqb.operations.dbt.results import (
    DbtBuildResult,
    DbtCompileResult,
    DbtPhaseResult,
    DbtPlanResult,
    SqbPhaseResult,
)
from sqb.operations.dbt.sqb_models import build_phase, plan_surrounding


@dataclass(slots=True)
class _Progress:
    """What has become of both sides so far."""

    dbt: list[DbtPhaseResult] = field(default_factory=list)
    sqb: list[SqbPhaseResult] = field(default_factory=list)
    # dbt nodes that are not what they should be, and sqb nodes that are not, with why.
    dbt_failed: dict[str, str] = field(default_factory=dict)
    sqb_failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


def plan_dbt_project(folder: Path, options: DbtCommandOptions, listener: DbtListener) -> DbtPlanResult:
    """Plan what dbt would run, and what sqb around it. Starts no Java."""
    call = open_call(folder, "build", options)
    projects = open_projects(call, listener)
    beside = plan_surrounding(projects, listener)
    observed = replace(observe_projects(projects, listener), pending=beside.pending, blocked=beside.blocking)
    plan, _ = plan_nodes(call, projects, projects.selected, observed, listener)
    diffs = read_diffs(call, projects, plan, observed) if listener.wants_diffs else {}
    planned = PlannedPhase(call.verb, plan, len(projects.selected), diffs)
    return DbtPlanResult(projects.project, planned, beside.merge_dbt_plan(plan))


def compile_dbt_project(folder: Path, options: DbtCommandOptions, listener: DbtListener) -> DbtCompileResult:
    """Let dbt compile what is selected; nothing is built."""
    call = open_call(folder, "compile", options)
    refresh = ("--full-refresh",) if call.full_refresh else ()
    exit = stream_dbt(call.dbt, "compile", *call.selection.arguments, *call.flags, *refresh, out=listener.out)
    return DbtCompileResult(exit.code, exit.interrupted, call.dbt.target_path / "compiled")


def run_dbt_project(folder: Path, verb: str, options: DbtCommandOptions, listener: DbtListener) -> DbtBuildResult:
    """Let dbt build, run, test, seed or snapshot what changed, and sqb build the models around that."""
    started_at = time.monotonic()
    call = open_call(folder, verb, options)
    projects = open_projects(call, listener)
    progress = _Progress()
    for phase in projects.phases:
        if progress.stopped:
            break
        if phase.side == "dbt":
            _run_dbt_phase(call, projects, phase, progress, listener)
        else:
            _run_sqb_phase(projects, phase, progress, listener)
    return DbtBuildResult(
        call.verb,
        projects.project,
        len(projects.selected),
        tuple(progress.dbt),
        tuple(progress.sqb),
        time.monotonic() - started_at,
    )


def _run_dbt_phase(
    call: DbtCall, projects: DbtProjects, phase: Phase, progress: _Progress, listener: DbtListener
) -> None:
    border = projects.border
    blocking = {s: progress.sqb_failed[n] for s, n in border.from_sqb.items() if n in progress.sqb_failed}
    names = [name for name in projects.project.nodes if name in phase.names]
    observed = replace(observe_projects(projects, listener), blocked=blocking)
    plan, before = plan_nodes(call, projects, names, observed, listener)
    whole = sum(1 for phase in projects.phases if phase.side == "dbt") == 1
    diffs = read_diffs(call, projects, plan, before) if listener.wants_diffs else {}
    listener.report_plan(PlannedPhase(call.verb, plan, len(projects.selected) if whole else len(names), diffs))
    started_at = time.monotonic()
    run = _run_dbt(call, projects, plan, before, call.selection.arguments if whole else None, listener)
    result = DbtPhaseResult(plan, run, time.monotonic() - started_at)
    progress.dbt.append(result)
    progress.dbt_failed |= result.not_built
    progress.stopped = run.interrupted
    listener.report_run(result)
    if run.lost and not run.interrupted:
        raise DbtFailed(
            f"dbt {call.verb} ended with exit code {run.code} and left no results",
            hint=f"its output is above; its log is {os.path.relpath(call.dbt.log_path / 'dbt.log')}",
        )


def _run_dbt(
    call: DbtCall,
    projects: DbtProjects,
    plan: DbtPlan,
    before: DbtObserved,
    selection: tuple[str, ...] | None,
    listener: DbtListener,
) -> DbtRun:
    """Let dbt run the plan, and record what it has built; `selection` is the user's, where all of it runs."""
    run_id, project, lake = generate_run_id(), projects.project, projects.lake
    state = ("--state", call.selection.state) if call.selection.state is not None and call.defer_options.defer else ()
    if plan.runs:
        # Whoever writes to an embedded lake first makes its folder; dbt's Spark would not.
        database = projects.workspace.lake_location.database
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
        if call.empty:
            # Before dbt starts: whatever becomes of it, these tables do not pass for what their models say.
            record_partial(lake, project, plan.runs, "--empty", run_id)
    with _attach_spark(call, projects, plan, listener) as dbt:
        run = run_plan(dbt, project, plan, PassThrough(call.verb, selection, call.flags, state), listener.out)
    record_same(lake, project, plan, before, run_id)
    if run.results and not call.empty:
        after = observe_dbt(project, lake, deferred=projects.deferred)
        record_run(lake, project, run, before, after, run_id)
    return run


def _attach_spark(
    call: DbtCall, projects: DbtProjects, plan: DbtPlan, listener: DbtListener
) -> AbstractContextManager[Dbt]:
    """dbt with the Spark that it is to work on."""
    if not plan.runs or not call.settings.share_spark:
        return nullcontext(call.dbt)
    from sqb.dbt.sharing import share_spark  # only for those who want it

    return share_spark(call.dbt, projects.workspace, listener.report_wait)


def _run_sqb_phase(projects: DbtProjects, phase: Phase, progress: _Progress, listener: DbtListener) -> None:
    result = build_phase(projects, phase, progress.dbt_failed, listener)
    progress.sqb.append(result)
    progress.sqb_failed |= result.not_built
    progress.stopped = result.interrupted
