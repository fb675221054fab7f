"""The runs of a target as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqb.console.lines import format_table
from sqb.console.style import cut_text, measure_text
from sqb.names import format_seconds
from sqb.operations.inspect.history import History, HistoryOptions, encode_result, format_run_time, read_environment

# How much of a result is shown; --json has all of it.
_MAX_PAYLOAD = 60
# Columns that a narrow terminal does without, the first of them first, and the room that this makes for what happened.
# The id of a run begins with its time.
_SPARE_OF_RUNS = ("node time", "at (UTC)", "rows")
_SPARE_OF_NODES = ("run type", "rows", "time")
_WANTED_ROOM = 22


def format_history(history: History, options: HistoryOptions, width: int | None = None) -> Iterator[str]:
    """The runs one line each, or the nodes of the runs that were asked for; lines of a terminal are not broken."""
    if not history.runs:
        yield "No runs yet." if options.node is None else f"No runs of {options.node} yet."
    elif options.run_id is not None or options.node is not None:
        lines = _format_nodes([node for rows in history.runs.values() for node in rows], width)
        yield from (cut_text(line, width) for line in lines)
    else:
        yield from (cut_text(line, width) for line in _format_runs(history.runs, width))


def _make_room(
    header: Sequence[str], table: Sequence[Sequence[Any]], spare: Sequence[str], wanted: str, width: int | None
) -> tuple[list[str], list[list[Any]]]:
    """The columns of a table without those that would leave no room for the `wanted` one in a terminal."""
    names, rows = list(header), [list(row) for row in table]
    for name in spare:
        widths = [max(measure_text(str(cell)) for cell in column) for column in zip(names, *rows, strict=True)]
        at = names.index(wanted)
        if width is None or sum(widths[:at]) + 2 * at + min(widths[at], _WANTED_ROOM) <= width:
            break
        left_out = names.index(name)
        for line in (names, *rows):
            del line[left_out]
    return names, rows


def _format_runs(runs: Mapping[str, Sequence[Any]], width: int | None) -> Iterator[str]:
    table: list[tuple[Any, ...]] = []
    environments = {read_environment(row) for rows in runs.values() for row in rows}
    for name, rows in runs.items():
        data = [encode_result(r) for r in rows]
        seconds = sum(d["seconds"] for d in data)
        failed = [d["name"] for d in data if d["status"] == "failed"]
        names = [d["name"] for d in data if d["status"] == "ok"]
        what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        if failed:
            what += f"{'; ' if what else ''}failed: {', '.join(failed[:3])}"
        table.append(
            (
                name,
                *((read_environment(rows[0]) or "",) if environments != {None} else ()),
                format_run_time(rows),
                len(names),
                len(failed),
                sum(d["rows"] for d in data),
                format_seconds(seconds),
                what,
            )
        )
    where = ("environment",) if environments != {None} else ()
    header = ("run", *where, "at (UTC)", "ran", "failed", "rows", "node time", "what")
    yield from format_table(*_make_room(header, table, _SPARE_OF_RUNS, "what", width))


def _format_nodes(rows: Sequence[Any], width: int | None) -> Iterator[str]:
    table: list[tuple[Any, ...]] = []
    for row in rows:
        d = encode_result(row)
        error = (d["error"] or "").splitlines()
        why = d["reason"] if row.status == "ok" else error[0] if error else d["detail"]
        result = row.payload if len(row.payload) <= _MAX_PAYLOAD else f"{row.payload[:_MAX_PAYLOAD]}…"
        taken = format_seconds(d["seconds"])
        if d.get("expected_seconds") is not None:
            taken += f" (expected {format_seconds(d['expected_seconds'])})"
        cells = (row.run_id, d["name"], row.status, d["run_type"], d["rows"], taken, why)
        table.append((*cells, result))
    header: tuple[str, ...] = ("run", "node", "status", "run type", "rows", "time", "why", "result")
    if not any(row.payload for row in rows):
        # Only Python nodes return something.
        header, table = header[:-1], [cells[:-1] for cells in table]
    # What is the same on every line is what was asked for.
    same = tuple(name for name, column in (("run", 0), ("node", 1)) if len({cells[column] for cells in table}) == 1)
    yield from format_table(*_make_room(header, table, (*same[:1], *_SPARE_OF_NODES), "why", width))
