"""The page of a model, seed, source, Python node or exposure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from sqb.docs_site.charts import Mark, caption, draw_bars, draw_line, draw_strip
from sqb.docs_site.markup import EMPTY, Child, Markup, tag
from sqb.docs_site.pages.frame import (
    Page,
    Site,
    link_names,
    section,
    show_end,
    show_facts,
    show_kind,
    show_state,
    show_table,
)
from sqb.docs_site.pages.sql import show_python, show_sql
from sqb.docs_site.words import format_count, format_duration, format_time, make_file_name, pluralize, shorten

Node = Mapping[str, Any]
_IDS = {"Code": "code", "Rows": "sample"}
# Neighbours of a node that are shown at once; the others are behind a click.
_NEIGHBOURS = 8
_RUN_STYLES = {"ok": "good", "failed": "bad", "skipped": "quiet"}


def render_node(site: Site, name: str) -> str:
    """The page of one node."""
    node = site.nodes[name]
    page = Page(site, name, "catalog.html", "../")
    parts = [
        ("Columns", _show_columns(page, node)),
        ("SQL" if node.get("sql") else "Code", _show_texts(page, node)),
        ("Checks", _show_checks(page, node)),
        ("Refresh", _show_refresh(page, node)),
        ("Runs", _show_runs(page, node)),
        ("Snapshots", _show_snapshots(page, node)),
        ("Environments", _show_environments(node)),
        ("Rows", _show_sample(node)),
    ]
    shown = [(word, part) for word, part in parts if part]
    return page.render(_show_head(page, node), _show_parts(shown), *(part for _, part in shown))


def _show_parts(parts: Sequence[tuple[str, Markup]]) -> Markup:
    """The way to the parts of the page."""
    links = [tag("a", word, href=f"#{_IDS.get(word, word.lower())}") for word, _ in parts]
    return tag("nav", *links, class_="parts", aria_label="Parts of the page") if len(links) > 1 else EMPTY


def _show_head(page: Page, node: Node) -> Markup:
    name = node["name"]
    folder, _, short = name.rpartition(".")
    title = tag("h1", tag("span", f"{folder}.", class_="folder") if folder else None, short or name)
    chips = tag(
        "p",
        show_state(node["state"]),
        show_kind(node),
        *(tag("span", t, class_="tag") for t in node["tags"]),
        class_="chips",
    )
    reason = (
        tag("p", node["reason"], class_=f"reason reason-{node['state']}")
        if node["reason"] and node["state"] != "current"
        else None
    )
    graph = tag("a", "Show in the graph", href=f"{page.up}index.html#node={quote(name, safe='')}", class_="button")
    description = tag("p", node["description"], class_="lead") if node["description"] else None
    facts = show_facts(
        [
            ("Relation", tag("code", node["relation"]) if node["relation"] else None),
            ("Table", tag("code", node["table"]) if node.get("table") else None),
            ("File", tag("code", node["file"]) if node["file"] else None),
            ("Owner", node["owner"]),
            ("Group", node["group"]),
            ("Address", _link_address(node.get("url", ""))),
            ("Rows", format_count(node["rows"]) if node["rows"] is not None else None),
            ("Last run", _show_last_run(page, node["runs"])),
            ("Version", tag("code", node["version"]) if node.get("version") else None),
            ("Functions", ", ".join(node.get("functions", ()))),
            ("Freshness", _show_freshness(node.get("freshness"))),
        ]
    )
    about = tag("div", title, chips, reason, description, facts, _show_settings(node))
    return tag("article", about, _show_neighbours(page, node, graph), class_="head with-neighbours")


def _show_last_run(page: Page, runs: Sequence[Mapping[str, Any]]) -> Child:
    if not runs:
        return None
    last = runs[0]
    place = f" in {last['environment']}" if last["environment"] else ""
    words = [
        f"{last['run_type'] or ''}{place}".strip(),
        f"took {format_duration(last['seconds'])}" if last["seconds"] else "",
    ]
    about = ", ".join(word for word in words if word)
    return [page.link_run(last["run"], format_time(last["at"])), " ", show_end(last["status"]), f" {about}"]


def _show_neighbours(page: Page, node: Node, graph: Markup) -> Markup:
    """What the node reads, and what reads it, with the state of each."""
    reads, readers = list(dict.fromkeys(node["upstream"])), page.site.downstream.get(node["name"], ())
    lists = [_list_neighbours(page, word, names) for word, names in (("Reads", reads), ("Read by", readers)) if names]
    return tag("aside", *lists, tag("p", graph, class_="needs-script"), class_="neighbours", aria_label="Neighbours")


def _list_neighbours(page: Page, word: str, names: Sequence[str]) -> Markup:
    items = [
        tag(
            "li",
            tag("i", class_=f"dot-of dot-{page.site.nodes.get(name, {}).get('state', 'unknown')}", aria_hidden="true"),
            page.link_node(name, shorten(name), title=name),
            " ",
            tag("small", page.site.nodes[name]["kind"]) if name in page.site.nodes else None,
        )
        for name in names
    ]
    rest = items[_NEIGHBOURS:]
    return tag(
        "div",
        tag("h2", word, tag("small", str(len(names)))),
        tag("ul", *items[:_NEIGHBOURS]),
        tag("details", tag("summary", f"{len(rest)} more"), tag("ul", *rest)) if rest else None,
    )


def _link_address(url: str) -> Markup | str:
    """An address of the project's as a link, where it is one of the web."""
    return tag("a", url, href=url, rel="noreferrer") if url.startswith(("https://", "http://")) else url


