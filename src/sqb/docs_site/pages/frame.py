"""What all pages have: the head, the navigation, search, and the parts that several of them show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqb.docs_site.markup import EMPTY, Child, Markup, escape, join, tag
from sqb.docs_site.words import format_time, make_file_name, shorten

STATE_WORDS = {
    "current": "current",
    "stale": "stale",
    "failed": "failed",
    "blocked": "blocked",
    "new": "never built",
    "unknown": "unknown",
}
_ENDS = {"ok": "current", "failed": "failed"}
_RUN_STATES = {"ok": "current", "failed": "failed", "unfinished": "stale"}
# Headings of columns of numbers, which stand below each other.
_NUMBERS = frozenset(
    {"Rows", "Seconds", "Ran", "Failed", "Skipped", "Took", "Saved", "Nodes", "Rows read", "Change in rows", "Columns"}
)
_NAVIGATION = (
    ("index.html", "Graph"),
    ("catalog.html", "Catalog"),
    ("plan.html", "Plan"),
    ("runs.html", "Runs"),
    ("sources.html", "Sources"),
    ("environments.html", "Environments"),
)
# Nothing is loaded from elsewhere, and nothing that a project says can run.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, slots=True)
class Site:
    """The document with the addresses of its pages."""

    document: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    downstream: Mapping[str, Sequence[str]] = field(default_factory=dict)
    run_places: Mapping[str, int] = field(default_factory=dict)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, Any]]:
        nodes: Mapping[str, Mapping[str, Any]] = self.document["nodes"]
        return nodes

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        runs: Sequence[Mapping[str, Any]] = self.document["runs"]
        return runs

    def find_neighbours(self, run_id: str) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """The runs before and after one; the newest is the first of all."""
        place = self.run_places[run_id]
        earlier = self.runs[place + 1] if place + 1 < len(self.runs) else None
        return earlier, self.runs[place - 1] if place else None


def build_site(document: Mapping[str, Any]) -> Site:
    """The document with what pages ask for again and again."""
    downstream: dict[str, list[str]] = {}
    for name, node in document["nodes"].items():
        for above in node["upstream"]:
            downstream.setdefault(above, []).append(name)
    files = {name: make_file_name(name) for name in document["nodes"]}
    places = {run["id"]: place for place, run in enumerate(document["runs"])}
    return Site(document, files, downstream, places)


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its address in the folder: what it is called, and how far the top of the folder is."""

    site: Site
    title: str
    # The entry of the navigation that it belongs to.
    section: str
    # "" or "../".
    up: str = ""
    scripts: tuple[str, ...] = ()

    def link_node(self, name: str, text: str | None = None, **attributes: Any) -> Markup:
        """A link to the page of a node; its name alone where it has none."""
        shown = text if text is not None else name
        if name not in self.site.files:
            return tag("span", shown, class_="name")
        return tag("a", shown, href=f"{self.up}nodes/{self.site.files[name]}", class_="name", **attributes)

    def link_run(self, run_id: str, text: str | None = None) -> Markup:
        """A link to the page of a run."""
        if run_id not in self.site.run_places:
            return tag("span", text or run_id, class_="moment")
        return tag("a", text or run_id, href=f"{self.up}runs/{make_file_name(run_id)}", class_="moment")

    def render(self, *body: Child) -> str:
        """The whole page."""
        document = self.site.document
        project = document["project"]
        place = project["target"] + (f" · {project['environment']}" if project["environment"] else "")
        scripts = ("assets/theme.js", "assets/search.js", *self.scripts)
        head = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{escape(self.title)} · {escape(project['name'])}</title>"
            f'<link rel="icon" href="data:,"><link rel="stylesheet" href="{self.up}assets/style.css">'
            f'<script src="{self.up}assets/theme-first.js"></script></head>'
        )
        # The time is on the first page alone: the others stay as they are while nothing about them changes.
        when = f" at {format_time(document['generated_at'])} UTC" if self.section == "index.html" else ""
        footer = tag("footer", "Made by ", tag("code", "sqb docs build"), f"{when}, sqb {document['sqb_version']}.")
        content = tag("main", *body, id="content")
        tail = "".join(f'<script src="{self.up}{script}"></script>' for script in scripts)
        skip = tag("a", "Skip to the content", href="#content", class_="skip")
        return (
            f'{head}<body data-up="{self.up}" data-page="{escape(self.section)}">{skip}'
            f"{self._render_header(project['name'], place)}{content}{footer}{tail}</body></html>\n"
        )

    def _render_header(self, name: str, place: str) -> Markup:
        links = [
            tag("a", word, href=f"{self.up}{file}", aria_current="page" if file == self.section else None)
            for file, word in _NAVIGATION
            if file != "environments.html" or self.site.document["environments"] is not None
        ]
        search = tag(
            "div",
            tag(
                "input",
                type="search",
                id="search",
                placeholder="Search  ( / )",
                aria_label="Search models, columns and sources",
                autocomplete="off",
                role="combobox",
                aria_expanded="false",
                aria_controls="search-results",
            ),
            tag("ul", id="search-results", role="listbox", hidden=True),
            class_="search needs-script",
        )
        toggle = tag(
            "button",
            "◐",
            id="theme",
            type="button",
            class_="needs-script",
            aria_label="Switch between light and dark",
            title="Light or dark",
        )
        home = tag("a", tag("strong", name), tag("small", place), href=f"{self.up}index.html", class_="home")
        return tag("header", home, tag("nav", *links, aria_label="Pages"), search, toggle)


