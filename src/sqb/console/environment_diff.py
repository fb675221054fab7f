"""How two environments differ, as lines of text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqb.console.lines import colour_diff, diff_definitions
from sqb.console.style import Paint

if TYPE_CHECKING:
    from sqb.environments.diff import Comparison, Difference
    from sqb.environments.model import Binding
    from sqb.inspect.diff import ColumnChange, DiffResult

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
        yield from (_INDENT + line for line in colour_diff(_diff_queries(difference, comparison), paint))


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


def _diff_queries(difference: Difference, comparison: Comparison) -> str:
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


def encode_environment_diff(comparison: Comparison) -> dict[str, Any]:
    """The differences as one JSON document."""
    counts = {what: sum(d.change == what for d in comparison.differences) for what in _SIGNS}
    return {
        "from": comparison.source,
        "to": comparison.target,
        "same": not comparison.differences,
        "nodes": [encode_difference(d, comparison) for d in comparison.differences],
        "summary": {**counts, "same": comparison.unchanged},
    }


def encode_difference(difference: Difference, comparison: Comparison) -> dict[str, Any]:
    """One node that differs, as data; `before` is what the target shows, `after` what it would show."""
    return {
        "name": difference.name,
        "type": difference.shown.type,
        "kind": difference.shown.kind,
        "change": difference.change,
        "reason": str(difference.reason) if difference.reason is not None else None,
        "through": list(difference.through),
        "before": _encode_binding(difference.before, comparison),
        "after": _encode_binding(difference.now, comparison),
        "columns": _encode_columns(difference),
    }


def _encode_binding(binding: Binding | None, comparison: Comparison) -> dict[str, Any] | None:
    if binding is None:
        return None
    return {
        "version": binding.version_hash,
        "relation": str(binding.relation) if binding.relation is not None else None,
        "snapshot_id": binding.snapshot_id,
        "rows": comparison.get_rows(binding),
    }


def _encode_columns(difference: Difference) -> dict[str, Any]:
    both = [c for c in difference.columns if c.before is not None and c.now is not None]
    return {
        "added": [{"name": c.name, "type": c.now} for c in difference.columns if c.before is None],
        "removed": [{"name": c.name, "type": c.before} for c in difference.columns if c.now is None],
        "retyped": [{"name": c.name, "before": c.before, "after": c.now} for c in both],
    }


def encode_model_diff(
    comparison: Comparison, difference: Difference | None, answer: DiffResult | None
) -> dict[str, Any]:
    """One node compared down to its rows, as one JSON document; without an answer nothing had to be asked."""
    data: dict[str, Any] = {"from": comparison.source, "to": comparison.target, "same": difference is None}
    if difference is None:
        return data
    data |= encode_difference(difference, comparison)
    if answer is None:
        return data
    document = answer.to_data()
    data["before"]["rows"], data["after"]["rows"] = answer.before.rows, answer.now.rows
    samples = document["samples"]
    if samples is not None:
        for row in samples["changed"]:
            row["changes"] = {c: {"before": v["from"], "after": v["to"]} for c, v in row["changes"].items()}
    return data | {key: document[key] for key in ("same", "compared", "key", "rows", "samples", "notes")}