def _show_freshness(freshness: Mapping[str, Any] | None) -> str:
    if not freshness:
        return ""
    age = freshness.get("age_seconds")
    parts = [
        str(freshness["status"]),
        f"{format_duration(age)} old" if age is not None else "",
        freshness.get("error") or "",
    ]
    return ", ".join(part for part in parts if part)


def _show_settings(node: Node) -> Markup:
    settings = node.get("settings") or {}
    if not settings:
        return EMPTY
    facts = show_facts([(key, tag("code", value)) for key, value in settings.items()])
    return tag("details", tag("summary", "Settings"), facts)


def _show_columns(page: Page, node: Node) -> Markup:
    rows: list[list[Child]] = [
        [
            tag("span", column["name"], class_="column", id=f"column-{column['name']}"),
            tag("code", column["contract"] or column["type"] or "?"),
            column["description"],
            [tag("span", test, class_="test") for test in column["tests"]],
            [_link_origin(page, ref) for ref in column["from"]],
            tag(
                "a",
                "lineage",
                href=f"{page.up}index.html#column={quote(node['name'], safe='')}::{quote(column['name'], safe='')}",
                class_="needs-script",
                aria_label=f"Lineage of {column['name']} in the graph",
            ),
        ]
        for column in node["columns"]
    ]
    note = tag("p", node["columns_note"], class_="note") if node["columns_note"] else None
    table = show_table(("Column", "Type", "Description", "Tests", "Comes from", ""), rows, "Columns", class_="columns")
    chosen = sorted({shorten(name) + "." + column for name, column in node["rows_from"]})
    rows_from = (
        tag("p", "Rows are chosen, joined and grouped by ", ", ".join(chosen), ".", class_="note") if chosen else None
    )
    return section("Columns", table, note, rows_from, id="columns", note=str(len(rows)) if rows else "")


def _link_origin(page: Page, ref: Sequence[str]) -> Markup:
    name, column = ref
    shown = f"{shorten(name)}.{column}"
    if name not in page.site.files:
        return tag("span", shown, class_="origin")
    return tag(
        "a",
        shown,
        href=f"{page.up}nodes/{page.site.files[name]}#column-{quote(column, safe='')}",
        class_="origin",
        title=name,
    )


