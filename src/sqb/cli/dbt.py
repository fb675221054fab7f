"""`sqb dbt`: plan what dbt has to run, let it run that, and build the sqb models around it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqb.build.observe import open_lake
from sqb.build.run_id import new_run_id
from sqb.cli.build import HowToRun, new_asker
from sqb.cli.dbt_beside import build_beside, plan_beside
from sqb.console.dbt import dbt_data, done_data, node_data, plan_lines, summary_line, text_diff
from sqb.console.errors import shown_path
from sqb.console.lines import plan_lines as sqb_plan_lines
from sqb.console.paint import Paint, terminal_width
from sqb.dbt.border import Border, Turn, find_border, turns
from sqb.dbt.command import Dbt, Given, dbt_of, streamed
from sqb.dbt.context import DbtContext
from sqb.dbt.defer import Deferred, Deferring, absolute_folder, read_deferred
from sqb.dbt.observe import look_at_dbt
from sqb.dbt.plan import plan_dbt
from sqb.dbt.record import record_partial, record_run, record_same
from sqb.dbt.running import DbtRun, Passing
from sqb.dbt.running import run_plan as run_dbt_plan
from sqb.dbt.selection import Chosen, read_project
from sqb.dbt.values import RUN_BY, DbtObserved, DbtOptions, DbtPlan, DbtProject
from sqb.errors import CallError, Errors
from sqb.errors_dbt import DbtFailed, DbtRefused, NoDbt, NotWithDbt
from sqb.lake.iceberg import IcebergLake
from sqb.operations.documents import plan_document
from sqb.project.config import load_config
from sqb.project.dbt import DbtSettings
from sqb.project.files import find_root
from sqb.workspace import Workspace, open_workspace

# Options that sqb sets itself.
_OURS = ("--project-dir", "--profiles-dir", "--target-path", "--log-path", "--write-json", "--no-write-json")
# With these, dbt makes tables that are not what their models say, and sqb would take them for current.
_UNTRUE = ("--sample", "--event-time-start", "--event-time-end")
_SELECTING = ("--select", "-s", "--models", "-m", "--exclude", "--selector", "--vars", "--target", "-t", "--profile")
_TAKEN = (*_SELECTING, "--empty", "--defer", "--favor-state", "--defer-state", "--state")
# With these the sqb models around dbt are built too; the others are about dbt alone.
_WITH_SQB = ("build", "run")


@dataclass(frozen=True, slots=True)
class Call:
    """What a command of `sqb dbt` was asked for."""

    dbt: Dbt
    settings: DbtSettings
    chosen: Chosen
    verb: str
    full_refresh: bool
    empty: bool
    deferring: Deferring
    flags: tuple[str, ...]
    sqb_target: str | None
    as_json: bool
    verbose: bool
    debug: bool

    def tell(self, text: str) -> None:
        """Say what takes a while, where it is in nobody's way."""
        if sys.stderr.isatty() or self.verbose:
            print(text, file=sys.stderr)

    @property
    def options(self) -> DbtOptions:
        # Who types `test` wants to know what tests say now. And with --favor-state dbt reads elsewhere what it is not
        # told to run, so that nothing of what the user selected may be left out.
        everything = self.verb == "test" or self.deferring.favor_state
        return DbtOptions(None, self.full_refresh, self.settings.replay_on_change, self.verb, everything)


@dataclass(frozen=True, slots=True)
class Opened:
    """Both projects, and how they stand to each other."""

    project: DbtProject
    selected: tuple[str, ...]
    workspace: Workspace
    lake: IcebergLake
    border: Border
    turns: tuple[Turn, ...]
    deferred: Deferred | None = None


@dataclass(slots=True)
class Progress:
    """What has become of both sides so far."""

    # Of dbt, by turns.
    ended: list[tuple[DbtPlan, DbtRun]] = field(default_factory=list)
    # Nodes of sqb as `--json` prints them.
    nodes: list[dict[str, Any]] = field(default_factory=list)
    # dbt nodes that are not what they should be, and sqb nodes that are not, with why.
    dbt_failed: dict[str, str] = field(default_factory=dict)
    sqb_failed: dict[str, str] = field(default_factory=dict)
    code: int = 0
    stopped: bool = False


