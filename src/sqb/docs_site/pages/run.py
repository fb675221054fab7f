"""One run: how it went, what ran when, what waited for what, and why each node ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqb.docs_site.markup import EMPTY, Child, Markup, tag
from sqb.docs_site.pages.frame import (
    Page,
    Site,
    link_names,
    section,
    show_end,
    show_figures,
    show_run_status,
    show_table,
)
from sqb.docs_site.words import compute_saved, format_count, format_duration, format_time, make_file_name, pluralize

Run = Mapping[str, Any]
_LANE_KEYS = (("critical", "critical path"), ("", "beside it"), ("wait", "waiting"), ("failed", "failed"))


def render_run(site: Site, run: Run) -> str:
    """The page of one run."""
    page = Page(site, f"Run {run['id']}", "runs.html", "../")
    spark = run["spark"]
    saved = compute_saved(run)
    rebuild = run["rebuild_seconds"]
    figures = show_figures(
        [
            ("Took", format_duration(run["seconds"]), ""),
            (
                "Ran",
                format_count(run["ran"]),
                f"of {format_count(run['planned'])} nodes" if run["planned"] else "nodes",
            ),
            ("Failed", format_count(run["failed"]) if run["failed"] else None, "nodes"),
            ("Skipped", format_count(run["skipped"]) if run["skipped"] else None, "nothing to do"),
            ("Rows", format_count(run["rows"]), "written"),
            ("Work of nodes", format_duration(run["work_seconds"]), "one after the other"),
            ("Spark's start", format_duration(spark[1] - spark[0]) if spark else "–", "" if spark else "none, or warm"),
            (
                "Saved",
                f"{saved:.0%}" if saved is not None else None,
                f"of about {format_duration(rebuild)} for a full rebuild" if rebuild else "",
            ),
        ]
    )
    environment = tag("span", run["environment"], class_="kind", title="Environment") if run["environment"] else None
    head = tag(
        "article",
        _link_neighbours(page, run),
        tag("h1", f"Run of {format_time(run['at'])} UTC"),
        tag("p", show_run_status(run), environment, tag("code", run["id"]), class_="chips"),
        figures,
        class_="head",
    )
    return page.render(head, _show_failures(page, run), _show_timeline(page, run), _show_nodes(page, run))


def _link_neighbours(page: Page, run: Run) -> Markup:
    """The way to the runs before and after this one."""
    earlier, later = page.site.find_neighbours(run["id"])

    def link(other: Run, words: str, side: str) -> Markup:
        title = f"{format_time(other['at'])}, {other['status']}"
        return tag("a", words, href=make_file_name(other["id"]), title=title, class_=f"button {side}", rel=side)

    links = [
        link(earlier, "← Earlier", "prev") if earlier is not None else None,
        link(later, "Later →", "next") if later is not None else None,
    ]
    return tag("nav", *links, class_="around", aria_label="Other runs") if any(links) else EMPTY


def _show_failures(page: Page, run: Run) -> Markup:
    failed = [n for n in run["nodes"] if n["error"]]
    items = [
        tag("article", tag("h3", page.link_node(n["name"])), tag("pre", n["error"], class_="error"), class_="planned")
        for n in failed
    ]
    return section("Failures", *items, note=str(len(failed))) if items else EMPTY


class _Scale:
    """Where moments of a run stand on its timeline, in percent."""

    def __init__(self, began: float, ended: float) -> None:
        self.began, self.whole = began, max(ended - began, 0.001)

    def place(self, start: float, end: float, least: float = 0.4) -> str:
        """The style of what lasts from one moment to another."""
        left = min(max(start - self.began, 0.0) / self.whole * 100, 99.6)
        width = max((end - max(start, self.began)) / self.whole * 100, least)
        return f"left:{left:.2f}%;width:{min(width, 100 - left):.2f}%"


def _show_timeline(page: Page, run: Run) -> Markup:
    """What ran when and on which worker, and what it waited for; Spark's start has a line of its own."""
    timed = [n for n in run["nodes"] if n["began"] and n["ended"]]
    if not timed:
        return section("Timeline", tag("p", "This run recorded no times: it was made by an older sqb.", class_="note"))
    scale = _Scale(min(run["began"], *(n["began"] for n in timed)), max(n["ended"] for n in timed))
    rows: list[Child] = []
    if run["spark"]:
        start, end = run["spark"]
        words = f"Spark's start, {format_duration(end - start)}"
        bar = _draw_span(scale.place(start, end), "spark critical" if run["spark_critical"] else "spark", words)
        rows.append(_show_row("Spark starts", "", [bar], words))
    rows += [_show_node(page, scale, node, run["spark"]) for node in timed]
    marks = [tag("span", format_duration(scale.whole * i / 4) if i else "0", style=f"left:{i * 25}%") for i in range(5)]
    ticks = tag("div", tag("span", class_="who"), tag("span", *marks, class_="ticks"), class_="row", aria_hidden="true")
    workers = pluralize(len({n["worker"] for n in timed}), "worker")
    return section(
        "Timeline", _show_keys(timed), tag("div", ticks, *rows, class_="timeline"), _show_path(page, run), note=workers
    )


