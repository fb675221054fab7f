"""The runs: a list with trends, and a page for each with its timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqb.docs_site.charts import Mark, caption, draw_bars
from sqb.docs_site.markup import EMPTY, Child, Markup, tag
from sqb.docs_site.pages.frame import Page, Site, section, show_end, show_facts, show_table
from sqb.docs_site.words import format_count, format_duration, format_time, make_file_name, pluralize

Run = Mapping[str, Any]
_SHOWN = 60
_STATES = {"ok": "current", "failed": "failed", "unfinished": "stale"}
_BARS = {"ok": "good", "failed": "bad", "unfinished": "warn"}


def render_runs(site: Site) -> str:
    """The page of all runs."""
    page = Page(site, "Runs", "runs.html")
    if not site.runs:
        return page.render(
            tag("h1", "Runs"),
            tag("p", "No run is recorded yet: ", tag("code", "sqb build"), " makes the first.", class_="lead"),
        )
    table = show_table(
        ("Run", "Status", "Ran", "Failed", "Skipped", "Rows", "Took", "Saved"),
        [
            [
                page.link_run(run["id"], format_time(run["at"])),
                _show_status(run),
                format_count(run["ran"]),
                format_count(run["failed"]) if run["failed"] else "",
                format_count(run["skipped"]),
                format_count(run["rows"]),
                format_duration(run["seconds"] if run["seconds"] is not None else run["work_seconds"]),
                f"{saved:.0%}" if (saved := _compute_saved(run)) is not None else "",
            ]
            for run in site.runs
        ],
        "Runs",
    )
    return page.render(tag("h1", "Runs"), _show_trends(site.runs), section("All runs", table, note=str(len(site.runs))))


def _show_status(run: Run) -> Markup:
    return tag("span", run["status"], class_=f"state state-{_STATES[run['status']]}")


def _show_trends(runs: Sequence[Run]) -> Markup:
    """Time, rows and what was not done, by run; builds with nothing to do record nothing and are not here."""
    oldest = list(reversed(runs[:_SHOWN]))

    def chart(title: str, values: Sequence[tuple[Run, float | None, str]], top: float | None = None) -> Markup:
        marks = [
            Mark(
                value,
                f"{format_time(run['at'])}: {words}",
                _BARS[run["status"]],
                f"runs/{make_file_name(run['id'])}",
            )
            for run, value, words in values
            if value is not None
        ]
        if not marks:
            return EMPTY
        last = [words for _, value, words in values if value is not None][-1]
        return tag("figure", caption(title, last), draw_bars(f"{title} by run", marks, top))

    saved = [(run, _compute_saved(run)) for run in oldest]
    charts = [
        chart(
            "Seconds",
            [
                (r, r["seconds"] if r["seconds"] is not None else r["work_seconds"], format_duration(r["seconds"]))
                for r in oldest
            ],
        ),
        chart("Rows", [(r, float(r["rows"]), f"{format_count(r['rows'])} rows") for r in oldest]),
        chart(
            "Skipped share",
            [(r, s, f"{s:.0%} of the nodes") for r in oldest if (s := _compute_skipped_share(r)) is not None],
            1.0,
        ),
        chart(
            "Saved against a full rebuild",
            [(r, s, f"{s:.0%} of the work") for r, s in saved if s is not None],
            1.0,
        ),
    ]
    return section(
        "Trends", tag("div", *charts, class_="charts"), note="oldest first; builds with nothing to do record nothing"
    )


def _compute_skipped_share(run: Run) -> float | None:
    return run["skipped"] / run["planned"] if run["planned"] and run["skipped"] is not None else None


def _compute_saved(run: Run) -> float | None:
    """The share of the work of a full rebuild that was saved; what a failed run left undone is not saved."""
    whole = run["rebuild_seconds"] if run["status"] == "ok" else None
    return max(0.0, 1 - run["work_seconds"] / whole) if whole else None


def render_run(site: Site, run: Run) -> str:
    """The page of one run."""
    page = Page(site, f"Run {run['id']}", "runs.html", "../")
    spark = run["spark"]
    facts = show_facts(
        [
            ("Began", f"{format_time(run['at'])} UTC"),
            ("Took", format_duration(run["seconds"])),
            ("Work of nodes", format_duration(run["work_seconds"])),
            (
                "Spark's start",
                format_duration(spark[1] - spark[0]) if spark else "none was needed, or an engine was warm",
            ),
            (
                "Nodes",
                f"{run['ran']} ran, {run['failed']} failed"
                + (f", {run['skipped']} of {run['planned']} skipped" if run["planned"] else ""),
            ),
            ("Rows", format_count(run["rows"])),
            (
                "A full rebuild",
                f"about {format_duration(run['rebuild_seconds'])} of work"
                + (f", {saved:.0%} saved" if (saved := _compute_saved(run)) is not None else "")
                if run["rebuild_seconds"]
                else None,
            ),
        ]
    )
    head = tag(
        "article",
        tag("h1", "Run ", tag("code", run["id"])),
        tag("p", _show_status(run), class_="chips"),
        facts,
        class_="head",
    )
    return page.render(head, _show_failures(page, run), _show_timeline(page, run), _show_nodes(page, run))


def _show_failures(page: Page, run: Run) -> Markup:
    failed = [n for n in run["nodes"] if n["error"]]
    items = [
        tag("article", tag("h3", page.link_node(n["name"])), tag("pre", n["error"], class_="error"), class_="planned")
        for n in failed
    ]
    return section("Failures", *items, note=str(len(failed))) if items else EMPTY


def _show_timeline(page: Page, run: Run) -> Markup:
    """What ran when and on which worker; the critical path is marked, and Spark's start has a line of its own."""
    timed = [n for n in run["nodes"] if n["began"] and n["ended"]]
    if not timed:
        return section("Timeline", tag("p", "This run recorded no times: it was made by an older sqb.", class_="note"))
    began = min(run["began"], *(n["began"] for n in timed))
    whole = max(max(n["ended"] for n in timed) - began, 0.001)

    def place(start: float, end: float) -> str:
        left, width = (start - began) / whole * 100, max((end - start) / whole * 100, 0.4)
        return f"left:{min(left, 99.6):.2f}%;width:{min(width, 100 - min(left, 99.6)):.2f}%"

    rows: list[Child] = []
    if run["spark"]:
        start, end = run["spark"]
        words = f"Spark's start, {format_duration(end - start)}"
        rows.append(_show_span("Spark starts", "", place(max(start, began), max(end, began)), words, "spark"))
    for node in timed:
        waited = f", after {node['waited_for']}" if node["waited_for"] else ""
        took = f"{format_duration(node['ended'] - node['began'])}, {format_duration(node['seconds'])} of work"
        words = f"{node['name']}: {took}, worker {node['worker']}{waited}; {node['reason']}"
        style = "failed" if node["status"] == "failed" else "critical" if node["critical"] else ""
        rows.append(
            _show_span(
                page.link_node(node["name"]),
                f"worker {node['worker']}",
                place(node["began"], node["ended"]),
                words,
                style,
            )
        )
    marks = [tag("span", format_duration(whole * i / 4), style=f"left:{i * 25}%") for i in range(5)]
    ticks = tag("div", tag("span", class_="who"), tag("span", *marks, class_="ticks"), class_="row", aria_hidden="true")
    path = [n["name"] for n in timed if n["critical"]]
    note = tag(
        "p",
        "Critical path: ",
        ", then ".join(path),
        ". These decided how long the run took; the others ran beside them.",
        class_="note",
    )
    return section(
        "Timeline",
        tag("div", ticks, *rows, class_="timeline"),
        note,
        note=f"{pluralize(len({n['worker'] for n in timed}), 'worker')}",
    )


def _show_span(name: Child, worker: str, place: str, words: str, style: str) -> Markup:
    bar = tag(
        "span",
        tag("span", style=place, class_=f"span {style}", title=words),
        class_="lane",
        role="img",
        aria_label=words,
    )
    return tag("div", tag("span", name, tag("small", worker) if worker else None, class_="who"), bar, class_="row")


def _show_nodes(page: Page, run: Run) -> Markup:
    rows: list[list[Child]] = [
        [
            [page.link_node(n["name"]), " ★" if n["critical"] else ""],
            show_end(n["status"]),
            n["run_type"],
            [n["reason"] or "", f": {n['detail']}" if n["detail"] else ""],
            n["waited_for"] or "",
            # A view has none of its own.
            format_count(n["rows"]) if n["kind"] != "view" else "",
            format_duration(n["seconds"]),
        ]
        for n in run["nodes"]
    ]
    table = show_table(
        ("Node", "Status", "Run type", "Why it ran", "Waited for", "Rows", "Seconds"), rows, "Nodes of the run"
    )
    return section("Nodes", table, note="★ is on the critical path" if any(n["critical"] for n in run["nodes"]) else "")