def run_plan(**given: Any) -> int:
    """Show what dbt would run, and what sqb around it."""
    call = _called("build", **given)
    opened = _opened(call)
    beside = plan_beside(opened.workspace, opened.border, opened.turns)
    observed = replace(_look(opened), pending=beside.pending, blocked=beside.blocking)
    plan, _ = _planned(call, opened, opened.selected, observed)
    sqb = beside.below(plan)
    diffs = _diffs(call, opened, plan, observed) if call.verbose else {}
    if call.as_json:
        nodes = [node_data(opened.project, n, diffs.get(n.unique_id)) for n in plan.nodes]
        nodes += plan_document(sqb)["nodes"]
        counts = {a: sum(n["action"] == a for n in nodes) for a in ("run", "skip", "blocked")}
        dbt = dbt_data(opened.project, plan, call.verb, len(opened.selected), None)
        print(json.dumps({"dbt": dbt, "nodes": nodes, "summary": counts}, indent=2, ensure_ascii=False))
    else:
        _print_plan(call, len(opened.selected), plan, diffs)
        if sqb.nodes:
            print()
            for line in sqb_plan_lines(sqb, call.verbose, Paint(sys.stdout), {}, terminal_width(sys.stdout)):
                print(line)
    return 1 if plan.of("blocked") or sqb.summary["blocked"] else 0


def _print_plan(call: Call, selected: int, plan: DbtPlan, diffs: Mapping[str, str]) -> None:
    for line in plan_lines(plan, selected, call.verbose, Paint(sys.stdout), diffs, call.verb):
        print(line)


def _diffs(call: Call, opened: Opened, plan: DbtPlan, observed: DbtObserved) -> dict[str, str]:
    """What changed in the nodes that run because they are others: in their files, or else in their compiled SQL."""
    from sqb.dbt.compiled import known_compiled  # only -v shows differences

    now = known_compiled(call.dbt, opened.project)
    found = {}
    for name in (n.unique_id for n in plan.of("run") if n.reason == "checksum changed"):
        stored, node = observed.stored[name], opened.project.nodes[name]
        found[name] = text_diff(stored.code, node.code) or text_diff(stored.compiled, now.get(name))
    return {name: diff for name, diff in found.items() if diff}


def run_compile(**given: Any) -> int:
    """Let dbt compile what is selected, and say where that went."""
    call = _called("compile", **given)
    refresh = ("--full-refresh",) if call.full_refresh else ()
    flags = (*call.chosen.arguments, *call.flags, *refresh)
    ended = streamed(call.dbt, "compile", *flags, out=sys.stderr if call.as_json else None)
    folder = shown_path(call.dbt.target_path / "compiled", Path.cwd())
    if call.as_json:
        print(json.dumps({"dbt": {"command": "compile", "exit_code": ended.code, "folder": folder}}, indent=2))
    elif not ended.code:
        print(f"\ncompiled SQL: {folder}")
    return 1 if ended.code or ended.interrupted else 0


def run_verb(verb: str, **given: Any) -> int:
    """Let dbt build or run what changed, and sqb what stands around that."""
    began = time.monotonic()
    call = _called(verb, **given)
    opened = _opened(call)
    progress = Progress()
    for turn in opened.turns:
        if progress.stopped:
            break
        if turn.side == "dbt":
            _dbt_turn(call, opened, turn, progress)
        else:
            _sqb_turn(call, opened, turn, progress)
    if call.as_json:
        print(json.dumps(_document(call, opened, progress, began), indent=2, ensure_ascii=False))
    return progress.code


# --- what was asked for ----------------------------------------------------------------------------------------------


def _called(
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
) -> Call:
    root = find_root(project_dir)
    errors = Errors()
    config = load_config(root, errors)
    errors.raise_any()
    if config is None or config.dbt is None:
        raise NoDbt(
            "this project says nothing of a dbt project",
            hint='write [dbt] and project_dir = "../dbt_project" into sqlbuild_project.toml',
        )
    settings = config.dbt
    _refuse_options(more)
    deferring = Deferring(defer, favor_state, absolute_folder(defer_state))
    flags = [*(("--threads", str(threads)) if threads else ()), *(("--fail-fast",) if fail_fast else ())]
    flags += [*(("--empty",) if empty else ()), *deferring.flags, *more]
    # One name for both is what people mean by it.
    sqb_target = sqb_target or (target if target in config.targets else None)
    built_to = config.targets.get(sqb_target or config.default_target)
    catalog = config.connection_of(built_to).catalog.name if built_to is not None else ""
    dbt = dbt_of(root, settings, Given(target, profile, variables), catalog)
    chosen = Chosen(**{**selection, "state": absolute_folder(selection.get("state"))})
    told = (full_refresh, empty, deferring, tuple(flags), sqb_target, as_json, verbose, debug)
    return Call(dbt, settings, chosen, verb, *told)


