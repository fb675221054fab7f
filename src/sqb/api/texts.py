"""Plans, results, events and errors as the command line prints them, for those who want to show them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.console.errors import error_lines
from sqb.console.lines import columns_of_text, done_line, end_lines, plan_lines, skipped_lines
from sqb.console.paint import Paint
from sqb.errors import NoProject, SqbError
from sqb.errors_api import BuildFailed
from sqb.plan.values import Plan
from sqb.project.files import find_root

if TYPE_CHECKING:
    from sqb.events import Event
    from sqb.operations.building import Built

_PLAIN = Paint.plain()


def plan_text(plan: Plan) -> str:
    """A plan as `sqb plan` prints it."""
    return "\n".join(plan_lines(plan, False, _PLAIN, {}))


def result_text(built: Built, notes: Sequence[str]) -> str:
    """A result as `sqb build` prints it, less the errors and what Python nodes said."""
    return "\n".join(_result_lines(built, notes))


def _result_lines(built: Built, notes: Sequence[str]) -> Iterator[str]:
    result = built.result
    yield from (done_line(n, _PLAIN) for n in result.nodes if n.planned.action != "skip")
    yield from skipped_lines([n for n in result.nodes if n.planned.action == "skip"], False, _PLAIN)
    yield from end_lines(result, notes, built.tested, result.seconds, built.settled, _PLAIN)


def rows_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as `sqb query` prints them."""
    return "\n".join(columns_of_text(columns, rows))


def error_text(error: SqbError, folder: str | Path = ".") -> str:
    """An error, or each of several, as the command line explains it: code, place, the line underlined, hint.

    `folder` is the project's, to show lines of its files.
    """
    try:
        root: Path | None = find_root(Path(folder))
    except NoProject:
        root = None
    every = (error, *error.errors) if isinstance(error, BuildFailed) else (error,)
    return "\n\n".join("\n".join(error_lines(one, root, _PLAIN)) for one in every)


def show(event: Event) -> None:
    """A listener that prints what happens, as `sqb build` does: `project.build(listen=sqb.show)`."""
    from sqb.console.live import Listener  # only who shows something needs it

    with Listener(sys.stdout, 0) as listener:
        listener(event)