def _show_texts(page: Page, node: Node) -> Markup:
    if node.get("code"):
        return section("Code", show_python(node["code"], "Python code"), id="code")
    if not node.get("sql"):
        return EMPTY
    is_python = node["file"].endswith(".py")
    written = (
        show_python(node["sql"]["text"], "Python code") if is_python else show_sql(page, node["sql"], "SQL as written")
    )
    run = node.get("sql_run")
    if not run:
        return section("Code" if is_python else "SQL", written, id="sql")
    return section(
        "SQL",
        tag("details", tag("summary", "As written"), written, open=True),
        tag("details", tag("summary", "As run, with references resolved"), show_sql(page, run, "SQL as run")),
        id="sql",
    )


def _show_checks(page: Page, node: Node) -> Markup:
    rows: list[list[Child]] = [
        [
            tag("code", check["text"]),
            check["role"],
            _show_result(page, check["last"]),
            draw_strip(f"Results of {check['text']}, by run", [_mark_result(r) for r in check["results"]]),
            f"{check['file']}:{check['line']}" if check["file"] else "",
        ]
        for check in node["checks"]
    ]
    figures = [
        tag("figure", caption(name, marks[-1].text.partition(": ")[2]), draw_line(f"{name} over time", marks))
        for name, points in node.get("figures", {}).items()
        if (
            marks := [
                _mark_figure(at, value)
                for at, value in points
                if isinstance(value, int | float | str) and _to_number(value) is not None
            ]
        )
    ]
    table = show_table(("Check", "Role", "Last result", "Results by run", "Where"), rows, "Checks")
    return section(
        "Checks",
        table,
        tag("div", *figures, class_="charts") if figures else None,
        id="checks",
        note=str(len(rows)) if rows else "",
    )


def _show_result(page: Page, last: Mapping[str, Any] | None) -> Child:
    if last is None:
        return tag("span", "not run yet", class_="note")
    style = {"passed": "current", "warned": "stale", "failed": "failed"}[last["status"]]
    word = tag("span", last["status"], class_=f"state state-{style}")
    return [word, " ", last["message"], " ", page.link_run(last["run"], format_time(last["at"]))]


def _mark_result(result: Mapping[str, Any]) -> Mark:
    style = {"passed": "good", "warned": "warn", "failed": "bad"}[result["status"]]
    violations = pluralize(result["violations"], "violation") if result["violations"] else ""
    words = " ".join(word for word in (result["status"], violations, result["message"]) if word)
    return Mark(float(result["violations"] or 0), f"{format_time(result['at'])}: {words}", style)


def _to_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) != float("inf") and number == number else None


def _mark_figure(at: float, value: Any) -> Mark:
    number = _to_number(value) or 0.0
    # Sums of floating point numbers have digits that say nothing.
    return Mark(number, f"{format_time(at)}: {number:,.12g}")


def _show_refresh(page: Page, node: Node) -> Markup:
    refresh = node.get("refresh")
    if not refresh:
        return EMPTY
    facts = show_facts(
        [
            ("Class", tag("code", refresh["class"])),
            ("Keys", ", ".join(refresh["keys"])),
            ("Because", [refresh["why"], f" ({refresh['at']})" if refresh["at"] else ""] if refresh["why"] else None),
            ("Now", refresh["verdict"]),
            ("Setting", tag("code", f"refresh: {refresh['refresh']}")),
            ("Rows to read", ", ".join(f"{way} {format_count(rows)}" for way, rows in refresh["costs"].items())),
        ]
    )
    return section("How it is refreshed", facts, _show_operators(page, refresh["operators"]), id="refresh")


def _show_operators(page: Page, operators: Sequence[Mapping[str, Any]]) -> Markup:
    """The operators of the query from the root down, each with its rule or what is in the way."""
    if not operators:
        return EMPTY
    rows: list[list[Child]] = [
        [
            tag(
                "span",
                page.link_node(line["operator"]) if line["operator"] in page.site.files else line["operator"],
                class_="operator",
                style=f"padding-left:{line['depth'] * 1.25}rem",
            ),
            tag("code", line["rule"]) if line["rule"] else tag("span", "read again", class_="note"),
            line.get("why", ""),
            link_names(page, line["changed"]),
            format_count(line["rows_read"]),
        ]
        for line in operators
    ]
    return show_table(
        ("Operator", "Rule", "What is in the way", "Changed inputs", "Rows read"), rows, "Operators", class_="operators"
    )


