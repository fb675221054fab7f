"""All runs: trends over them, and a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqb.docs_site.charts import Mark, caption, draw_bars
from sqb.docs_site.markup import EMPTY, Markup, tag
from sqb.docs_site.pages.frame import Page, Site, section, show_run_status, show_table
from sqb.docs_site.words import compute_saved, format_count, format_duration, format_time, make_file_name, pluralize

Run = Mapping[str, Any]
_SHOWN = 60
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
        ("Run", "Status", "Environment", "Ran", "Failed", "Skipped", "Rows", "Took", "Saved"),
        [
            [
                page.link_run(run["id"], format_time(run["at"])),
                [show_run_status(run), _show_warnings(run)],
                run["environment"] or "",
                format_count(run["ran"]),
                format_count(run["failed"]) if run["failed"] else "",
                format_count(run["skipped"]),
                format_count(run["rows"]),
                format_duration(_get_seconds(run)),
                f"{saved:.0%}" if (saved := compute_saved(run)) is not None else "",
            ]
            for run in site.runs
        ],
        "Runs",
    )
    return page.render(tag("h1", "Runs"), _show_trends(site.runs), section("All runs", table, note=str(len(site.runs))))


def _show_warnings(run: Run) -> Markup | None:
    count = sum(failure["severity"] != "error" for node in run["nodes"] for failure in node["failures"])
    return tag("small", f" {pluralize(count, 'warning')}") if count else None


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

    saved = [(run, compute_saved(run)) for run in oldest]
    charts = [
        chart(
            "Seconds",
            [(r, seconds, format_duration(seconds)) for r in oldest if (seconds := _get_seconds(r)) is not None],
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


def _get_seconds(run: Run) -> float | None:
    """How long a run took; of one without times, how long its nodes took."""
    seconds: float | None = run["seconds"] if run["seconds"] is not None else run["work_seconds"]
    return seconds


def _compute_skipped_share(run: Run) -> float | None:
    return run["skipped"] / run["planned"] if run["planned"] and run["skipped"] is not None else None
