"""Virtual environments: what each is, how two differ, and what was promoted when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqb.docs_site.markup import Child, Markup, tag
from sqb.docs_site.pages.frame import Page, Site, link_names, section, show_table
from sqb.docs_site.words import format_count, format_time, pluralize

_CHANGES = {"added": "new", "removed": "blocked", "changed": "stale", "data": "current"}


def render_environments(site: Site) -> str:
    """The page of the environments."""
    page = Page(site, "Environments", "environments.html")
    data = site.document["environments"]
    environments: list[list[Child]] = [
        [
            tag("strong", e["name"]),
            tag("span", e["status"], class_=f"state state-{'current' if e['status'] == 'finalized' else 'stale'}"),
            e["baseline"] or "",
            format_count(len(e["shows"])),
            f"#{e['checkpoint']}" if e["checkpoint"] is not None else "",
            tag("span", format_time(e["updated_at"]), class_="moment"),
            page.link_run(e["run"]) if e["run"] else "",
        ]
        for e in data["environments"]
    ]
    checkpoints: list[list[Child]] = [
        [
            f"{c['environment']} #{c['number']}",
            [
                tag("span", format_time(c["at"]), class_="moment"),
                " ",
                tag("span", "current", class_="state state-current") if c["current"] else "",
            ],
            f"promoted from {c['promoted_from']}" if c["promoted_from"] else c["reason"],
            c["detail"],
            format_count(c["nodes"]),
            tag("code", c["git"][:10]) if c["git"] else "",
            page.link_run(c["run"]) if c["run"] else "",
        ]
        for c in data["checkpoints"]
    ]
    return page.render(
        tag("h1", "Environments"),
        show_table(
            ("Environment", "Status", "Baseline", "Nodes", "Checkpoint", "Updated", "Run"), environments, "Environments"
        ),
        section("What differs", *(_show_difference(page, d) for d in data["differences"])),
        section(
            "Promotions and checkpoints",
            show_table(("Checkpoint", "When", "Why", "Detail", "Nodes", "Git", "Run"), checkpoints, "Checkpoints"),
        ),
    )


def _show_difference(page: Page, difference: Mapping[str, Any]) -> Markup:
    nodes = difference["nodes"]
    title = f"{difference['from']} against {difference['to']}: {pluralize(len(nodes), 'node differs', 'nodes differ')}"
    rows: list[list[Child]] = [
        [
            page.link_node(n["name"]),
            tag("span", n["change"], class_=f"state state-{_CHANGES.get(n['change'], 'unknown')}"),
            n["reason"] or "",
            link_names(page, n["through"]),
            [tag("code", n["before"] or "–"), " → ", tag("code", n["now"] or "–")],
            ", ".join(_name_column_change(c) for c in n["columns"]),
        ]
        for n in nodes
    ]
    table = show_table(
        ("Node", "Change", "Why", "Through", f"{difference['to']} → {difference['from']}", "Columns"), rows, title
    )
    return tag(
        "details",
        tag("summary", title),
        table if rows else tag("p", "Both show the same.", class_="note"),
        open=bool(rows) and difference.get("is_baseline", True),
    )


def _name_column_change(change: Mapping[str, Any]) -> str:
    return " ".join(str(change[key]) for key in ("change", "name", "column") if change.get(key))