def _show_runs(page: Page, node: Node) -> Markup:
    runs = node["runs"]
    if not runs:
        return EMPTY
    oldest = list(reversed(runs))

    def link(run: Mapping[str, Any]) -> str:
        return f"{page.up}runs/{make_file_name(run['run'])}"

    seconds = [
        Mark(
            r["seconds"] or 0.0,
            f"{format_time(r['at'])}: {format_duration(r['seconds'])}, {r['run_type']}",
            _RUN_STYLES.get(r["status"], ""),
            link(r),
        )
        for r in oldest
    ]
    rows = [
        Mark(
            float(r["rows"] or 0),
            f"{format_time(r['at'])}: {format_count(r['rows'])} rows",
            _RUN_STYLES.get(r["status"], ""),
            link(r),
        )
        for r in oldest
    ]
    charts = tag(
        "div",
        tag("figure", caption("Seconds", format_duration(runs[0]["seconds"])), draw_bars("Seconds by run", seconds)),
        tag("figure", caption("Rows", format_count(runs[0]["rows"])), draw_bars("Rows by run", rows))
        if any(mark.value for mark in rows)
        else None,
        class_="charts",
    )
    table = show_table(
        ("Run", "Status", "Environment", "Run type", "Why", "Rows", "Seconds"),
        [
            [
                page.link_run(run["run"], format_time(run["at"])),
                show_end(run["status"]),
                run["environment"] or "",
                run["run_type"],
                [run["reason"] or "", tag("pre", run["error"], class_="error") if run["error"] else None],
                format_count(run["rows"]),
                [
                    format_duration(run["seconds"]),
                    f" (expected {format_duration(run['expected_seconds'])})" if run["expected_seconds"] else "",
                ],
            ]
            for run in runs
        ],
        "Last runs",
    )
    return section("Last runs", charts, table, id="runs", note=str(len(runs)))


def _show_snapshots(page: Page, node: Node) -> Markup:
    rows: list[list[Child]] = [
        [
            format_time(s["at"]),
            tag("code", s["id"]),
            s["operation"],
            format_count(s["rows"]),
            f"+{format_count(s['added'])} −{format_count(s['removed'])}" if s["added"] is not None else "",
            page.link_run(s["run"]) if s["run"] else "",
        ]
        for s in node["snapshots"]
    ]
    table = show_table(("Committed", "Snapshot", "Operation", "Rows", "Change", "Run"), rows, "Snapshots")
    return section(
        "Snapshots",
        tag("details", tag("summary", pluralize(len(rows), "snapshot")), table, open=len(rows) <= 5) if rows else None,
        id="snapshots",
    )


def _show_environments(node: Node) -> Markup:
    current = node.get("version")
    rows: list[list[Child]] = [
        [
            e["environment"],
            [tag("code", e["version"]), " this version" if e["version"] == current else ""],
            tag("code", e["relation"] or ""),
            tag("code", e["snapshot"] or ""),
        ]
        for e in node["environments"]
    ]
    return section(
        "Environments",
        show_table(("Environment", "Version", "Table", "Snapshot"), rows, "Environments"),
        id="environments",
    )


def _show_sample(node: Node) -> Markup:
    sample = node.get("sample")
    if not sample:
        return EMPTY
    rows = [
        # An empty text is an element too: a column of nothing else is a column.
        [tag("span", cell) if cell is not None else tag("span", "NULL", class_="note") for cell in row]
        for row in sample["rows"]
    ]
    return section(
        "Rows", show_table(sample["columns"], rows, "A few rows"), id="sample", note=f"the first {len(rows)}"
    )
