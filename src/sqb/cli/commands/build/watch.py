"""`sqb watch`: a build, or a plan, whenever files were saved; Ctrl-C ends it.

Each round is a command of its own, so that it begins as any command does, on the warm engine, and no mistake of one
reaches the next.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqb.cli.options import CommonOptions, parse_call
from sqb.console.style import get_terminal_width
from sqb.console.watch import format_difference, format_new_table, format_save, format_unknown
from sqb.engine.hand_over import VARIABLE
from sqb.operations.watch import ChangedTable, iter_saves, list_changed_tables, read_versions

# Of more tables than these only the numbers of rows are printed.
_MOST_COMPARED = 5


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What is built at each save; with `plan_only` it is only planned."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: str | None = None
    virtual_env: str | None = None
    plan_only: bool = False
    once: bool = False


def run_watch(names: tuple[str, ...], **values: Any) -> int:
    """Build or plan at every save, until Ctrl-C; with `once` a single time."""
    common, options = parse_call(WatchOptions, {**values, "select": (*values["select"], *names)})
    code = 0
    try:
        for files in iter_saves(common.project_dir):
            print(format_save(files, datetime.now()), flush=True)
            code = _run_round(common, options)
            if options.once:
                return code
            print("Waiting for the next save (Ctrl-C ends)", flush=True)
    except KeyboardInterrupt:
        print("\nStopped watching.", flush=True)
        return 0
    return code


def _run_round(common: CommonOptions, options: WatchOptions) -> int:
    selection = [
        *(word for selector in options.select for word in ("--select", selector)),
        *(word for selector in options.exclude for word in ("--exclude", selector)),
        *(("--selector", options.selector) if options.selector else ()),
        *(("--virtual-env", options.virtual_env) if options.virtual_env else ()),
    ]
    if options.plan_only:
        return _run("plan", [*selection, *_list_common(common, with_verbose=True)])
    before = read_versions(common.open_workspace, options.virtual_env)
    code = _run("build", [*selection, *_list_common(common, with_verbose=True)])
    changed = list_changed_tables(before, read_versions(common.open_workspace, options.virtual_env))
    for index, table in enumerate(changed):
        _print_difference(table, common, options.virtual_env, is_compared=index < _MOST_COMPARED)
    return code


def _print_difference(table: ChangedTable, common: CommonOptions, virtual_env: str | None, is_compared: bool) -> None:
    if table.before is None:
        print(format_new_table(table), flush=True)
        return
    if virtual_env is not None or table.before.relation != table.now.relation:
        # A snapshot is of one table, and a changed model of an environment has another.
        compares = f"`sqb diff {table.name} --from {virtual_env}`" if virtual_env else "a new version of the model"
        print(format_unknown(table, compares), flush=True)
        return
    if not is_compared:
        print(format_unknown(table, f"`sqb diff {table.name} --snapshot {table.before.snapshot_id}`"), flush=True)
        return
    call = ["diff", table.name, "--snapshot", str(table.before.snapshot_id), "--limit", "3", "--json"]
    done = subprocess.run(
        [*_list_program(), *call, *_list_common(common)], env=_build_environment(), stdout=subprocess.PIPE, check=False
    )
    try:
        document = json.loads(done.stdout)
        lines = list(format_difference(document, get_terminal_width(sys.stdout)))
    except (ValueError, KeyError, TypeError):
        lines = [format_unknown(table, "the rows could not be compared")]
    print("\n".join(lines), flush=True)


def _run(command: str, arguments: Sequence[str]) -> int:
    """Run a command as a process of its own, with this one's streams; Ctrl-C is for it first."""
    process = subprocess.Popen([*_list_program(), command, *arguments], env=_build_environment())
    try:
        return process.wait()
    except KeyboardInterrupt:
        # It has heard of it too, and ends by itself; who cannot wait says so once more.
        try:
            process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM)
            process.wait()
        raise


def _list_program() -> list[str]:
    """The command that this process was called as."""
    script = sys.argv[0]
    if os.path.isfile(script) and not script.endswith(".py"):
        return [sys.executable, script]
    return [sys.executable, "-c", "from sqb.cli.entry import main; main()"]


def _build_environment() -> dict[str, str]:
    """The environment of a round: what it starts stays for the next one, unless the user wants it otherwise."""
    return {VARIABLE: "on", **os.environ}


def _list_common(common: CommonOptions, with_verbose: bool = False) -> list[str]:
    arguments = ["--project-dir", str(common.project_dir)]
    if common.target is not None:
        arguments += ["--target", common.target]
    if common.variables is not None:
        arguments += ["--vars", common.variables]
    if common.verbose and with_verbose:
        arguments.append("--verbose")
    if common.debug:
        arguments.append("--debug")
    return arguments
