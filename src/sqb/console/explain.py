"""One node of a plan in full, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqb.console.lines import change_text, coloured_diff, roots_text, tables_text
from sqb.console.paint import Paint, text_width
from sqb.names import human_seconds
from sqb.plan.values import PlannedNode

if TYPE_CHECKING:
    from sqb.build.explain import ComparedInput, Explanation, Neighbour, Work

_ACTIONS = {"run": "Runs", "skip": "Is skipped", "blocked": "Is blocked"}
_COLOURS = {"run": "green", "skip": "dim", "blocked": "yellow"}


def explain_lines(found: Explanation, paint: Paint) -> Iterator[str]:
    """Everything about one node, section by section; a section with nothing to say is left out."""
    planned = found.planned
    what = planned.kind if planned.type in ("model", "seed", planned.kind) else f"{planned.type}, {planned.kind}"
    where = f" → {planned.relation}" if planned.relation is not None else ""
    yield f"{paint(planned.name, 'bold')} ({what}){where}"
    yield paint(found.file, "dim")
    yield from _section("", _decision(planned, paint), paint)
    yield from _section("Compared", _compared(found), paint)
    yield from _section("What changed in its definition", coloured_diff(found.diff, paint), paint)
    if found.work is not None:
        yield from _section("Incremental work", _work(found.work), paint)
    yield from _section("Checks", _checks(found, paint), paint)
    yield from _section("Last run", _last_run(found.last_run), paint)
    yield from _section("Reads", _neighbours(found.upstream, paint), paint)
    yield from _section("Read by", _neighbours(found.downstream, paint), paint)


def _section(title: str, lines: Iterable[str], paint: Paint) -> Iterator[str]:
    body = list(lines)
    if not body:
        return
    yield ""
    if title:
        yield paint(title, "bold")
    yield from (f"  {line}" if title else line for line in body)


def _decision(planned: PlannedNode, paint: Paint) -> Iterator[str]:
    how = f" ({planned.run_type})" if planned.action == "run" else ""
    action = paint(_ACTIONS[planned.action] + how, _COLOURS[planned.action])
    if planned.action == "skip":
        yield f"{action}: nothing that it is made from has changed"
    else:
        yield f"{action}: {planned.reason}"
    if planned.detail:
        yield f"  {planned.detail}"
    if planned.lookups:
        yield f"  {tables_text(planned)}"
    if planned.root:
        yield f"  root: {roots_text(planned.root, most=20)}"
    yield from (f"  {paint('note: ' + notice, 'yellow')}" for notice in planned.notices)


def _compared(found: Explanation) -> Iterator[str]:
    rows = [(h.what, h.stored or "nothing", h.now, "same" if h.same else "changed") for h in found.hashes]
    yield from _table(rows)
    for setting in found.settings:
        yield f"  {setting.what}: {setting.stored or 'not set'} → {setting.now or 'not set'}"
    yield from _table([_input_row(i) for i in found.inputs])
    for one in found.inputs:
        yield from (f"  column of {one.name}: {change}" for change in one.columns)


def _input_row(one: ComparedInput) -> tuple[str, str, str, str]:
    why = one.why if one.change is None else f"{one.why}: {change_text(one.change).removeprefix(one.name + ' ')}"
    return (f"{one.type} {one.name}", _version(one.stored), _version(one.now), why)


def _version(version: int | str | None) -> str:
    if version is None:
        return "nothing"
    if isinstance(version, int):
        return f"snapshot {version}"
    return version if version.startswith(("version ", "run ")) else f"definition {version[:12]}"


def _table(rows: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    """What it is, what it was, what it is now and how they compare; equal versions are said once."""
    said = [(what, then if then == now else _arrow(then, now), why) for what, then, now, why in rows]
    first = max((text_width(row[0]) for row in said), default=0)
    second = max((text_width(row[1]) for row in said), default=0)
    for what, versions, why in said:
        yield f"{_padded(what, first)}  {_padded(versions, second)}  {why}".rstrip()


def _arrow(then: str, now: str) -> str:
    word = then.partition(" ")[0]
    return f"{then} → {now.removeprefix(word + ' ')}"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def _work(work: Work) -> Iterator[str]:
    key = f" by {', '.join(work.keys)}" if work.keys else ""
    place = f" (in the part at {work.at})" if work.at is not None else ""
    why = work.why or ("only changed rows flow through" if work.kind == "linear" else "")
    yield f"class {work.kind}{key}{': ' if why else ''}{why}{place}"
    if work.input_rows is not None and work.kind != "opaque":
        changed = f", {work.changed_rows:,} rewritten" if work.changed_rows is not None else ""
        gate = f"followed from {work.min_rows:,} rows on, up to {work.max_share:.0%} rewritten"
        yield f"{work.input_rows:,} input {'row' if work.input_rows == 1 else 'rows'}{changed} ({gate})"
    if work.verdict:
        yield work.verdict


def _checks(found: Explanation, paint: Paint) -> Iterator[str]:
    yield from found.checks
    if found.checks:
        passed = f"passed on the rows that stand ({found.checks_passed} UTC)" if found.checks_passed else ""
        yield passed or paint("have not passed on the rows that stand", "yellow")


def _last_run(run: Mapping[str, Any] | None) -> Iterator[str]:
    if run is None:
        yield "never"
        return
    rows = run.get("rows")
    parts = [
        run["status"],
        run.get("run_type"),
        f"{rows:,} {'row' if rows == 1 else 'rows'}" if rows is not None else None,
        human_seconds(run["seconds"]) if run.get("seconds") is not None else None,
    ]
    yield f"{run['run_id']} at {run['at']} UTC: {', '.join(p for p in parts if p)}"
    if run.get("snapshot_id") is not None:
        yield f"snapshot {run['snapshot_id']}"
    if run.get("error"):
        yield str(run["error"]).splitlines()[0]


def _neighbours(neighbours: Sequence[Neighbour], paint: Paint) -> Iterator[str]:
    width = max((text_width(n.name) for n in neighbours), default=0)
    for one in neighbours:
        what = f"{one.action}: {one.reason}" if one.reason else one.action
        yield f"{_padded(one.name, width)}  {one.type}, {paint(what, _COLOURS.get(one.action, 'dim'))}"
