"""Plans, results, rows and differences as HTML, for notebooks: what `_repr_html_` returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sqb.names import format_seconds

if TYPE_CHECKING:
    from sqb.api.values import Plan, Result

_MAX_ROWS = 500
_COLOURS = {"run": "#0b66c3", "ok": "#1a7f37", "failed": "#cf222e", "blocked": "#9a6700", "skipped": "#6e7781"}


def format_table_html(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Rows as a table; NULL is told from a text."""
    head = "".join(f"<th style='text-align:left'>{escape(str(column))}</th>" for column in columns)
    shown = list(rows)
    body = "".join(f"<tr>{''.join(map(_format_cell, row))}</tr>" for row in shown[:_MAX_ROWS])
    more = f"<p>… and {len(shown) - _MAX_ROWS:,} more rows</p>" if len(shown) > _MAX_ROWS else ""
    title = f"<caption style='text-align:left'>{escape(caption)}</caption>" if caption else ""
    return f"<table class='sqb'>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _format_cell(value: Any) -> str:
    if value is None:
        return "<td><i style='color:#6e7781'>NULL</i></td>"
    if isinstance(value, _Markup):
        return f"<td>{value.text}</td>"
    align = "right" if isinstance(value, int | float) and not isinstance(value, bool) else "left"
    return f"<td style='text-align:{align}'>{escape(str(value))}</td>"


class _Markup:
    """A cell that is HTML already."""

    def __init__(self, text: str) -> None:
        self.text = text


def _mark(word: str) -> _Markup:
    return _Markup(f"<b style='color:{_COLOURS.get(word, 'inherit')}'>{escape(word)}</b>")


def format_plan_html(plan: Plan) -> str:
    """What a build would do, and why; what is up to date is counted."""
    counts = ", ".join(f"{count} {action}" for action, count in plan.summary.items())
    parts = [f"<p><b>Plan of {escape(plan.target)}</b>: {counts}</p>"]
    nodes = [n for n in plan.nodes if n.action != "skip"]
    if nodes:
        rows = [(_mark(n.action), n.name, n.kind, n.run_type, str(n.reason), n.detail) for n in nodes]
        parts.append(format_table_html(("", "node", "kind", "run", "reason", "detail"), rows))
    else:
        parts.append("<p>Nothing to do: everything is up to date.</p>")
    return "".join([*parts, *_format_notes(plan.warnings)])


def format_result_html(result: Result) -> str:
    """What a build did, with its errors."""
    from sqb.api.texts import error_text

    counts = ", ".join(f"{result.summary[word]} {word}" for word in ("ran", "skipped", "failed", "blocked"))
    parts = [f"<p><b>Build of {escape(result.target)}</b> ({escape(result.run_id)}): {counts}</p>"]
    nodes = [n for n in result.nodes if n.status != "skipped"]
    if nodes:
        rows = [
            (_mark(n.status), n.name, n.kind, n.run_type, str(n.reason), n.rows, format_seconds(n.seconds))
            for n in nodes
        ]
        parts.append(format_table_html(("", "node", "kind", "run", "reason", "rows", "time"), rows))
    parts += [f"<pre style='color:#cf222e'>{escape(error_text(e, result.root))}</pre>" for e in result.errors]
    return "".join([*parts, *_format_notes((*result.warnings, *result.notes))])


def _format_notes(notes: Iterable[str]) -> list[str]:
    return [f"<p style='color:#9a6700'>{escape(note)}</p>" for note in notes]


def format_difference_html(document: Mapping[str, Any]) -> str:
    """How two sides differ: counts, and rows that were added, removed and changed."""
    title = " ".join(str(document[key]) for key in ("node", "name") if document.get(key)) or "Difference"
    same = "the same" if document.get("same") else "different"
    parts = [f"<p><b>{escape(title)}</b>: {same}</p>"]
    for key in ("rows", "summary"):
        if isinstance(counts := document.get(key), Mapping):
            parts.append(format_table_html(list(counts), [list(counts.values())]))
    if isinstance(nodes := document.get("nodes"), list):
        parts.append(_format_records(nodes))
    samples = document.get("samples") or {}
    parts += [_format_records(rows, what) for what, rows in samples.items() if isinstance(rows, list) and rows]
    return "".join([*parts, *_format_notes(document.get("notes") or ())])


def _format_records(records: Sequence[Any], caption: str = "") -> str:
    """Records of differing shapes as one table."""
    rows = [record if isinstance(record, Mapping) else {"value": record} for record in records]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return format_table_html(columns, [[_flatten(row.get(c)) for c in columns] for row in rows], caption)


def _flatten(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return ", ".join(f"{name}: {_format_part(part)}" for name, part in value.items())


def _format_part(part: Any) -> str:
    for before, after in (("from", "to"), ("before", "after")):
        if isinstance(part, Mapping) and before in part and after in part:
            return f"{part[before]} → {part[after]}"
    return str(part)