def _refuse_options(more: tuple[str, ...]) -> None:
    if more and not more[0].startswith("-"):
        raise CallError(
            f'"{more[0]}" is no option', hint="what to run is said with --select; options of dbt go after --"
        )
    for word in more:
        name = word.partition("=")[0]
        if name in _OURS:
            raise NotWithDbt(f"{name} is set by sqb", hint="it is said under [dbt] in sqlbuild_project.toml")
        if name in _UNTRUE:
            raise NotWithDbt(
                f"with {name} dbt builds tables that are not what their models say, and they would pass for current",
                hint="run dbt itself for that",
            )
        if name in _TAKEN:
            raise NotWithDbt(f"{name} belongs before the --", hint=f"sqb dbt takes {name} itself")


# --- both projects ---------------------------------------------------------------------------------------------------


def _opened(call: Call) -> Opened:
    project, selected = read_project(call.dbt, call.chosen, call.tell)
    workspace = open_workspace(call.dbt.root, call.sqb_target)
    border = find_border(workspace.project, project, workspace.connection.catalog.name)
    found = turns(workspace.project, project, border, selected)
    if call.verb not in _WITH_SQB or call.empty:
        found = [Turn("dbt", frozenset(name for turn in found if turn.side == "dbt" for name in turn.names))]
    # With nothing to select from, dbt still has a plan to show.
    if not any(turn.side == "dbt" for turn in found):
        found = [*found, Turn("dbt", frozenset())]
    run = {n for n in selected if n in project.nodes and project.nodes[n].resource_type in RUN_BY[call.verb]}
    # dbt takes the path of a state from its project on.
    place = DbtContext(project_dir=call.dbt.project_dir, catalog=call.dbt.catalog)
    deferred = read_deferred(call.deferring, call.chosen.state, place.project_dir, run, place.schema)
    return Opened(project, selected, workspace, open_lake(workspace), border, tuple(found), deferred)


def _look(opened: Opened) -> DbtObserved:
    asker = new_asker(opened.workspace)
    try:
        return look_at_dbt(opened.project, opened.lake, asker.session, opened.deferred)
    finally:
        asker.stop()


def _planned(call: Call, opened: Opened, names: Iterable[str], observed: DbtObserved) -> tuple[DbtPlan, DbtObserved]:
    """The plan for these nodes; where only the compiled SQL tells whether they changed, dbt compiles it."""
    options = replace(call.options, selected=tuple(names))
    plan = plan_dbt(opened.project, observed, options)
    asked: set[str] = set()
    while unknown := [name for name in plan.doubtful if name not in asked]:
        asked.update(unknown)
        call.tell("Asking dbt for compiled SQL")
        same = observed.same_compiled | _same(call, opened, observed, unknown)
        observed = replace(observed, same_compiled=same)
        plan = plan_dbt(opened.project, observed, options)
    return plan, observed


def _same(call: Call, opened: Opened, observed: DbtObserved, names: Iterable[str]) -> set[str]:
    """Those of the nodes that compile to what they were built from."""
    from sqb.dbt.compiled import compiled_now, same_sql  # only for what was edited

    try:
        now = compiled_now(call.dbt, opened.project, names)
    except DbtRefused:
        # A model that asks the warehouse while it is compiled, or one that is wrong: dbt will tell when it runs.
        return set()
    stored = {name: observed.stored[name].compiled for name in now}
    return {name for name, text in now.items() if (then := stored[name]) is not None and same_sql(then, text)}


# --- dbt's turns -----------------------------------------------------------------------------------------------------


