"""Plans and builds as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqb.build.events import NodeDone, SparkStarted, UnitTestDone, UnitTestsDone
from sqb.build.result import BuildResult
from sqb.compile.model import UnitTest
from sqb.console.style import Paint, cut_text, measure_text
from sqb.names import format_seconds
from sqb.plan.model import DataChange, Plan, PlannedNode, Reason, Root

if TYPE_CHECKING:
    from sqb.environments.build.finalize import EnvironmentResult

# The lines of a diff that a plan shows without -v.
_MAX_DIFF_LINES = 8
# So many nodes with nothing to tell have a line of their own without -v.
MAX_NODES = 20
_MAX_ROOTS = 3
_INDENT = " " * 11
_EMPTY = "Nothing to do: there is nothing to build. Models are SQL files in models/, seeds are CSV files in seeds/."
_UNSELECTED = "Nothing to do: nothing is selected."
_MIN_WIDTH = 30
# A column of a table is not made narrower than this.
_MIN_COLUMN = 8
_PYTHON_TYPES = ("loader", "task", "asset", "check", "hook")
_ACTION_COLOURS = {"run": "green", "skip": "dim", "blocked": "yellow"}


def _describe_empty(plan: Plan) -> str:
    return _EMPTY if plan.options.selected is None else _UNSELECTED


def format_done(done: NodeDone, paint: Paint) -> str:
    """What became of one node, on one line."""
    node = done.planned
    if node.type in _PYTHON_TYPES:
        return _format_python_done(done, paint)
    match done.status:
        case "ok":
            rows = (
                "identical output, 0 rows" if done.identical else f"{done.rows} {'row' if done.rows == 1 else 'rows'}"
            )
            # Tracked models report whether only their groups were written.
            wrote = f", {done.wrote}" if node.kind == "tracked" and done.wrote and not done.identical else ""
            amount = f"{rows}{wrote}, " if node.kind != "view" else ""
            how = f"{node.kind}, {done.run_type}, {amount}{format_seconds(done.seconds)}"
            return f"{paint('[OK]', 'green')} {node.name} ({how})"
        case "skipped":
            named = done.skip or done.detail.startswith(("upstream", "another build", "only lookups"))
            why = done.detail if named else "unchanged"
            mark = paint("[SKIP]", "yellow") if done.skip else paint("[OK]", "green")
            return f"{mark} {node.name} ({node.kind}, skip — {why})"
        case "failed":
            how = f"{node.kind}, {done.run_type}, {format_seconds(done.seconds)}"
            return f"{paint('[FAIL]', 'red', 'bold')} {node.name} ({how})"
        case _:
            why = done.detail or str(node.reason)
            return f"{paint('[SKIP]', 'yellow')} {node.name} ({why})"


def _format_python_done(done: NodeDone, paint: Paint) -> str:
    """What became of a Python node, on one line."""
    node = done.planned
    # A loader says how it writes, a hook when it runs.
    what = f"{node.type}, {node.kind}" if node.kind != node.type else node.type
    match done.status:
        case "ok":
            rows = f"{done.rows} {'row' if done.rows == 1 else 'rows'}"
            amount = ("nothing new, " if done.identical else f"{rows}, ") if node.type == "loader" else ""
            return f"{paint('[OK]', 'green')} {node.name} ({what}, {amount}{format_seconds(done.seconds)})"
        case "skipped":
            why = done.detail or "unchanged"
            mark = paint("[SKIP]", "yellow") if done.skip else paint("[OK]", "green")
            return f"{mark} {node.name} ({what}, skip — {why})"
        case "failed":
            return f"{paint('[FAIL]', 'red', 'bold')} {node.name} ({what}, {format_seconds(done.seconds)})"
        case _:
            return f"{paint('[SKIP]', 'yellow')} {node.name} ({done.detail or node.reason})"


def format_skipped(skipped: list[NodeDone], verbose: bool, paint: Paint) -> Iterator[str]:
    """Nodes that were up to date: one line each, or one line for many."""
    if len(skipped) > MAX_NODES and not verbose:
        yield f"{paint('[OK]', 'green')} {len(skipped)} nodes (skip — unchanged)"
        return
    yield from (format_done(done, paint) for done in skipped)


def format_abandoned(abandoned: list[NodeDone], paint: Paint) -> Iterator[str]:
    """Nodes that were not begun because the build was stopped: one line each, or one line for many."""
    if len(abandoned) > MAX_NODES:
        yield f"{paint('[SKIP]', 'yellow')} {len(abandoned)} nodes ({abandoned[0].detail})"
        return
    yield from (format_done(done, paint) for done in abandoned)


def format_blocked(count: int, paint: Paint) -> str:
    """More nodes that did not run because something above them failed, on one line."""
    return f"{paint('[SKIP]', 'yellow')} {count} more {'node' if count == 1 else 'nodes'} below what failed"


def format_summary(result: BuildResult, seconds: float) -> str:
    """The last line of a build."""
    s = result.summary
    blocked = f", {s['blocked']} blocked" if s["blocked"] else ""
    rows = f"{s['rows']} {'row' if s['rows'] == 1 else 'rows'}"
    counts = f"{s['ran']} ran, {s['skipped']} skipped, {s['failed']} failed{blocked}"
    return f"Done: {counts} ({rows}, {format_seconds(seconds)})"


def format_end(
    result: BuildResult,
    notes: Iterable[str],
    tested: bool,
    seconds: float,
    environment: EnvironmentResult | None,
    paint: Paint,
) -> Iterator[str]:
    """What a build says at its end."""
    plan = result.plan
    yield from (paint(f"warning: {warning}", "yellow") for warning in plan.warnings)
    yield from (paint(f"note: {note}", "yellow") for note in notes)
    if plan.nothing_to_do and not plan.summary["blocked"] and not tested:
        yield "Nothing to do: everything is up to date." if plan.nodes else _describe_empty(plan)
    if result.interrupted:
        yield paint("Interrupted: what had been published stays, the rest is left for the next build.", "yellow")
    if environment is not None:
        from sqb.console.environments.build import format_environment_result  # few projects have environments

        yield from format_environment_result(environment, paint)
    yield format_summary(result, seconds)


def format_plan(
    plan: Plan, verbose: bool, paint: Paint, diffs: Mapping[str, str], room: int | None = None
) -> Iterator[str]:
    """A plan, as it is read from top to bottom; where `room` is given, what does not fit goes on below, indented."""
    visible = [n for n in plan.nodes if n.action != "skip"]
    skipped = [n for n in plan.nodes if n.action == "skip"]
    if verbose or len(skipped) <= MAX_NODES:
        visible = list(plan.nodes)
        skipped = []
    width = max((len(n.name) for n in visible), default=0)
    for node in visible:
        yield from _format_node(node, width, paint, room)
        yield from (
            _INDENT + paint(line, "dim") for explanation in format_causes(node) for line in _wrap(explanation, room)
        )
        notes = [f"note: {n}" for n in node.notices if node.action == "run"]
        yield from (_INDENT + paint(line, "yellow") for note in notes for line in _wrap(note, room))
        if node.name in diffs:
            yield from (_INDENT + line for line in colour_diff(diffs[node.name], paint))
    if skipped:
        yield f"{paint('skip', 'dim')}     {len(skipped)} nodes, unchanged"
    yield from (paint(f"warning: {w}", "yellow") for w in plan.warnings)
    s = plan.summary
    if plan.nothing_to_do and not s["blocked"]:
        yield f"Nothing to do: {s['skip']} unchanged (target {plan.target})" if plan.nodes else _describe_empty(plan)
    else:
        yield f"Plan: {s['run']} to run, {s['skip']} unchanged, {s['blocked']} blocked (target {plan.target})"


def _format_node(node: PlannedNode, width: int, paint: Paint, room: int | None) -> Iterator[str]:
    how = f"{node.kind}, {node.run_type}" if node.action == "run" else node.kind
    if node.type in _PYTHON_TYPES:
        how = f"{node.type}, {node.kind}" if node.kind != node.type else node.type
    why = "" if node.action == "skip" else f"  {node.reason}"
    detail = node.detail if why or node.lookups else ""
    text = f"{node.name.ljust(width)}  ({how}){why}"
    action = paint(node.action.ljust(7), _ACTION_COLOURS[node.action])
    if room is not None and detail and len(_INDENT) + measure_text(f"{text}: {detail}") - 2 > room:
        yield f"{action}  {text}"
        yield from (_INDENT + paint(line, "dim") for line in _wrap(detail, room))
    else:
        yield f"{action}  {text}{paint(f': {detail}' if detail else '', 'dim')}"


def _wrap(text: str, room: int | None) -> list[str]:
    """A text in lines that fit below a node, broken between words."""
    if room is None or len(_INDENT) + measure_text(text) <= room:
        return [text]
    import textwrap  # only a narrow terminal needs it

    width = max(_MIN_WIDTH, room - len(_INDENT))
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def format_causes(node: PlannedNode) -> Iterator[str]:
    """What is behind a node's reason: what started the cascade, how much data changed, and the class of its query."""
    # A source that it reads itself is in its detail and its data already.
    is_direct = node.reason in (Reason.SOURCE_CHANGED, Reason.SCHEMA_CHANGED)
    if node.root and not (is_direct and all(r.name in node.upstream for r in node.root)):
        yield f"root: {format_roots(node.root)}"
    if node.changes:
        yield f"data: {', '.join(format_change(c) for c in node.changes)}"
    if node.lookups and (node.action == "run" or node.detail):
        yield format_tables(node)
    if node.action == "run" and node.incremental is not None:
        yield f"class: {format_class(node.incremental)}"


