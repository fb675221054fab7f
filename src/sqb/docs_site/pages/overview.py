"""The first page with the graph, and the catalog: everything in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqb.docs_site.markup import Child, Markup, tag
from sqb.docs_site.pages.frame import STATE_WORDS, Page, Site, say_nothing_is_there, show_kind, show_state, show_table
from sqb.docs_site.pages.legend import show_legend
from sqb.docs_site.words import format_count, format_duration, format_time, pluralize

_SCRIPTS = (
    "assets/vendor/dagre.min.js",
    "data/graph.js",
    "assets/selectors.js",
    "assets/layout.js",
    "assets/shapes.js",
    "assets/canvas.js",
    "assets/panel.js",
    "assets/lineage.js",
    "assets/graph.js",
)


def render_graph(site: Site) -> str:
    """The first page: how things stand, and the graph."""
    page = Page(site, "Graph", "index.html", "", _SCRIPTS)
    return page.render(_show_cards(page), _show_graph(), _show_names(page))


def _show_cards(page: Page) -> Markup:
    site = page.site
    counts = {state: sum(n["state"] == state for n in site.nodes.values()) for state in STATE_WORDS}
    states = [
        tag(
            "button",
            tag("b", format_count(count)),
            " ",
            STATE_WORDS[state],
            type="button",
            class_=f"count state-{state}",
            data_state=state,
        )
        for state, count in counts.items()
        if count
    ]
    last = site.runs[0] if site.runs else None
    words: list[Child] = [
        tag("p", *states, class_="counts"),
        tag("p", *_summarize_plan(site.document["plan"]["nodes"])),
    ]
    if last is not None:
        failed = (
            f", {format_count(last['failed'])} failed"
            if last["failed"]
            else ", unfinished"
            if last["status"] != "ok"
            else ""
        )
        words.append(
            tag(
                "p",
                "Last run ",
                page.link_run(last["id"], format_time(last["at"])),
                f": {format_count(last['ran'])} ran{failed}, {format_duration(last['seconds'])}.",
            )
        )
    return tag("section", *words, class_="cards", aria_label="How things stand")


def _summarize_plan(planned: Sequence[Mapping[str, Any]]) -> list[Child]:
    if not planned:
        return say_nothing_is_there()
    running = [n for n in planned if n["action"] == "run"]
    pending = sum(n["pending"] for n in running)
    more = f", {format_count(pending)} more if {'its' if pending == 1 else 'their'} inputs change," if pending else ""
    words = f"A build would run {pluralize(len(running) - pending, 'node')}"
    return [tag("a", words, href="plan.html"), f"{more} and skip {sum(n['action'] == 'skip' for n in planned):,}."]


def _show_graph() -> Markup:
    bar = tag(
        "form",
        tag("label", "Select", for_="selector", class_="hidden"),
        tag(
            "input",
            id="selector",
            name="selector",
            placeholder="+model+   tag:finance   path:marts   state:stale",
            list="selector-words",
            autocomplete="off",
            spellcheck="false",
            aria_describedby="selector-message",
        ),
        tag("datalist", id="selector-words"),
        tag("label", "Exclude", for_="exclude", class_="hidden"),
        tag("input", id="exclude", name="exclude", placeholder="exclude", autocomplete="off", spellcheck="false"),
        tag("span", id="selector-message", role="status"),
        tag(
            "span",
            tag("button", "Fit", type="button", id="fit", title="Fit the graph (F)"),
            tag("button", "+", type="button", id="zoom-in", aria_label="Zoom in"),
            tag("button", "−", type="button", id="zoom-out", aria_label="Zoom out"),
            tag("button", "All", type="button", id="reset", title="Show everything (Esc)"),
            class_="buttons",
        ),
        id="graph-bar",
        role="search",
    )
    canvas = tag(
        "div",
        id="graph",
        role="application",
        tabindex=0,
        aria_label="Graph of the project: arrow keys move along edges, Enter opens a node, F fits, Escape shows all",
    )
    tip = tag("div", id="graph-tip", role="tooltip", hidden=True)
    panel = tag("aside", id="graph-panel", aria_label="Chosen node", aria_live="polite", hidden=True)
    return tag(
        "section",
        bar,
        tag("div", canvas, tip, panel, class_="graph-area"),
        show_legend(),
        class_="graph needs-script",
        aria_label="Graph",
    )


def _show_names(page: Page) -> Markup:
    """The graph as a list, for those without JavaScript."""
    items = [
        tag("li", page.link_node(name), " ", show_state(n["state"], n["reason"])) for name, n in page.site.nodes.items()
    ]
    return tag("noscript", tag("h2", "Everything in the project"), tag("ul", *items))


def render_catalog(site: Site) -> str:
    """Everything in one table."""
    page = Page(site, "Catalog", "catalog.html", "", ("assets/catalog.js",))
    rows = [
        [
            page.link_node(name),
            show_kind(node),
            show_state(node["state"], node["reason"]),
            [
                node["description"],
                tag("div", *(tag("span", t, class_="tag") for t in node["tags"])) if node["tags"] else "",
            ],
            node["owner"],
            format_count(node["rows"]),
            page.link_run(run["run"], format_time(run["at"])[:-3]) if (run := next(iter(node["runs"]), None)) else "",
        ]
        for name, node in site.nodes.items()
    ]
    field = tag(
        "p",
        tag("input", type="search", id="catalog-filter", placeholder="Filter", aria_label="Filter the catalog"),
        tag("span", id="catalog-message", role="status", class_="note"),
        class_="needs-script",
    )
    table = show_table(
        ("Name", "Kind", "State", "Description", "Owner", "Rows", "Last run"),
        rows,
        "Catalog",
        class_="catalog",
        id="catalog",
    )
    return page.render(tag("h1", "Catalog"), field, table)
