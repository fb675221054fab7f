"""The failures of a build: each with its place and the way out, and of very many as much as fits on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sqb.build.events import NodeDone
from sqb.console.errors import format_error
from sqb.console.style import Paint
from sqb.errors.base import SqbError, flatten

# Up to so many different errors are explained in full.
_MOST_IN_FULL = 6
# Of more than these: so many in full, each with so many lines, and a line for each of so many others.
_FIRST, _FIRST_LINES, _OTHERS = 3, 8, 20
_NAMES = 3
_WIDTH = 120


def format_failures(failed: Sequence[NodeDone], root: Path, verbose: bool, paint: Paint) -> Iterator[str]:
    """What failed and why; what keeps Spark from starting, or a full disk, fails many nodes and is printed once."""
    groups: dict[tuple[str, str | None], list[NodeDone]] = {}
    for node in failed:
        if node.error is not None:
            groups.setdefault((str(node.error), node.error.hint), []).append(node)
    whole = list(groups.values())
    if verbose or len(whole) <= _MOST_IN_FULL:
        for same in whole:
            yield from _format_group(same, root, paint)
        return
    for same in whole[:_FIRST]:
        lines = list(_format_group(same, root, paint))
        yield from lines[:_FIRST_LINES]
        if len(lines) > _FIRST_LINES:
            yield f"  … {len(lines) - _FIRST_LINES} more lines"
    yield from _format_others(whole[_FIRST:], paint)


def _format_group(same: Sequence[NodeDone], root: Path, paint: Paint) -> Iterator[str]:
    error = same[0].error
    assert error is not None
    yield ""
    yield f"{_list_names(same)}:"
    yield from format_error(error, root, paint)


def _format_others(groups: Sequence[Sequence[NodeDone]], paint: Paint) -> Iterator[str]:
    """A line for each of the others; errors that say the same of different places share one."""
    alike: dict[tuple[str, str], list[NodeDone]] = {}
    for same in groups:
        alike.setdefault(_describe(same[0].error), []).extend(same)
    shown = list(alike.items())[:_OTHERS]
    count = sum(map(len, alike.values()))
    yield ""
    yield f"{count} more nodes failed, for {len(alike)} {'reason' if len(alike) == 1 else 'reasons'}:"
    for (code, message), nodes in shown:
        line = f"{_list_names(nodes)}: {message}"
        yield f"  {paint(code, 'red')} {line if len(line) <= _WIDTH else line[: _WIDTH - 1] + '…'}"
    left = sum(len(nodes) for _, nodes in list(alike.items())[_OTHERS:])
    yield f"  … and {left} more; -v explains each of them" if left else "  -v explains each of them"


def _describe(error: SqbError | None) -> tuple[str, str]:
    """The code and the first line of an error, whatever its place."""
    first = flatten(error)[0] if error is not None else None
    return (first.code, (first.message.splitlines() or [""])[0]) if first is not None else ("", "")


def _list_names(nodes: Sequence[NodeDone]) -> str:
    names = [node.planned.name for node in nodes]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{', '.join(names[:_NAMES])}{more}"
