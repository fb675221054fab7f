"""How two environments differ, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqb.console.lines import colour_diff
from sqb.console.style import Paint
from sqb.inspect.definitions import diff_definitions

if TYPE_CHECKING:
    from sqb.environments.diff import Comparison, Difference
    from sqb.inspect.diff import ColumnChange

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "cyan"), "data": ("~", "cyan")}
_INDENT = " " * 4


def format_environment_diff(comparison: Comparison, verbose: bool, paint: Paint) -> Iterator[str]:
    """The nodes that differ: the reason, versions, rows and columns; with `verbose` what changed in queries."""
    yield f"{paint(comparison.source, 'bold')} compared with {paint(comparison.target, 'bold')}"
    width = max((len(d.name) for d in comparison.differences), default=0)
    for difference in comparison.differences:
        yield from format_difference(difference, comparison, verbose, paint, width)
        yield from (paint(f"{_INDENT}{_format_column(c)}", "dim") for c in difference.columns)
    yield _format_summary(comparison)


def format_difference(
    difference: Difference, comparison: Comparison, verbose: bool, paint: Paint, width: int = 0
) -> Iterator[str]:
    """One node that differs, and why."""
    sign, colour = _SIGNS[difference.change]
    details = "; ".join(
        part
        for part in (
            _format_reason(difference, comparison),
            _format_versions(difference),
            _format_rows(difference, comparison),
        )
        if part
    )
    yield f"{paint(f'{sign} {difference.name.ljust(width)}', colour)}  {details}"
    if verbose:
        yield from (_INDENT + line for line in colour_diff(diff_queries(difference, comparison), paint))


def _format_reason(difference: Difference, comparison: Comparison) -> str:
    match difference.change:
        case "added":
            return f"only in {comparison.source}"
        case "removed":
            return f"only in {comparison.target}"
        case "data":
            return "other rows of the same version"
        case _:
            through = (
                f": {', '.join(difference.through)}"
                if difference.reason == "Upstream changed" and difference.through
                else ""
            )
            return f"{difference.reason}{through}"


def _format_versions(difference: Difference) -> str:
    if difference.change == "data":
        return difference.shown.version_hash[:8]
    return " → ".join(b.version_hash[:8] for b in (difference.before, difference.now) if b is not None)


def _format_rows(difference: Difference, comparison: Comparison) -> str:
    counts = [
        c for b in (difference.before, difference.now) if b is not None and (c := comparison.get_rows(b)) is not None
    ]
    if not counts:
        return ""
    last = "row" if counts[-1] == 1 else "rows"
    return f"{' → '.join(f'{c:,}' for c in dict.fromkeys(counts))} {last}"


def _format_column(change: ColumnChange) -> str:
    if change.before is None:
        return f"+ {change.name} {change.now}"
    if change.now is None:
        return f"- {change.name} {change.before}"
    return f"~ {change.name} {change.before} → {change.now}"


def diff_queries(difference: Difference, comparison: Comparison) -> str:
    """How the definitions of a node's two versions differ; "" where there are not two."""
    if difference.before is None or difference.now is None or difference.change == "data":
        return ""
    versions = [comparison.versions.get((b.name, b.version_hash)) for b in (difference.before, difference.now)]
    then, now = versions
    return diff_definitions(then.definition, now.definition) if then is not None and now is not None else ""


def _format_summary(comparison: Comparison) -> str:
    if not comparison.differences:
        return f"No differences: {comparison.unchanged} {_pluralize_nodes(comparison.unchanged)} the same in both."
    count = len(comparison.differences)
    return (
        f"{count} {_pluralize_nodes(count)} {'differs' if count == 1 else 'differ'}, {comparison.unchanged} the same."
    )


def _pluralize_nodes(count: int) -> str:
    return "node" if count == 1 else "nodes"
