"""How two environments differ, as lines of text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqb.console.lines import coloured_diff, query_diff
from sqb.console.paint import Paint

if TYPE_CHECKING:
    from sqb.build.column_changes import ColumnChange
    from sqb.build.diff import Answer
    from sqb.environments.differences import Difference
    from sqb.environments.diffing import Compared
    from sqb.environments.values import Binding

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "cyan"), "data": ("~", "cyan")}
_INDENT = " " * 4


def environment_diff_lines(compared: Compared, verbose: bool, paint: Paint) -> Iterator[str]:
    """The nodes that differ: the reason, versions, rows and columns; with `verbose` what changed in queries."""
    yield f"{paint(compared.source, 'bold')} compared with {paint(compared.target, 'bold')}"
    width = max((len(d.name) for d in compared.differences), default=0)
    for one in compared.differences:
        yield from difference_lines(one, compared, verbose, paint, width)
        yield from (paint(f"{_INDENT}{_column(c)}", "dim") for c in one.columns)
    yield _summary_line(compared)


def difference_lines(one: Difference, compared: Compared, verbose: bool, paint: Paint, width: int = 0) -> Iterator[str]:
    """One node that differs, and why."""
    sign, colour = _SIGNS[one.change]
    told = "; ".join(part for part in (_why(one, compared), _versions(one), _rows(one, compared)) if part)
    yield f"{paint(f'{sign} {one.name.ljust(width)}', colour)}  {told}"
    if verbose:
        yield from (_INDENT + line for line in coloured_diff(_query_diff(one, compared), paint))


def _why(one: Difference, compared: Compared) -> str:
    match one.change:
        case "added":
            return f"only in {compared.source}"
        case "removed":
            return f"only in {compared.target}"
        case "data":
            return "other rows of the same version"
        case _:
            through = f": {', '.join(one.through)}" if one.reason == "Upstream changed" and one.through else ""
            return f"{one.reason}{through}"


def _versions(one: Difference) -> str:
    if one.change == "data":
        return one.shown.version_hash[:8]
    return " → ".join(b.version_hash[:8] for b in (one.before, one.now) if b is not None)


def _rows(one: Difference, compared: Compared) -> str:
    counts = [c for b in (one.before, one.now) if b is not None and (c := compared.rows_of(b)) is not None]
    if not counts:
        return ""
    last = "row" if counts[-1] == 1 else "rows"
    return f"{' → '.join(f'{c:,}' for c in dict.fromkeys(counts))} {last}"


def _column(change: ColumnChange) -> str:
    if change.before is None:
        return f"+ {change.name} {change.now}"
    if change.now is None:
        return f"- {change.name} {change.before}"
    return f"~ {change.name} {change.before} → {change.now}"


def _query_diff(one: Difference, compared: Compared) -> str:
    if one.before is None or one.now is None or one.change == "data":
        return ""
    found = [compared.versions.get((b.name, b.version_hash)) for b in (one.before, one.now)]
    then, now = found
    return query_diff(then.definition, now.definition) if then is not None and now is not None else ""


def _summary_line(compared: Compared) -> str:
    if not compared.differences:
        return f"No differences: {compared.same} {_nodes(compared.same)} the same in both."
    count = len(compared.differences)
    return f"{count} {_nodes(count)} {'differs' if count == 1 else 'differ'}, {compared.same} the same."


def _nodes(count: int) -> str:
    return "node" if count == 1 else "nodes"


def environment_diff_data(compared: Compared) -> dict[str, Any]:
    """The differences as one JSON document."""
    counts = {what: sum(d.change == what for d in compared.differences) for what in _SIGNS}
    return {
        "from": compared.source,
        "to": compared.target,
        "same": not compared.differences,
        "nodes": [difference_data(d, compared) for d in compared.differences],
        "summary": {**counts, "same": compared.same},
    }


def difference_data(one: Difference, compared: Compared) -> dict[str, Any]:
    """One node that differs, as data; `before` is what the target shows, `after` what it would show."""
    return {
        "name": one.name,
        "type": one.shown.type,
        "kind": one.shown.kind,
        "change": one.change,
        "reason": str(one.reason) if one.reason is not None else None,
        "through": list(one.through),
        "before": _binding_data(one.before, compared),
        "after": _binding_data(one.now, compared),
        "columns": _columns_data(one),
    }


def _binding_data(binding: Binding | None, compared: Compared) -> dict[str, Any] | None:
    if binding is None:
        return None
    return {
        "version": binding.version_hash,
        "relation": str(binding.relation) if binding.relation is not None else None,
        "snapshot_id": binding.snapshot_id,
        "rows": compared.rows_of(binding),
    }


def _columns_data(one: Difference) -> dict[str, Any]:
    both = [c for c in one.columns if c.before is not None and c.now is not None]
    return {
        "added": [{"name": c.name, "type": c.now} for c in one.columns if c.before is None],
        "removed": [{"name": c.name, "type": c.before} for c in one.columns if c.now is None],
        "retyped": [{"name": c.name, "before": c.before, "after": c.now} for c in both],
    }


def model_diff_data(compared: Compared, one: Difference | None, answer: Answer | None) -> dict[str, Any]:
    """One node compared down to its rows, as one JSON document; without an answer nothing had to be asked."""
    data: dict[str, Any] = {"from": compared.source, "to": compared.target, "same": one is None}
    if one is None:
        return data
    data |= difference_data(one, compared)
    if answer is None:
        return data
    found = answer.to_data()
    data["before"]["rows"], data["after"]["rows"] = answer.before.rows, answer.now.rows
    samples = found["samples"]
    if samples is not None:
        for row in samples["changed"]:
            row["changes"] = {c: {"before": v["from"], "after": v["to"]} for c, v in row["changes"].items()}
    return data | {key: found[key] for key in ("same", "compared", "key", "rows", "samples", "notes")}
