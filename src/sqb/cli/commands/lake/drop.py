"""`sqb drop`: what it asks, and its output."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.confirm import build_confirm
from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_lines
from sqb.console.style import Paint
from sqb.names import format_bytes
from sqb.operations.drop import DropOptions, DroppedTable, drop_orphans


def run_drop(yes: bool, **values: Any) -> int:
    """Drop tables of models that are gone, and print which."""
    common, options = parse_call(DropOptions, values)
    result = drop_orphans(common.open_workspace(), options, build_confirm(yes))
    if common.as_json:
        print_document(result.to_data())
    elif not result.tables:
        print("Nothing to drop: every table of this target has its model.")
    else:
        paint = Paint(sys.stdout)
        for table in result.tables:
            print_lines([_format_table(table, options.dry_run, paint)])
    return 1 if any(table.kept for table in result.tables) else 0


def _format_table(table: DroppedTable, dry_run: bool, paint: Paint) -> str:
    orphan = table.orphan
    if table.kept:
        return f"{paint('kept    ', 'yellow')}  {orphan.relation}: {table.kept}"
    verb = paint("would go" if dry_run else "dropped ", "dim" if dry_run else "green")
    count = f"{orphan.rows or 0:,} {'row' if orphan.rows == 1 else 'rows'}"
    rows = "a view" if orphan.is_view else f"{count}, {format_bytes(table.bytes)}"
    return f"{verb}  {orphan.relation} (of {orphan.model}: {rows})"