def _dbt_turn(call: Call, opened: Opened, turn: Turn, progress: Progress) -> None:
    project, border = opened.project, opened.border
    blocking = {s: progress.sqb_failed[n] for s, n in border.from_sqb.items() if n in progress.sqb_failed}
    names = [name for name in project.nodes if name in turn.names]
    plan, before = _planned(call, opened, names, replace(_look(opened), blocked=blocking))
    whole = sum(1 for turn in opened.turns if turn.side == "dbt") == 1
    if not call.as_json:
        diffs = _diffs(call, opened, plan, before) if call.verbose else {}
        _print_plan(call, len(opened.selected) if whole else len(names), plan, diffs)
        if plan.runs:
            print()
    run_id, began = new_run_id(), time.monotonic()
    state = ("--state", call.chosen.state) if call.chosen.state is not None and call.deferring.defer else ()
    passing = Passing(call.verb, call.chosen.arguments if whole else None, call.flags, state)
    if plan.runs:
        # Whoever writes to an embedded lake first makes its folder; dbt's Spark would not.
        database = opened.workspace.place.database
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
        if call.empty:
            # Before dbt starts: whatever becomes of it, these tables do not pass for what their models say.
            record_partial(opened.lake, project, plan.runs, "--empty", run_id)
    run = run_dbt_plan(call.dbt, project, plan, passing, sys.stderr if call.as_json else None)
    record_same(opened.lake, project, plan, before, run_id)
    if run.results and not call.empty:
        after = look_at_dbt(project, opened.lake, deferred=opened.deferred)
        record_run(opened.lake, project, run, before, after, run_id)
    progress.ended.append((plan, run))
    progress.dbt_failed |= _not_built(plan, run)
    progress.stopped = run.interrupted
    if run.failed or plan.of("blocked") or run.code or run.interrupted:
        progress.code = 1
    if not call.as_json and run.commands:
        print(f"\n{summary_line(plan, run, time.monotonic() - began)}")
    if run.interrupted:
        print("Interrupted: what had succeeded is recorded, the rest is left for the next time.", file=sys.stderr)
    elif run.lost:
        raise DbtFailed(
            f"dbt {call.verb} ended with exit code {run.code} and left no results",
            hint=f"what it said stands above; its log is {shown_path(call.dbt.log_path / 'dbt.log', Path.cwd())}",
        )


def _not_built(plan: DbtPlan, run: DbtRun) -> dict[str, str]:
    """The nodes that are not what they should be, with why; those that a failed test stands behind too."""
    found = {n.unique_id: "is blocked" for n in plan.of("blocked")}
    for name in plan.runs:
        result = run.results.get(name)
        if result is None or not result.ok:
            found[name] = "failed" if result is not None and result.failed else "did not run"
    return found


# --- sqb's turns -----------------------------------------------------------------------------------------------------


def _sqb_turn(call: Call, opened: Opened, turn: Turn, progress: Progress) -> None:
    how = HowToRun(None, False, False, call.as_json, call.verbose, call.debug)
    held = failed_above(opened, progress.dbt_failed)
    # What nothing is to do for is told once, at the end.
    quiet = turn is not opened.turns[-1] and not call.verbose
    if progress.ended and not call.as_json:
        print()
    ended = build_beside(opened.workspace, opened.lake, opened.project, opened.border, turn, held, how, quiet)
    progress.nodes += ended.nodes
    progress.sqb_failed |= ended.failed
    progress.code = progress.code or ended.code
    progress.stopped = ended.interrupted


def failed_above(opened: Opened, failed: Mapping[str, str]) -> dict[str, str]:
    """dbt nodes that sqb models must not be built on, with why: those that failed, and those whose tests did."""
    nodes = opened.project.nodes
    found = {name: why for name, why in failed.items() if not nodes[name].is_test}
    for name, why in failed.items():
        if nodes[name].is_test and why == "failed":
            found |= {parent: "has a test that failed" for parent in nodes[name].depends_on if parent in nodes}
    return found


def _document(call: Call, opened: Opened, progress: Progress, began: float) -> dict[str, Any]:
    """A build as `--json` prints it."""
    project = opened.project
    nodes = [done_data(project, n, run.results) for plan, run in progress.ended for n in plan.nodes]
    counts: dict[str, Any] = {"ran": 0, "skipped": 0, "failed": 0, "blocked": 0}
    for node in (*nodes, *progress.nodes):
        counts["ran" if node["status"] == "ok" else node["status"]] += 1
    counts["seconds"] = round(time.monotonic() - began, 3)
    plan, run = progress.ended[-1] if progress.ended else (DbtPlan(()), DbtRun())
    run = replace(run, commands=sum(r.commands for _, r in progress.ended))
    dbt = dbt_data(project, plan, call.verb, len(opened.selected), run)
    return {"dbt": dbt, "nodes": [*nodes, *progress.nodes], "summary": counts}
