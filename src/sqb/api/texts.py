"""Plans, results, events and errors as the command line prints them, for those who want to show them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.console.errors import format_error
from sqb.console.lines import format_done, format_end, format_plan, format_skipped, format_table
from sqb.console.style import Paint
from sqb.errors.base import SqbError
from sqb.errors.build import BuildFailed
from sqb.errors.call import NoProject
from sqb.plan.model import Plan
from sqb.project.files import find_root

if TYPE_CHECKING:
    from sqb.events import Event
    from sqb.operations.build import BuildOutcome

_PLAIN = Paint.plain()


def format_plan_text(plan: Plan) -> str:
    """A plan as `sqb plan` prints it."""
    return "\n".join(format_plan(plan, False, _PLAIN, {}))


def format_result_text(outcome: BuildOutcome, notes: Sequence[str]) -> str:
    """A result as `sqb build` prints it, less the errors and the output of Python nodes."""
    return "\n".join(_format_result_lines(outcome, notes))


def _format_result_lines(outcome: BuildOutcome, notes: Sequence[str]) -> Iterator[str]:
    result = outcome.result
    yield from (format_done(n, _PLAIN) for n in result.nodes if n.planned.action != "skip")
    yield from format_skipped([n for n in result.nodes if n.planned.action == "skip"], False, _PLAIN)
    yield from format_end(result, notes, outcome.tested, result.seconds, outcome.environment, _PLAIN)


def format_rows_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as `sqb query` prints them."""
    return "\n".join(format_table(columns, rows))


def error_text(error: SqbError, folder: str | Path = ".") -> str:
    """An error, or each of several, as the command line explains it: code, place, the line underlined, hint.

    `folder` is the project's, to show lines of its files.
    """
    try:
        root: Path | None = find_root(Path(folder))
    except NoProject:
        root = None
    failures = (error, *error.errors) if isinstance(error, BuildFailed) else (error,)
    return "\n\n".join("\n".join(format_error(failure, root, _PLAIN)) for failure in failures)


def show(event: Event) -> None:
    """A listener that prints what happens, as `sqb build` does: `project.build(listen=sqb.show)`."""
    from sqb.console.live import Listener  # only who shows something needs it

    with Listener(sys.stdout, 0) as listener:
        listener(event)
