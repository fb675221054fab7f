"""How fresh the sources are, against their policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqb.docs_site.markup import Child, Markup, tag
from sqb.docs_site.pages.frame import Page, Site, show_state, show_table
from sqb.docs_site.words import format_duration

_AGES = {"ok": "current", "warn": "stale", "error": "failed"}


def render_sources(site: Site) -> str:
    """The page of the sources."""
    page = Page(site, "Sources", "sources.html")
    names = [name for name, node in site.nodes.items() if node["type"] in ("source", "dbt")]
    if not names:
        return page.render(
            tag("h1", "Sources"), tag("p", "The project reads nothing that it does not build itself.", class_="lead")
        )
    freshness = {row["name"]: row for row in site.document["sources"]}
    rows = [_show_source(page, name, freshness.get(name)) for name in names]
    table = show_table(
        ("Source", "State", "Description", "Owner", "Filled by", "Data version", "Age", "Policy"), rows, "Sources"
    )
    return page.render(tag("h1", "Sources"), table)


def _show_source(page: Page, name: str, row: Mapping[str, Any] | None) -> list[Child]:
    node = page.site.nodes[name]
    seen = row or {}
    return [
        [
            page.link_node(name),
            tag("br"),
            tag("small", node["kind"]),
            tag("div", tag("small", tag("code", node["relation"]))) if node["relation"] not in ("", name) else None,
        ],
        [
            show_state(node["state"], node["reason"]),
            tag("p", node["reason"], class_="note") if node["state"] != "current" else None,
        ],
        node["description"],
        node["owner"],
        page.link_node(seen["loader"]) if seen.get("loader") else "",
        _show_version(seen),
        _show_age(seen),
        _show_policy(seen),
    ]


def _show_version(seen: Mapping[str, Any]) -> Child:
    recorded = seen.get("recorded")
    if not seen.get("data_version"):
        return tag("span", "not observed", class_="note")
    taken = tag("small", f" taken in {recorded['observed_at']}") if recorded else tag("small", " not taken in yet")
    return [tag("code", str(seen["data_version"])[:24]), taken]


def _show_age(seen: Mapping[str, Any]) -> Child:
    age = seen.get("age_seconds")
    if age is None:
        return ""
    status = seen.get("age_status")
    return [format_duration(age), " ", tag("span", status, class_=f"state state-{_AGES[status]}") if status else ""]


def _show_policy(seen: Mapping[str, Any]) -> Markup | str:
    warn, error = seen.get("warn_after_seconds"), seen.get("error_after_seconds")
    parts = [
        f"warn after {format_duration(warn)}" if warn else "",
        f"error after {format_duration(error)}" if error else "",
    ]
    return ", ".join(part for part in parts if part)
