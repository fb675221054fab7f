"""`sqb init`: its output."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from sqb.cli.output import print_document
from sqb.operations.init import create_project


def run_init(folder: Path, empty: bool, as_json: bool, debug: bool) -> int:
    """Make a project in an empty or new folder, and print what to do next."""
    created = create_project(folder, empty)
    if as_json:
        print_document(created.to_data(), ensure_ascii=True)
        return 0
    here = min(str(folder), os.path.relpath(folder), key=len)
    print(f"Made a project of {len(created.files)} files in {here}")
    print("Next:")
    if here != ".":
        print(f"  cd {shlex.quote(here)}")
    if empty:
        print("  write a SELECT into models/…/NAME.sql, or put a CSV file into seeds/")
    print("  sqb plan     # what a build would do, and why")
    print("  sqb build    # do it")
    return 0