def say_nothing_is_there() -> list[Child]:
    """What pages say of a project without nodes."""
    return ["The project has nothing to build yet: models are .sql files in ", tag("code", "models/"), "."]


def show_state(state: str, reason: str = "") -> Markup:
    """A state as a coloured word."""
    return tag("span", STATE_WORDS.get(state, state), class_=f"state state-{state}", title=reason or None)


def show_end(status: str) -> Markup:
    """How a run of a node ended, as a coloured word."""
    return tag("span", status, class_=f"state state-{_ENDS.get(status, 'unknown')}")


def show_run_status(run: Mapping[str, Any]) -> Markup:
    """How a run ended, as a coloured word."""
    return tag("span", run["status"], class_=f"state state-{_RUN_STATES[run['status']]}")


def show_kind(node: Mapping[str, Any]) -> Markup:
    """The type and kind of a node as a small word."""
    words = node["kind"] if node["type"] in ("model", node["kind"]) else f"{node['type']} · {node['kind']}"
    return tag("span", words, class_="kind")


def show_table(
    headings: Sequence[str], rows: Sequence[Sequence[Child]], caption: str = "", **attributes: Any
) -> Markup:
    """A table that scrolls by itself where it is too wide."""
    if not rows:
        return EMPTY
    # A column that says nothing takes room from the others.
    shown = [
        i for i, heading in enumerate(headings) if not heading or any(row[i] not in ("", None, []) for row in rows)
    ]
    headings, rows = [headings[i] for i in shown], [[row[i] for i in shown] for row in rows]
    styles = ["number" if heading in _NUMBERS else None for heading in headings]
    head = tag(
        "thead", tag("tr", *(tag("th", h, scope="col", class_=s) for h, s in zip(headings, styles, strict=True)))
    )
    body = tag(
        "tbody",
        *(tag("tr", *(tag("td", cell, class_=s) for cell, s in zip(row, styles, strict=True))) for row in rows),
    )
    return tag(
        "div",
        tag("table", tag("caption", caption, class_="hidden") if caption else None, head, body, **attributes),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption or "Table",
    )


def show_facts(facts: Sequence[tuple[str, Child]]) -> Markup:
    """Terms with what they are; those without anything are left out."""
    shown = [(term, value) for term, value in facts if value not in (None, "", EMPTY, [], ())]
    return (
        tag("dl", *((tag("dt", term), tag("dd", value)) for term, value in shown), class_="facts") if shown else EMPTY
    )


def show_figures(figures: Sequence[tuple[str, Child, str]]) -> Markup:
    """Figures in large letters, each below its name and above a few words about it; those of None are left out."""
    shown = [
        tag("div", tag("dt", name), tag("dd", tag("strong", value), tag("small", words) if words else None))
        for name, value, words in figures
        if value is not None
    ]
    return tag("dl", *shown, class_="figures")


def section(title: str, *body: Child, id: str = "", note: str = "") -> Markup:
    """A part of a page with a heading; nothing where there is nothing in it."""
    content = join(body)
    if not content:
        return EMPTY
    heading = tag("h2", title, tag("small", note) if note else None)
    return tag("section", heading, content, id=id or None)


def link_names(page: Page, names: Sequence[str]) -> list[Child]:
    """Names as links, with commas between."""
    parts: list[Child] = []
    for index, name in enumerate(names):
        parts += [", "] if index else []
        parts.append(page.link_node(name, shorten(name), title=name))
    return parts
