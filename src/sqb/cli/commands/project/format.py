"""The output of `sqb format`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sqb.cli.output import print_document, print_lines
from sqb.console.style import Paint


def run_format(project_dir: Path, names: tuple[str, ...], check: bool, diff: bool, as_json: bool, **_: Any) -> int:
    """Format files, or say which are not in their usual form."""
    from sqb.operations.format import FormatOptions, format_project

    result = format_project(project_dir, FormatOptions(names, check or diff))
    paint = Paint(sys.stdout)
    if as_json:
        print_document(result.to_data())
    elif diff:
        colours = {"+": "green", "-": "red"}
        for line in (line for one in result.changed for line in one.list_difference()):
            print(paint(line, colours[line[0]]) if line[:1] in colours else line)
    else:
        verb = "formatted" if result.is_written else "would be formatted"
        print_lines(f"{verb} {one.file}" if result.is_written else f"{one.file} {verb}" for one in result.changed)
    if not as_json:
        same = result.looked_at - len(result.changed)
        print(f"{len(result.changed)} {'formatted' if result.is_written else 'to format'}, {same} as they are.")
    return 1 if result.changed and not result.is_written else 0