def format_tables(node: PlannedNode) -> str:
    """The tables that drive a log, and those that it only looks things up in."""
    return f"drivers: {', '.join(node.drivers) or 'none'}; lookups: {', '.join(node.lookups)}"


def format_roots(roots: Sequence[Root], most: int = _MAX_ROOTS) -> str:
    """What started a cascade, in a few words."""
    named = [f"{root.name} ({root.reason})" for root in roots[:most]]
    return ", ".join(named) + (f" and {len(roots) - most} more" if len(roots) > most else "")


def format_change(change: DataChange) -> str:
    """How much a table has changed, in a few words."""
    if change.rows_added is None or change.rows_removed is None:
        return f"{change.source} by an unknown number of rows"
    signed = [f"+{change.rows_added:,}"] if change.rows_added or not change.rows_removed else []
    signed += [f"-{change.rows_removed:,}"] if change.rows_removed else []
    rows = "row" if change.rows_added + change.rows_removed == 1 else "rows"
    return f"{change.source} {'at most ' if change.estimated else ''}{' '.join(signed)} {rows}"


def format_class(incremental: Mapping[str, Any]) -> str:
    """The class of a query and why it is in it, in a few words."""
    key = f" by {incremental['key']}" if "key" in incremental else ""
    more = [incremental[k] for k in ("why", "size", "cost") if incremental.get(k)]
    if "refresh_seconds" in incremental:
        refresh, rebuild = incremental["refresh_seconds"], incremental["rebuild_seconds"]
        more.append(f"by the last runs about {refresh} s, a rebuild {rebuild} s")
    return f"{incremental['class']}{key}" + (f" ({'; '.join(more)})" if more else "")


