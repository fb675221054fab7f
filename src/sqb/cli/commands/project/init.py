"""`sqb init`: its output."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from sqb.cli.output import print_document, print_lines
from sqb.console.init import format_conversion
from sqb.errors.call import CallError
from sqb.operations.init import DEFAULT_EXAMPLE, convert_dbt_project, create_project


def run_init(folder: Path, example: str | None, empty: bool, from_dbt: Path | None, as_json: bool, debug: bool) -> int:
    """Make a project in an empty or new folder, and print what to do next."""
    given = {"--example": example is not None, "--empty": empty, "--from-dbt": from_dbt is not None}
    match [option for option, is_given in given.items() if is_given]:
        case [first, second, *_]:
            raise CallError(f"{first} and {second} contradict each other", hint="give one of the two")
    converted = convert_dbt_project(folder, from_dbt) if from_dbt is not None else None
    created = converted or create_project(folder, empty, example or DEFAULT_EXAMPLE)
    if as_json:
        print_document(created.to_data(), ensure_ascii=True)
        return 0
    here = min(str(folder), os.path.relpath(folder), key=len)
    if converted is not None:
        print_lines(format_conversion(converted, here))
    else:
        print_lines([f"Made a project of {len(created.files)} files in {here}"])
    print("Next:")
    if here != ".":
        print(f"  cd {shlex.quote(here)}")
    if empty:
        print("  write a SELECT into models/…/NAME.sql, or put a CSV file into seeds/")
    print("  sqb plan     # what a build would do, and why")
    print("  sqb build    # do it")
    return 0
