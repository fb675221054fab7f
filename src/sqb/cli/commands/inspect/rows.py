"""How `sqb query` and `sqb show` print rows: for people, page by page where there are many, or for programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqb.cli.options import CommonOptions
from sqb.cli.output import print_document, print_exact_lines, print_remark
from sqb.console.inspect.rows import format_count, format_rows
from sqb.console.style import Paint, get_terminal_width
from sqb.errors.call import CallError
from sqb.operations.inspect.query import QueryResult
from sqb.operations.inspect.write_rows import format_csv

# Quits where all fits on one screen, keeps colours, does not wrap, and leaves what it showed.
_LESS = "-FRSX"


@dataclass(frozen=True, slots=True)
class RowsForm:
    """How rows are printed."""

    as_csv: bool = False
    vertical: bool = False
    no_pager: bool = False


def split_form(values: Mapping[str, Any]) -> tuple[RowsForm, dict[str, Any]]:
    """The form of the rows that was asked for, and all other values of the call."""
    form = RowsForm(values["as_csv"], values["vertical"], values["no_pager"])
    asked = [f"--{name}" for name, given in (("csv", form.as_csv), ("json", values["as_json"])) if given]
    if len(asked) > 1:
        raise CallError(f"{asked[0]} and {asked[1]} are two forms of the rows", hint="give one of them")
    if form.as_csv and values["output"] is not None:
        raise CallError("--csv prints rows, and --output writes them to a file", hint="give one of them")
    if form.vertical and asked:
        raise CallError(f"--vertical is for people, and {asked[0]} for programs", hint="give one of them")
    return form, {name: value for name, value in values.items() if name not in ("as_csv", "vertical", "no_pager")}


def print_rows(result: QueryResult, form: RowsForm, common: CommonOptions) -> None:
    """Print the rows of a query, and what is to be known of them."""
    if common.as_json:
        print_document(result.to_data())
        _print_notes(result)
    elif form.as_csv:
        print_exact_lines(format_csv(result.columns, result.rows))
        _print_notes(result)
    else:
        paint = Paint(sys.stdout)
        width = get_terminal_width(sys.stdout)
        rows = [] if result.output else list(format_rows(result.columns, result.rows, width, form.vertical))
        _page([*rows, *format_count(result, paint)], form)


def _print_notes(result: QueryResult) -> None:
    for note in result.notes:
        print_remark(f"note: {note}")
    if result.is_cut:
        # Programs take what is printed for all that there is.
        print_remark(f"note: the first {len(result.rows):,} rows of more: --limit N gives more")


def _page(lines: list[str], form: RowsForm) -> None:
    """Print lines; at a terminal that has fewer, by the user's pager."""
    is_terminal = sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    pager = os.environ.get("PAGER", "less")
    fits = is_terminal and len(lines) < shutil.get_terminal_size().lines
    if form.no_pager or not is_terminal or fits or not pager or shutil.which(pager.split()[0]) is None:
        print_exact_lines(lines)
        return
    import subprocess  # few commands start one

    sys.stdout.flush()
    environment = {**os.environ, "LESS": os.environ.get("LESS", _LESS)}
    text = "\n".join(lines) + "\n"
    try:
        subprocess.run(pager, shell=True, input=text, encoding="utf-8", env=environment, check=False)
    except (OSError, KeyboardInterrupt):
        return
