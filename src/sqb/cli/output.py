"""How commands print: documents and lines on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sqb.cli.at_end import do_at_end
from sqb.console.style import Paint, get_terminal_width, wrap_line

if TYPE_CHECKING:
    from sqb.build.spark_engine import OnDemandSpark
    from sqb.plan.model import Plan
    from sqb.workspace import Workspace

# Where there is no terminal, most rows have room.
DEFAULT_WIDTH = 160


def print_document(document: Any, ensure_ascii: bool = False) -> None:
    """Print one JSON document; values that JSON does not have are printed as text."""
    print(json.dumps(document, indent=2, ensure_ascii=ensure_ascii, default=str))


def print_warnings(plan: Plan) -> None:
    """Print the warnings of a plan beside its document, which has no room for them."""
    for warning in plan.warnings:
        print_remark(f"warning: {warning}", "yellow")


def print_remark(text: str, *styles: str) -> None:
    """Print a remark beside what was asked for, on standard error."""
    for line in wrap_line(text, get_terminal_width(sys.stderr)):
        print(Paint(sys.stderr)(line, *styles) if styles else line, file=sys.stderr)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for people; at a terminal those that are wider are broken between words."""
    width = get_terminal_width(sys.stdout)
    for line in lines:
        for part in wrap_line(line, width):
            print(part)
    sys.stdout.flush()


def print_exact_lines(lines: Iterable[str]) -> None:
    """Print lines as they are, such as SQL and values, which people copy."""
    for line in lines:
        print(line)


def print_progress(text: str) -> None:
    """Print what a command waits for."""
    print(text, file=sys.stderr, flush=True)


def create_spark(workspace: Workspace, kind: str = "") -> OnDemandSpark:
    """Spark for one command, which prints what it waits for; its log begins with `kind`.

    Where the command has to start one, an engine is left for the next command, as the project's settings have it.
    """
    from sqb.build.spark_engine import OnDemandSpark  # loads what runs Spark

    spark = OnDemandSpark(workspace, print_progress, kind)
    do_at_end(lambda: _leave_engine(workspace, spark))
    return spark


def _leave_engine(workspace: Workspace, spark: OnDemandSpark) -> None:
    if not spark.started_own or spark.stop_requested.is_set():
        return
    from sqb.engine.automatic import leave_engine  # few commands start a Spark

    text = leave_engine(workspace, sys.stdout.isatty() and sys.stdin.isatty())
    if text:
        print_progress(text)
