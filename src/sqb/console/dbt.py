"""The dbt part of plans and builds, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqb.console.lines import colour_diff
from sqb.console.style import Paint
from sqb.dbt.model import DbtPlan, DbtPlanned
from sqb.dbt.run import DbtRun
from sqb.names import format_seconds
from sqb.operations.dbt.projects import PlannedPhase
from sqb.operations.dbt.results import DbtPhaseResult

_MAX_LINES = 20


def format_plan(planned: PlannedPhase, verbose: bool, paint: Paint) -> Iterator[str]:
    """What dbt would run, and why. The counts add up to what is selected."""
    plan, selected, command, diffs = planned.plan, planned.selected, planned.verb, planned.diffs
    models = plan.models
    run, current, blocked = ([n for n in models if n.action == a] for a in ("run", "skip", "blocked"))
    work = [n for n in plan.others if n.action == "run"]
    blocked_work = [n for n in plan.others if n.action == "blocked"]
    yield paint(f"dbt ({selected} selected {_pluralize(selected, 'resource')})", "bold")
    yield f"  selected by dbt selector: {selected} from dbt selector"
    yield f"  planned models: {len(run)} run, {len(current)} current, {len(blocked)} blocked"
    idle = len(plan.others) - len(work) - len(blocked_work)
    rest = ", ".join(f"{count} {word}" for count, word in ((idle, "current"), (len(blocked_work), "blocked")) if count)
    yield f"  planned non-model dbt work: {len(work)}{f' ({rest})' if rest else ''}"
    if selected > len(plan.nodes):
        yield f"  not run by dbt {command}: {selected - len(plan.nodes)}"
    if not run and not work and not blocked and not blocked_work:
        what = {"test": "tests", "seed": "seeds", "snapshot": "snapshots"}.get(command, "models")
        yield f"  skipped: all planned dbt {what} are current"
    elif not run and not work:
        yield "  skipped: everything that is left is blocked"
    if plan.full_refresh:
        yield "  --full-refresh is given to dbt"
    groups = (("Run", run), ("Blocked", blocked), ("Current", current))
    yield from _format_section("Model plan", groups, verbose, paint, diffs)
    yield from _format_section("Other dbt work", (("Run", work), ("Blocked", blocked_work)), verbose, paint, diffs)
    for notice in plan.notices:
        yield paint(f"  note: {notice}", "yellow")


def _pluralize(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _format_section(
    title: str,
    groups: Iterable[tuple[str, Sequence[DbtPlanned]]],
    verbose: bool,
    paint: Paint,
    diffs: Mapping[str, str],
) -> Iterator[str]:
    visible = [(name, nodes) for name, nodes in groups if nodes]
    if not visible:
        return
    yield ""
    yield f"  {title}"
    for name, nodes in visible:
        yield f"    {name} ({len(nodes)})"
        if name == "Current" and len(nodes) > _MAX_LINES and not verbose:
            yield paint(f"      {len(nodes)} models   no change", "dim")
            continue
        width = max(len(n.unique_id) for n in nodes)
        style = {"Run": "green", "Blocked": "yellow"}.get(name, "dim")
        for node in nodes:
            why = node.reason if not node.detail else f"{node.reason} ({node.detail})"
            yield f"      {node.unique_id.ljust(width)}   {paint(why, style)}"
            yield from (f"        {line}" for line in colour_diff(diffs.get(node.unique_id, ""), paint))


def format_summary(result: DbtPhaseResult) -> str:
    """The summary of the dbt part, after the output of dbt itself."""
    counts = count_results(result.plan, result.run)
    blocked = f", {counts['blocked']} blocked" if counts["blocked"] else ""
    left = f", {counts['left']} left" if counts["left"] else ""
    text = f"{counts['ran']} ran, {counts['skipped']} current, {counts['failed']} failed{left}{blocked}"
    return f"dbt: {text} ({format_seconds(result.seconds)})"


def count_results(plan: DbtPlan, run: DbtRun) -> dict[str, int]:
    """How many nodes came to which end; `left` were to run and did not get to it."""
    ids = plan.runs
    ran = sum(1 for name in ids if name in run.results and run.results[name].ok)
    failed = sum(1 for name in ids if name in run.results and run.results[name].failed)
    return {
        "ran": ran,
        "skipped": len(plan.filter_nodes("skip")),
        "failed": failed,
        "left": len(ids) - ran - failed,
        "blocked": len(plan.filter_nodes("blocked")),
    }