def colour_diff(diff: str, paint: Paint) -> Iterator[str]:
    """The lines of a unified difference, in the usual colours."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.splitlines():
        yield paint(line, colours[line[0]]) if line[:1] in colours else line


def shorten_diff(text: str) -> str:
    """A diff without what is the same on both sides, cut off after a few lines."""
    changed = [line for line in text.splitlines() if line[:1] in ("+", "-")]
    more = len(changed) - _MAX_DIFF_LINES
    return "\n".join([*changed[:_MAX_DIFF_LINES], *([f"… {more} more lines: -v shows all"] if more > 0 else [])])


def format_table(header: Iterable[str], rows: Iterable[Iterable[object]], room: int | None = None) -> Iterator[str]:
    """Rows under a header, in aligned columns, one line each; where `room` is given, the widest cells are cut to it."""
    table = [[_format_cell(value) for value in row] for row in (header, *rows)]
    widths = [max(measure_text(row[i]) for row in table) for i in range(len(table[0]))]
    if room is not None:
        widths = _narrow(widths, room - 2 * (len(widths) - 1))
    for index, row in enumerate(table):
        cells = [(cut_text(cell, width), width) for cell, width in zip(row, widths, strict=True)]
        padded = (cell + " " * (width - measure_text(cell)) for cell, width in cells)
        yield "  ".join(padded).rstrip()
        if index == 0:
            yield "  ".join("-" * width for width in widths)


def _narrow(widths: list[int], room: int) -> list[int]:
    """Widths of columns that have room together: the widest give way first, none below a few characters."""
    widths = list(widths)
    while sum(widths) > room and max(widths) > _MIN_COLUMN:
        widths[widths.index(max(widths))] -= 1
    return widths


def _format_cell(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def format_test(done: UnitTestDone, paint: Paint) -> str:
    """What became of one test, on one line."""
    how = f"{done.test.name} ({done.test.model}, {format_seconds(done.seconds)})"
    return f"{paint('[OK]', 'green')} {how}" if done.status == "passed" else f"{paint('[FAIL]', 'red', 'bold')} {how}"


def format_spark_start(started: SparkStarted, paint: Paint) -> str:
    """That Spark has started: what it takes is no node's time."""
    return paint(f"Spark: started ({format_seconds(started.seconds)})", "dim")


def format_tests(done: UnitTestsDone, paint: Paint) -> str:
    """What became of the tests of a build, on one line."""
    failed = sum(t.status == "failed" for t in done.tests)
    failures = f", {paint(f'{failed} failed', 'red')}" if failed else ""
    return f"Unit tests: {len(done.tests) - failed} passed{failures} ({format_seconds(done.seconds)})"


def format_unchanged_tests(unchanged: Sequence[UnitTest], verbose: bool, paint: Paint) -> Iterator[str]:
    """Tests that passed before and would do the same again: one line each with -v."""
    if verbose:
        yield from (f"{paint('[OK]', 'green')} {t.name} ({t.model}, skip — unchanged)" for t in unchanged)


def format_test_summary(passed: int, failed: int, unchanged: int, seconds: float) -> str:
    """The last line of `sqb test`."""
    return f"Done: {passed} passed, {failed} failed, {unchanged} unchanged ({format_seconds(seconds)})"