def _show_keys(timed: list[Run]) -> Markup:
    """What the colours of the timeline mean."""
    styles = {"", "critical", "wait"} | {"failed" for n in timed if n["status"] == "failed"}
    keys = [
        tag("span", tag("i", class_=f"lane-key {style}"), word, class_="key")
        for style, word in _LANE_KEYS
        if style in styles
    ]
    return tag("p", *keys, class_="legend", aria_hidden="true")


def _show_path(page: Page, run: Run) -> Markup:
    path: list[Child] = ["Spark's start"] if run["spark_critical"] else []
    path += [page.link_node(n["name"]) for n in run["nodes"] if n["critical"]]
    words: list[Child] = [part for step in path for part in (" → ", step)][1:]
    others = sum(not node["critical"] for node in run["nodes"])
    meaning = "This decided" if len(path) == 1 else "These decided"
    beside = f"; the other{'s' if others > 1 else ''} ran beside {'it' if len(path) == 1 else 'them'}" if others else ""
    return tag(
        "p", tag("strong", "Critical path: "), *words, f". {meaning} how long the run took{beside}.", class_="note"
    )


def _show_node(page: Page, scale: _Scale, node: Run, spark: Any) -> Markup:
    """The line of a node: from when its inputs were there, to its end."""
    waited = {"input": "after", "place": "waited for a place until the end of", "spark": "waited for"}.get(node["wait"])
    took = f"{format_duration(node['ended'] - node['began'])}, {format_duration(node['seconds'])} of work"
    parts = [took, f"worker {node['worker']}", f"{waited} {node['waited_for']}" if waited else "", node["reason"] or ""]
    words = f"{node['name']}: {', '.join(part for part in parts if part)}"
    style = "failed" if node["status"] == "failed" else "critical" if node["critical"] else ""
    bars = [_draw_span(scale.place(node["began"], node["ended"]), style, words)]
    if node["wait"] == "place":
        bars.insert(0, _draw_span(scale.place(node["ready"], node["began"], 0.0), "wait", words))
    elif node["wait"] == "spark" and spark:
        bars.append(_draw_span(scale.place(node["began"], spark[1], 0.0), "held", words))
    return _show_row(page.link_node(node["name"]), f"worker {node['worker']}", bars, words)


def _draw_span(place: str, style: str, words: str) -> Markup:
    return tag("span", style=place, class_=f"span {style}".strip(), title=words)


def _show_row(name: Child, worker: str, bars: list[Markup], words: str) -> Markup:
    lane = tag("span", *bars, class_="lane", role="img", aria_label=words)
    return tag("div", tag("span", name, tag("small", worker) if worker else None, class_="who"), lane, class_="row")


def _show_wait(page: Page, node: Run) -> Child:
    match node["wait"]:
        case "spark":
            return "Spark"
        case "place":
            return ["a place, after ", *link_names(page, [node["waited_for"]])]
        case "input":
            return link_names(page, [node["waited_for"]])
    return ""


def _show_failed_check(failure: Mapping[str, Any]) -> Markup:
    style = "failed" if failure["severity"] == "error" else "stale"
    word = tag("span", "failed" if failure["severity"] == "error" else "warned", class_=f"state state-{style}")
    return tag("div", word, " ", tag("code", failure["check"]), " ", tag("small", failure["message"]))


def _show_nodes(page: Page, run: Run) -> Markup:
    rows: list[list[Child]] = [
        [
            [page.link_node(n["name"]), " ★" if n["critical"] else ""],
            show_end(n["status"]),
            n["run_type"],
            # A view has none of its own.
            format_count(n["rows"]) if n["kind"] != "view" else "",
            format_duration(n["seconds"]),
            [n["reason"] or "", f": {n['detail']}" if n["detail"] else "", *map(_show_failed_check, n["failures"])],
            _show_wait(page, n),
        ]
        for n in run["nodes"]
    ]
    headings = (
        "Node",
        "Status",
        "Run type",
        "Rows",
        "Seconds",
        "Why it ran, and checks that did not hold",
        "Waited for",
    )
    table = show_table(headings, rows, "Nodes of the run")
    return section("Nodes", table, note="★ is on the critical path" if any(n["critical"] for n in run["nodes"]) else "")
