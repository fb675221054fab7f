"""`sqb dbt`: the output of its commands, while they run and after, and their exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqb.cli.commands.build.build import listen_to, print_build
from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import print_document, print_lines, print_progress
from sqb.console.dbt import format_plan, format_summary
from sqb.console.lines import format_plan as format_sqb_plan
from sqb.console.style import Paint, get_terminal_width
from sqb.operations.build import BuildOutcome
from sqb.operations.dbt.call import DbtCommandOptions
from sqb.operations.dbt.commands import compile_dbt_project, plan_dbt_project, run_dbt_project
from sqb.operations.dbt.listener import DbtListener
from sqb.operations.dbt.projects import PlannedPhase
from sqb.operations.dbt.results import DbtPhaseResult

if TYPE_CHECKING:
    from sqb.operations.build import ListenTo


class _Printer(DbtListener):
    """Prints what both sides do, as they do it; with --json only what people wait for, on standard error."""

    def __init__(self, common: CommonOptions) -> None:
        self._common = common
        self._has_run_dbt = False
        self.out = sys.stderr if common.as_json else None
        self.wants_diffs = common.verbose

    def report_progress(self, text: str) -> None:
        if sys.stderr.isatty() or self._common.verbose:
            print(text, file=sys.stderr)

    def report_wait(self, text: str) -> None:
        print_progress(text)

    def report_plan(self, planned: PlannedPhase) -> None:
        if not self._common.as_json:
            print_lines(format_plan(planned, self._common.verbose, Paint(sys.stdout)))
            if planned.plan.runs:
                print()

    def report_run(self, result: DbtPhaseResult) -> None:
        self._has_run_dbt = True
        if not self._common.as_json and result.run.commands:
            print(f"\n{format_summary(result)}")
        if result.run.interrupted:
            print("Interrupted: what had succeeded is recorded, the rest is left for the next time.", file=sys.stderr)

    def report_blocked(self, blocked: Mapping[str, str]) -> None:
        if self._common.as_json:
            return
        if self._has_run_dbt:
            print()
        paint = Paint(sys.stdout)
        for name, why in blocked.items():
            print_lines([f"{paint('[SKIP]', 'yellow')} {name} ({why})"])

    def report_build(self, outcome: BuildOutcome, is_last: bool, seconds: float) -> None:
        # Unchanged nodes are printed once, at the end.
        is_quiet = not is_last and not self._common.verbose
        nothing_done = outcome.planned.plan.nothing_to_do and outcome.result.ok
        if not self._common.as_json and not (is_quiet and nothing_done):
            print_build(outcome, self._common, seconds)

    @property
    def listen_to(self) -> ListenTo:
        return listen_to(self._common.as_json)


def run_plan(**values: Any) -> int:
    """Show what dbt would run, and what sqb around it."""
    common, options = parse_call(DbtCommandOptions, values)
    result = plan_dbt_project(common.project_dir, options, _Printer(common))
    paint = Paint(sys.stdout)
    if common.as_json:
        print_document(result.to_data())
    else:
        print_lines(format_plan(result.planned, common.verbose, paint))
        if result.sqb.nodes:
            print()
            print_lines(format_sqb_plan(result.sqb, common.verbose, paint, {}, get_terminal_width(sys.stdout)))
    return 1 if result.is_blocked else 0


def run_compile(**values: Any) -> int:
    """Let dbt compile what is selected, and say where that went."""
    common, options = parse_call(DbtCommandOptions, values)
    result = compile_dbt_project(common.project_dir, options, _Printer(common))
    if common.as_json:
        print_document(result.to_data(), ensure_ascii=True)
    elif not result.exit_code:
        print(f"\ncompiled SQL: {os.path.relpath(result.folder)}")
    return 0 if result.ok else 1


def run_verb(verb: str, **values: Any) -> int:
    """Let dbt build or run what changed, and sqb the models around that."""
    common, options = parse_call(DbtCommandOptions, values)
    result = run_dbt_project(common.project_dir, verb, options, _Printer(common))
    if common.as_json:
        print_document(result.to_data())
    return 0 if result.ok else 1
