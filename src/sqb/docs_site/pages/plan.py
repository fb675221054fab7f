"""What a build would do now: who runs and why, with what changed side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqb.docs_site.markup import EMPTY, Child, Markup, tag
from sqb.docs_site.pages.frame import (
    Page,
    Site,
    link_names,
    say_nothing_is_there,
    section,
    show_facts,
    show_kind,
    show_state,
    show_table,
)
from sqb.docs_site.pages.sql import show_diff
from sqb.docs_site.words import format_count, pluralize


def render_plan(site: Site) -> str:
    """The page of the plan."""
    page = Page(site, "Plan", "plan.html")
    plan = site.document["plan"]
    running = [n for n in plan["nodes"] if n["action"] == "run" and not n["pending"]]
    pending = [n for n in plan["nodes"] if n["action"] == "run" and n["pending"]]
    blocked = [n for n in plan["nodes"] if n["action"] == "blocked"]
    skipped = [n for n in plan["nodes"] if n["action"] == "skip"]
    words = _summarize(*map(len, (running, pending, skipped, blocked)))
    return page.render(
        tag("h1", "Plan"),
        tag("p", words if plan["nodes"] else say_nothing_is_there(), class_="lead"),
        _show_errors(plan["errors"]),
        _show_warnings(plan["warnings"]),
        section("Runs", *_show_running(page, running, plan["diffs"]), note=str(len(running))),
        section("Runs if its inputs change", *_show_running(page, pending, plan["diffs"]), note=str(len(pending))),
        section("Blocked", *(_show_planned(page, n, "") for n in blocked), note=str(len(blocked))),
        _show_concerned(page, plan["concerned"]),
        section(
            "Skipped",
            tag("details", tag("summary", pluralize(len(skipped), "node")), _show_skipped(page, skipped))
            if skipped
            else None,
            note=str(len(skipped)),
        ),
    )


def _summarize(running: int, pending: int, skipped: int, blocked: int) -> str:
    """What a build would do, in a sentence."""
    if not running and not pending and not blocked:
        return f"A build now would have nothing to do: {pluralize(skipped, 'node is', 'nodes are')} up to date."
    more = f", {format_count(pending)} more if {'its' if pending == 1 else 'their'} inputs change," if pending else ""
    left = f"; {pluralize(blocked, 'node is', 'nodes are')} blocked" if blocked else ""
    return f"A build now would run {pluralize(running, 'node')}{more} and skip {format_count(skipped)}{left}."


def _show_running(page: Page, running: Sequence[Mapping[str, Any]], diffs: Mapping[str, str]) -> list[Child]:
    """Those with more than a reason one after the other in the order of the build; then the others in a table."""
    parts: list[Child] = []
    plain: list[list[Child]] = []
    for node in running:
        if node["name"] in diffs or _show_changes(node["changes"]) or node["notices"]:
            parts.append(_show_planned(page, node, diffs.get(node["name"], "")))
        else:
            plain.append(_show_line(page, node))
    headings = ("Node", "State", "Kind", "Run type", "Why", "Started by", "Refresh")
    return [*parts, show_table(headings, plain, "Nodes that run")]


def _show_line(page: Page, node: Mapping[str, Any]) -> list[Child]:
    known = page.site.nodes.get(node["name"], {})
    return [
        page.link_node(node["name"]),
        show_state(known.get("state", "unknown")),
        show_kind({"type": node["type"], "kind": node["kind"]}),
        node["run_type"],
        [node["reason"], f": {node['detail']}" if node["detail"] else ""],
        _show_roots(page, node),
        _show_incremental(node["incremental"]),
    ]


def _show_errors(errors: Sequence[Mapping[str, Any]]) -> Markup:
    """Mistakes that a build would refuse to begin with."""
    items = [
        tag(
            "li",
            tag("code", e["code"]),
            " ",
            f"{e['at']}: " if e["at"] else "",
            e["message"],
            tag("p", e["hint"], class_="note") if e["hint"] else None,
        )
        for e in errors
    ]
    return section("Mistakes that keep a build from running", tag("ul", *items, class_="errors")) if items else EMPTY


def _show_warnings(warnings: Sequence[str]) -> Markup:
    return section("Notices", tag("ul", *(tag("li", w) for w in warnings))) if warnings else EMPTY


def _show_planned(page: Page, node: Mapping[str, Any], diff: str) -> Markup:
    known = page.site.nodes.get(node["name"], {})
    facts = show_facts(
        [
            ("Why", [node["reason"], f": {node['detail']}" if node["detail"] else ""]),
            ("Started by", _show_roots(page, node)),
            ("Changed rows", _show_changes(node["changes"])),
            ("Refresh", _show_incremental(node["incremental"])),
            ("Notices", "; ".join(node["notices"])),
        ]
    )
    head = tag(
        "h3",
        page.link_node(node["name"]),
        " ",
        show_state(known.get("state", "unknown")),
        show_kind({"type": node["type"], "kind": node["kind"]}),
        tag("span", node["run_type"], class_="kind"),
    )
    return tag("article", head, facts, show_diff(diff) if diff else None, class_="planned")


def _show_roots(page: Page, node: Mapping[str, Any]) -> list[Child] | None:
    """What started the cascade that a node is part of."""
    parts: list[Child] = []
    for index, cause in enumerate(node["root"]):
        parts += [", "] if index else []
        parts += [page.link_node(cause["name"]), f" ({cause['reason']})"]
    return parts or None


def _show_changes(changes: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for change in changes:
        if change["rows_added"] is None:
            continue
        about = "at most " if change["estimated"] else ""
        parts.append(
            f"{change['source']}: {about}+{format_count(change['rows_added'])} −{format_count(change['rows_removed'])}"
        )
    return "; ".join(parts)


def _show_incremental(incremental: Mapping[str, Any] | None) -> str:
    if not incremental:
        return ""
    words = [str(incremental[key]) for key in ("class", "why", "verdict") if incremental.get(key)]
    return ": ".join(words[:1]) + (", " + ", ".join(words[1:]) if len(words) > 1 else "")


def _show_concerned(page: Page, concerned: Mapping[str, Any] | None) -> Markup:
    if not concerned:
        return EMPTY
    rows: list[list[Child]] = [
        [page.link_node(e["name"]), e["type"], e["owner"] or "", link_names(page, e["reads"])]
        for e in concerned["exposures"]
    ]
    owners: list[list[Child]] = [
        [owner, word, "", link_names(page, names)]
        for word in ("owners", "groups")
        for owner, names in concerned[word].items()
    ]
    return section(
        "Who is concerned", show_table(("Who", "What", "Owner", "Through"), [*rows, *owners], "Who is concerned")
    )


def _show_skipped(page: Page, nodes: Sequence[Mapping[str, Any]]) -> Markup:
    return show_table(
        ("Node", "Why"), [[page.link_node(n["name"]), n["detail"] or n["reason"]] for n in nodes], "Skipped nodes"
    )
