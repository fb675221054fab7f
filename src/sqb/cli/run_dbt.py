"""`sqb dbt`: plan what dbt has to run, let it run that, and build the sqb models around it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqb.build.result import generate_run_id
from sqb.cli.build import CommandOptions, create_spark
from sqb.cli.run_dbt_with_models import build_phase, plan_surrounding
from sqb.console.dbt import diff_texts, encode_dbt, encode_done, encode_node, format_plan, format_summary
from sqb.console.documents import encode_plan
from sqb.console.errors import format_path
from sqb.console.lines import format_plan as sqb_plan_lines
from sqb.console.style import Paint, get_terminal_width
from sqb.dbt.command import Dbt, DbtArguments, build_dbt, stream_dbt
from sqb.dbt.context import DbtContext
from sqb.dbt.defer import DeferOptions, DeferredRelations, read_deferred, resolve_folder
from sqb.dbt.fingerprints import record_partial, record_run, record_same
from sqb.dbt.interleave import Border, Phase, find_border, plan_phases
from sqb.dbt.model import RUN_BY, DbtObserved, DbtOptions, DbtPlan, DbtProject
from sqb.dbt.observe import observe_dbt
from sqb.dbt.plan import plan_dbt
from sqb.dbt.run import DbtRun, PassThrough
from sqb.dbt.run import run_plan as run_dbt_plan
from sqb.dbt.selection import DbtSelection, read_project
from sqb.errors.base import Errors
from sqb.errors.call import CallError
from sqb.errors.dbt import DbtFailed, DbtRefused, NoDbt, NotWithDbt
from sqb.lake.open import open_lake
from sqb.lake.port import Lake
from sqb.project.config.config import load_config
from sqb.project.config.dbt import DbtSettings
from sqb.project.files import find_root
from sqb.workspace import Workspace, open_workspace

# Options that sqb sets itself.
_SQB_OPTIONS = ("--project-dir", "--profiles-dir", "--target-path", "--log-path", "--write-json", "--no-write-json")
# With these, dbt makes tables that are not what their models say, and sqb would take them for current.
_PARTIAL_OPTIONS = ("--sample", "--event-time-start", "--event-time-end")
_SELECTING = ("--select", "-s", "--models", "-m", "--exclude", "--selector", "--vars", "--target", "-t", "--profile")
_PARSED_OPTIONS = (*_SELECTING, "--empty", "--defer", "--favor-state", "--defer-state", "--state")
# With these the sqb models around dbt are built too; the others are about dbt alone.
_WITH_SQB = ("build", "run")


@dataclass(frozen=True, slots=True)
class DbtCall:
    """What a command of `sqb dbt` was asked for."""

    dbt: Dbt
    settings: DbtSettings
    selection: DbtSelection
    verb: str
    full_refresh: bool
    empty: bool
    defer_options: DeferOptions
    flags: tuple[str, ...]
    sqb_target: str | None
    as_json: bool
    verbose: bool
    debug: bool

    def report(self, text: str) -> None:
        """Print what takes a while, on a terminal or with -v."""
        if sys.stderr.isatty() or self.verbose:
            print(text, file=sys.stderr)

    @property
    def options(self) -> DbtOptions:
        # Who types `test` wants to know what tests say now. And with --favor-state dbt reads elsewhere what it is not
        # told to run, so that nothing of what the user selected may be left out.
        everything = self.verb == "test" or self.defer_options.favor_state
        return DbtOptions(None, self.full_refresh, self.settings.replay_on_change, self.verb, everything)


@dataclass(frozen=True, slots=True)
class DbtProjects:
    """Both projects, and the border between them."""

    project: DbtProject
    selected: tuple[str, ...]
    workspace: Workspace
    lake: Lake
    border: Border
    phases: tuple[Phase, ...]
    deferred: DeferredRelations | None = None


@dataclass(slots=True)
class Progress:
    """What has become of both sides so far."""

    # Of dbt, by turns.
    runs: list[tuple[DbtPlan, DbtRun]] = field(default_factory=list)
    # Nodes of sqb as `--json` prints them.
    nodes: list[dict[str, Any]] = field(default_factory=list)
    # dbt nodes that are not what they should be, and sqb nodes that are not, with why.
    dbt_failed: dict[str, str] = field(default_factory=dict)
    sqb_failed: dict[str, str] = field(default_factory=dict)
    code: int = 0
    stopped: bool = False


def run_plan(**arguments: Any) -> int:
    """Show what dbt would run, and what sqb around it."""
    call = _parse_call("build", **arguments)
    projects = _open_projects(call)
    beside = plan_surrounding(projects.workspace, projects.border, projects.phases)
    observed = replace(_observe(projects), pending=beside.pending, blocked=beside.blocking)
    plan, _ = _plan_nodes(call, projects, projects.selected, observed)
    sqb = beside.merge_dbt_plan(plan)
    diffs = _read_diffs(call, projects, plan, observed) if call.verbose else {}
    if call.as_json:
        nodes = [encode_node(projects.project, n, diffs.get(n.unique_id)) for n in plan.nodes]
        nodes += encode_plan(sqb)["nodes"]
        counts = {a: sum(n["action"] == a for n in nodes) for a in ("run", "skip", "blocked")}
        dbt = encode_dbt(projects.project, plan, call.verb, len(projects.selected), None)
        print(json.dumps({"dbt": dbt, "nodes": nodes, "summary": counts}, indent=2, ensure_ascii=False))
    else:
        _print_plan(call, len(projects.selected), plan, diffs)
        if sqb.nodes:
            print()
            for line in sqb_plan_lines(sqb, call.verbose, Paint(sys.stdout), {}, get_terminal_width(sys.stdout)):
                print(line)
    return 1 if plan.filter_nodes("blocked") or sqb.summary["blocked"] else 0


def _print_plan(call: DbtCall, selected: int, plan: DbtPlan, diffs: Mapping[str, str]) -> None:
    for line in format_plan(plan, selected, call.verbose, Paint(sys.stdout), diffs, call.verb):
        print(line)


def _read_diffs(call: DbtCall, projects: DbtProjects, plan: DbtPlan, observed: DbtObserved) -> dict[str, str]:
    """What changed in the nodes that run because they are others: in their files, or else in their compiled SQL."""
    from sqb.dbt.run import read_cached_compiled  # only -v shows differences

    now = read_cached_compiled(call.dbt, projects.project)
    diffs = {}
    for name in (n.unique_id for n in plan.filter_nodes("run") if n.reason == "checksum changed"):
        stored, node = observed.stored[name], projects.project.nodes[name]
        diffs[name] = diff_texts(stored.code, node.code) or diff_texts(stored.compiled, now.get(name))
    return {name: diff for name, diff in diffs.items() if diff}


def run_compile(**arguments: Any) -> int:
    """Let dbt compile what is selected, and say where that went."""
    call = _parse_call("compile", **arguments)
    refresh = ("--full-refresh",) if call.full_refresh else ()
    flags = (*call.selection.arguments, *call.flags, *refresh)
    exit = stream_dbt(call.dbt, "compile", *flags, out=sys.stderr if call.as_json else None)
    folder = format_path(call.dbt.target_path / "compiled", Path.cwd())
    if call.as_json:
        print(json.dumps({"dbt": {"command": "compile", "exit_code": exit.code, "folder": folder}}, indent=2))
    elif not exit.code:
        print(f"\ncompiled SQL: {folder}")
    return 1 if exit.code or exit.interrupted else 0


def run_verb(verb: str, **arguments: Any) -> int:
    """Let dbt build or run what changed, and sqb the models around that."""
    started_at = time.monotonic()
    call = _parse_call(verb, **arguments)
    projects = _open_projects(call)
    progress = Progress()
    for phase in projects.phases:
        if progress.stopped:
            break
        if phase.side == "dbt":
            _run_dbt_phase(call, projects, phase, progress)
        else:
            _run_sqb_phase(call, projects, phase, progress)
    if call.as_json:
        print(json.dumps(_encode_document(call, projects, progress, started_at), indent=2, ensure_ascii=False))
    return progress.code


# --- what was asked for ----------------------------------------------------------------------------------------------


def _parse_call(
    verb: str,
    project_dir: Path,
    target: str | None,
    profile: str | None,
    variables: str | None,
    sqb_target: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
    full_refresh: bool = False,
    empty: bool = False,
    defer: bool = False,
    favor_state: bool = False,
    defer_state: str | None = None,
    threads: int | None = None,
    fail_fast: bool = False,
    more: tuple[str, ...] = (),
    **selection: Any,
) -> DbtCall:
    root = find_root(project_dir)
    errors = Errors()
    config = load_config(root, errors)
    errors.raise_any()
    if config is None or config.dbt is None:
        raise NoDbt(
            "this project has no [dbt] settings",
            hint='write [dbt] and project_dir = "../dbt_project" into sqlbuild_project.toml',
        )
    settings = config.dbt
    _check_options(more)
    defer_options = DeferOptions(defer, favor_state, resolve_folder(defer_state))
    flags = [*(("--threads", str(threads)) if threads else ()), *(("--fail-fast",) if fail_fast else ())]
    flags += [*(("--empty",) if empty else ()), *defer_options.flags, *more]
    # One name for both is what people mean by it.
    sqb_target = sqb_target or (target if target in config.targets else None)
    built_to = config.targets.get(sqb_target or config.default_target)
    catalog = config.get_connection(built_to).catalog.name if built_to is not None else ""
    dbt = build_dbt(root, settings, DbtArguments(target, profile, variables), catalog)
    selected = DbtSelection(**{**selection, "state": resolve_folder(selection.get("state"))})
    values = (full_refresh, empty, defer_options, tuple(flags), sqb_target, as_json, verbose, debug)
    return DbtCall(dbt, settings, selected, verb, *values)


def _check_options(more: tuple[str, ...]) -> None:
    if more and not more[0].startswith("-"):
        raise CallError(f'"{more[0]}" is not an option', hint="--select names what to run; options of dbt go after --")
    for word in more:
        name = word.partition("=")[0]
        if name in _SQB_OPTIONS:
            raise NotWithDbt(f"{name} is set by sqb", hint="it is said under [dbt] in sqlbuild_project.toml")
        if name in _PARTIAL_OPTIONS:
            raise NotWithDbt(
                f"with {name} dbt builds tables that are not what their models say, and they would pass for current",
                hint="run dbt itself for that",
            )
        if name in _PARSED_OPTIONS:
            raise NotWithDbt(f"{name} belongs before the --", hint=f"sqb dbt takes {name} itself")


# --- both projects ---------------------------------------------------------------------------------------------------


def _open_projects(call: DbtCall) -> DbtProjects:
    project, selected = read_project(call.dbt, call.selection, call.report)
    workspace = open_workspace(call.dbt.root, call.sqb_target)
    border = find_border(workspace.project, project, workspace.connection.catalog.name)
    phases = plan_phases(workspace.project, project, border, selected)
    if call.verb not in _WITH_SQB or call.empty:
        phases = [Phase("dbt", frozenset(name for phase in phases if phase.side == "dbt" for name in phase.names))]
    # With nothing to select from, dbt still has a plan to show.
    if not any(phase.side == "dbt" for phase in phases):
        phases = [*phases, Phase("dbt", frozenset())]
    run = {n for n in selected if n in project.nodes and project.nodes[n].resource_type in RUN_BY[call.verb]}
    # dbt takes the path of a state from its project on.
    place = DbtContext(project_dir=call.dbt.project_dir, catalog=call.dbt.catalog)
    deferred = read_deferred(call.defer_options, call.selection.state, place.project_dir, run, place.strip_catalog)
    return DbtProjects(project, selected, workspace, open_lake(workspace), border, tuple(phases), deferred)


def _observe(projects: DbtProjects) -> DbtObserved:
    spark = create_spark(projects.workspace)
    try:
        return observe_dbt(projects.project, projects.lake, spark.session, projects.deferred)
    finally:
        spark.stop()


def _plan_nodes(
    call: DbtCall, projects: DbtProjects, names: Iterable[str], observed: DbtObserved
) -> tuple[DbtPlan, DbtObserved]:
    """The plan for these nodes; where only the compiled SQL tells whether they changed, dbt compiles it."""
    options = replace(call.options, selected=tuple(names))
    plan = plan_dbt(projects.project, observed, options)
    compiled: set[str] = set()
    while unknown := [name for name in plan.uncertain if name not in compiled]:
        compiled.update(unknown)
        call.report("Asking dbt for compiled SQL")
        same = observed.same_compiled | _find_same_compiled(call, projects, observed, unknown)
        observed = replace(observed, same_compiled=same)
        plan = plan_dbt(projects.project, observed, options)
    return plan, observed


def _find_same_compiled(call: DbtCall, projects: DbtProjects, observed: DbtObserved, names: Iterable[str]) -> set[str]:
    """Those of the nodes that compile to what they were built from."""
    from sqb.dbt.run import is_same_sql, read_compiled  # only for what was edited

    try:
        now = read_compiled(call.dbt, projects.project, names)
    except DbtRefused:
        # A model that asks the warehouse while it is compiled, or one that is wrong: dbt will tell when it runs.
        return set()
    stored = {name: observed.stored[name].compiled for name in now}
    return {name for name, text in now.items() if (then := stored[name]) is not None and is_same_sql(then, text)}


# --- dbt's turns -----------------------------------------------------------------------------------------------------


def _run_dbt_phase(call: DbtCall, projects: DbtProjects, phase: Phase, progress: Progress) -> None:
    project, border = projects.project, projects.border
    blocking = {s: progress.sqb_failed[n] for s, n in border.from_sqb.items() if n in progress.sqb_failed}
    names = [name for name in project.nodes if name in phase.names]
    plan, before = _plan_nodes(call, projects, names, replace(_observe(projects), blocked=blocking))
    whole = sum(1 for phase in projects.phases if phase.side == "dbt") == 1
    if not call.as_json:
        diffs = _read_diffs(call, projects, plan, before) if call.verbose else {}
        _print_plan(call, len(projects.selected) if whole else len(names), plan, diffs)
        if plan.runs:
            print()
    run_id, started_at = generate_run_id(), time.monotonic()
    state = ("--state", call.selection.state) if call.selection.state is not None and call.defer_options.defer else ()
    pass_through = PassThrough(call.verb, call.selection.arguments if whole else None, call.flags, state)
    if plan.runs:
        # Whoever writes to an embedded lake first makes its folder; dbt's Spark would not.
        database = projects.workspace.lake_location.database
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
        if call.empty:
            # Before dbt starts: whatever becomes of it, these tables do not pass for what their models say.
            record_partial(projects.lake, project, plan.runs, "--empty", run_id)
    with _attach_spark(call, projects, plan) as dbt:
        run = run_dbt_plan(dbt, project, plan, pass_through, sys.stderr if call.as_json else None)
    record_same(projects.lake, project, plan, before, run_id)
    if run.results and not call.empty:
        after = observe_dbt(project, projects.lake, deferred=projects.deferred)
        record_run(projects.lake, project, run, before, after, run_id)
    progress.runs.append((plan, run))
    progress.dbt_failed |= _find_not_built(plan, run)
    progress.stopped = run.interrupted
    if run.failed or plan.filter_nodes("blocked") or run.code or run.interrupted:
        progress.code = 1
    if not call.as_json and run.commands:
        print(f"\n{format_summary(plan, run, time.monotonic() - started_at)}")
    if run.interrupted:
        print("Interrupted: what had succeeded is recorded, the rest is left for the next time.", file=sys.stderr)
    elif run.lost:
        raise DbtFailed(
            f"dbt {call.verb} ended with exit code {run.code} and left no results",
            hint=f"its output is above; its log is {format_path(call.dbt.log_path / 'dbt.log', Path.cwd())}",
        )


def _attach_spark(call: DbtCall, projects: DbtProjects, plan: DbtPlan) -> AbstractContextManager[Dbt]:
    """dbt with the Spark that it is to work on."""
    if not plan.runs or not call.settings.share_spark:
        return nullcontext(call.dbt)
    from sqb.dbt.sharing import share_spark  # only for those who want it

    return share_spark(call.dbt, projects.workspace, lambda text: print(text, file=sys.stderr))


def _find_not_built(plan: DbtPlan, run: DbtRun) -> dict[str, str]:
    """The nodes that are not what they should be, with why; failed tests included."""
    not_built = {n.unique_id: "is blocked" for n in plan.filter_nodes("blocked")}
    for name in plan.runs:
        result = run.results.get(name)
        if result is None or not result.ok:
            not_built[name] = "failed" if result is not None and result.failed else "did not run"
    return not_built


# --- sqb's turns -----------------------------------------------------------------------------------------------------


def _run_sqb_phase(call: DbtCall, projects: DbtProjects, phase: Phase, progress: Progress) -> None:
    options = CommandOptions(None, False, False, call.as_json, call.verbose, call.debug)
    blocked = find_failed_upstreams(projects, progress.dbt_failed)
    # Unchanged nodes are printed once, at the end.
    quiet = phase is not projects.phases[-1] and not call.verbose
    if progress.runs and not call.as_json:
        print()
    result = build_phase(
        projects.workspace, projects.lake, projects.project, projects.border, phase, blocked, options, quiet
    )
    progress.nodes += result.nodes
    progress.sqb_failed |= result.failed
    progress.code = progress.code or result.code
    progress.stopped = result.interrupted


def find_failed_upstreams(projects: DbtProjects, failed: Mapping[str, str]) -> dict[str, str]:
    """dbt nodes that sqb models must not be built on, with why: those that failed, and those whose tests did."""
    nodes = projects.project.nodes
    upstreams = {name: why for name, why in failed.items() if not nodes[name].is_test}
    for name, why in failed.items():
        if nodes[name].is_test and why == "failed":
            upstreams |= {parent: "has a test that failed" for parent in nodes[name].depends_on if parent in nodes}
    return upstreams


def _encode_document(call: DbtCall, projects: DbtProjects, progress: Progress, started_at: float) -> dict[str, Any]:
    """A build as `--json` prints it."""
    project = projects.project
    nodes = [encode_done(project, n, run.results) for plan, run in progress.runs for n in plan.nodes]
    counts: dict[str, Any] = {"ran": 0, "skipped": 0, "failed": 0, "blocked": 0}
    for node in (*nodes, *progress.nodes):
        counts["ran" if node["status"] == "ok" else node["status"]] += 1
    counts["seconds"] = round(time.monotonic() - started_at, 3)
    plan, run = progress.runs[-1] if progress.runs else (DbtPlan(()), DbtRun())
    run = replace(run, commands=sum(r.commands for _, r in progress.runs))
    dbt = encode_dbt(project, plan, call.verb, len(projects.selected), run)
    return {"dbt": dbt, "nodes": [*nodes, *progress.nodes], "summary": counts}
