"""`sqb test`: its output and exit code."""

from __future__ import annotations

import sys
import time
from typing import Any

from sqb.cli.commands.build.build import listen_to, print_causes, print_test_failures
from sqb.cli.options import parse_call
from sqb.cli.output import create_spark, print_document, print_lines
from sqb.console.lines import format_test_summary, format_unchanged_tests
from sqb.console.style import Paint
from sqb.operations.unit_tests import UnitTestOptions, run_unit_tests


def run_test(**values: Any) -> int:
    """Run the tests that have changed, or whose models have, and print what became of them."""
    started_at = time.monotonic()
    common, options = parse_call(UnitTestOptions, values)
    workspace = common.open_workspace()
    listen = listen_to(common.as_json, every_test=True)
    run = run_unit_tests(workspace, options, create_spark(workspace, "test_"), listen)
    failed, code = run.failed, 0 if run.ok else 1
    if common.debug:
        print_causes(failed)
    if common.as_json:
        print_document(run.to_data())
        return code
    print_lines(format_unchanged_tests(run.unchanged, common.verbose, Paint(sys.stdout)))
    print_test_failures(failed, workspace, run.log)
    if not run.selected:
        print("No unit tests of the models selected." if run.has_tests else "No unit tests.")
    if run.interrupted:
        print("Interrupted.")
    seconds = time.monotonic() - started_at
    print(format_test_summary(len(run.done) - len(failed), len(failed), len(run.unchanged), seconds))
    return code
