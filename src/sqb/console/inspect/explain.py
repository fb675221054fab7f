"""One node of a plan in full, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqb.console.lines import colour_diff, format_change, format_roots, format_tables
from sqb.console.style import Paint, measure_text
from sqb.names import format_seconds
from sqb.plan.model import PlannedNode

if TYPE_CHECKING:
    from sqb.inspect.explain import Explanation, InputComparison, Neighbour, RefreshEstimate

_ACTIONS = {"run": "Runs", "skip": "Is skipped", "blocked": "Is blocked"}
_COLOURS = {"run": "green", "skip": "dim", "blocked": "yellow"}


def format_explanation(explanation: Explanation, paint: Paint) -> Iterator[str]:
    """Everything about one node, section by section; a section with nothing to say is left out."""
    planned = explanation.planned
    what = planned.kind if planned.type in ("model", "seed", planned.kind) else f"{planned.type}, {planned.kind}"
    where = f" → {planned.relation}" if planned.relation is not None else ""
    yield f"{paint(planned.name, 'bold')} ({what}){where}"
    yield paint(explanation.file, "dim")
    yield from _format_section("", _format_decision(planned, paint), paint)
    yield from _format_section("Compared", _format_comparison(explanation), paint)
    yield from _format_section("What changed in its definition", colour_diff(explanation.diff, paint), paint)
    if explanation.work is not None:
        yield from _format_section("Incremental work", _format_work(explanation.work), paint)
    yield from _format_section("Checks", _format_checks(explanation, paint), paint)
    yield from _format_section("Last run", _format_last_run(explanation.last_run), paint)
    yield from _format_section("Reads", _format_neighbours(explanation.upstream, paint), paint)
    yield from _format_section("Read by", _format_neighbours(explanation.downstream, paint), paint)


def _format_section(title: str, lines: Iterable[str], paint: Paint) -> Iterator[str]:
    body = list(lines)
    if not body:
        return
    yield ""
    if title:
        yield paint(title, "bold")
    yield from (f"  {line}" if title else line for line in body)


def _format_decision(planned: PlannedNode, paint: Paint) -> Iterator[str]:
    how = f" ({planned.run_type})" if planned.action == "run" else ""
    action = paint(_ACTIONS[planned.action] + how, _COLOURS[planned.action])
    if planned.action == "skip":
        yield f"{action}: nothing that it is made from has changed"
    else:
        yield f"{action}: {planned.reason}"
    if planned.detail:
        yield f"  {planned.detail}"
    if planned.lookups:
        yield f"  {format_tables(planned)}"
    if planned.root:
        yield f"  root: {format_roots(planned.root, most=20)}"
    yield from (f"  {paint('note: ' + notice, 'yellow')}" for notice in planned.notices)


def _format_comparison(explanation: Explanation) -> Iterator[str]:
    rows = [(h.what, h.stored or "nothing", h.now, "same" if h.same else "changed") for h in explanation.hashes]
    yield from _format_table(rows)
    for setting in explanation.settings:
        yield f"  {setting.what}: {setting.stored or 'not set'} → {setting.now or 'not set'}"
    yield from _format_table([_build_input_row(i) for i in explanation.inputs])
    for compared in explanation.inputs:
        yield from (f"  column of {compared.name}: {change}" for change in compared.columns)


def _build_input_row(compared: InputComparison) -> tuple[str, str, str, str]:
    why = (
        compared.why
        if compared.change is None
        else f"{compared.why}: {format_change(compared.change).removeprefix(compared.name + ' ')}"
    )
    return (f"{compared.type} {compared.name}", _format_version(compared.stored), _format_version(compared.now), why)


def _format_version(version: int | str | None) -> str:
    if version is None:
        return "nothing"
    if isinstance(version, int):
        return f"snapshot {version}"
    return version if version.startswith(("version ", "run ")) else f"definition {version[:12]}"


def _format_table(rows: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    """What it is, what it was, what it is now and how they compare; equal versions are shown once."""
    cells = [(what, then if then == now else _format_arrow(then, now), why) for what, then, now, why in rows]
    first = max((measure_text(row[0]) for row in cells), default=0)
    second = max((measure_text(row[1]) for row in cells), default=0)
    for what, versions, why in cells:
        yield f"{_pad(what, first)}  {_pad(versions, second)}  {why}".rstrip()


def _format_arrow(then: str, now: str) -> str:
    word = then.partition(" ")[0]
    return f"{then} → {now.removeprefix(word + ' ')}"


def _pad(text: str, width: int) -> str:
    return text + " " * (width - measure_text(text))


def _format_work(work: RefreshEstimate) -> Iterator[str]:
    key = f" by {', '.join(work.keys)}" if work.keys else ""
    place = f" (in the part at {work.at})" if work.at is not None else ""
    yield f"class {work.kind}{key}{': ' if work.why else ''}{work.why}{place}"
    if work.input_rows is not None and work.kind != "opaque":
        changed = f", {work.changed_rows:,} rewritten" if work.changed_rows is not None else ""
        gate = f"followed from {work.min_rows:,} rows on, up to {work.max_share:.0%} rewritten"
        yield f"{work.input_rows:,} input {'row' if work.input_rows == 1 else 'rows'}{changed} ({gate})"
    if work.costs:
        yield "estimated rows read: " + ", ".join(f"{rows:,} by a {way}" for way, rows in work.costs)
    if work.verdict:
        yield work.verdict
    if work.advice:
        yield f"instead: {work.advice}"
    yield from _format_operators(work)


def _format_operators(work: RefreshEstimate) -> Iterator[str]:
    """The operators of the query as a tree, each with its rule."""
    for line in work.operators:
        branch = "   " * line.depth + ("└─ " if line.depth else "")
        changed = f", for {', '.join(line.changed)}" if line.changed and line.rule != "changes" else ""
        rows = f" (reads about {line.rows_read:,} rows)" if line.rows_read else ""
        yield f"{branch}{line.what}: {line.says}{changed}{rows}"
        if line.why:
            yield f"{'   ' * (line.depth + 1)}{line.why}{': ' if line.advice else ''}{line.advice}"


def _format_checks(explanation: Explanation, paint: Paint) -> Iterator[str]:
    yield from explanation.checks
    if explanation.checks:
        passed = f"passed on the current rows ({explanation.checks_passed} UTC)" if explanation.checks_passed else ""
        yield passed or paint("have not passed on the current rows", "yellow")


def _format_last_run(run: Mapping[str, Any] | None) -> Iterator[str]:
    if run is None:
        yield "never"
        return
    rows = run.get("rows")
    parts = [
        run["status"],
        run.get("run_type"),
        f"{rows:,} {'row' if rows == 1 else 'rows'}" if rows is not None else None,
        format_seconds(run["seconds"]) if run.get("seconds") is not None else None,
    ]
    yield f"{run['run_id']} at {run['at']} UTC: {', '.join(p for p in parts if p)}"
    if run.get("snapshot_id") is not None:
        yield f"snapshot {run['snapshot_id']}"
    if run.get("error"):
        yield str(run["error"]).splitlines()[0]


def _format_neighbours(neighbours: Sequence[Neighbour], paint: Paint) -> Iterator[str]:
    width = max((measure_text(n.name) for n in neighbours), default=0)
    for neighbour in neighbours:
        what = f"{neighbour.action}: {neighbour.reason}" if neighbour.reason else neighbour.action
        yield f"{_pad(neighbour.name, width)}  {neighbour.type}, {paint(what, _COLOURS.get(neighbour.action, 'dim'))}"
