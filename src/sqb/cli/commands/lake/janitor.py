"""`sqb janitor`: its output and exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_lines
from sqb.console.janitor import format_entry, format_summary
from sqb.console.style import Paint
from sqb.operations.janitor import JanitorOptions, clean_lake

if TYPE_CHECKING:
    from sqb.lake.janitor.report import JanitorAction


def run_janitor(**values: Any) -> int:
    """Remove what is not needed any more from the lake of a target, and print what and how much."""
    common, options = parse_call(JanitorOptions, values)
    paint = Paint(sys.stdout)

    def print_action(action: JanitorAction) -> None:
        if not common.as_json:
            print_lines([format_entry(action, options.dry_run, paint)])

    result = clean_lake(common.open_workspace(), options, print_action)
    if common.as_json:
        print_document(result.to_data())
    else:
        print_lines([format_summary(result.actions, options.dry_run)])
    if result.interrupted:
        print("Interrupted: only unneeded files were removed, and the next round does the rest.", file=sys.stderr)
    return 1 if result.interrupted else 0
