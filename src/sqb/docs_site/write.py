"""The folder of static files: pages, the graph's data, and the scripts and styles that come with sqb."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqb.docs_site.pages.environments import render_environments
from sqb.docs_site.pages.frame import Site, build_site
from sqb.docs_site.pages.node import render_node
from sqb.docs_site.pages.overview import render_catalog, render_graph
from sqb.docs_site.pages.plan import render_plan
from sqb.docs_site.pages.runs import render_run, render_runs
from sqb.docs_site.pages.sources import render_sources
from sqb.docs_site.words import make_file_name
from sqb.errors.call import CallError

ASSETS = Path(__file__).parent / "assets"
# What a folder has that was written here: others are not overwritten.
MARK = ".sqb-docs"


def write_site(document: Mapping[str, Any], folder: Path) -> int:
    """Write all pages into a folder; those of an earlier time that are not there any more go. How many there are."""
    _claim(folder)
    files = dict(iter_files(document))
    for path, text in files.items():
        _write(folder / path, text)
    _remove_others(folder, set(files))
    return sum(path.endswith(".html") for path in files)


def iter_files(document: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Every file by its path in the folder."""
    site = build_site(document)
    for asset in sorted(ASSETS.rglob("*")):
        if asset.is_file():
            yield f"assets/{asset.relative_to(ASSETS).as_posix()}", asset.read_bytes()
    yield "data/graph.js", _encode_script("SQB_GRAPH", _describe_graph(site))
    yield "data/columns.js", _encode_script("SQB_COLUMNS", _describe_columns(site))
    pages = {
        "index.html": render_graph(site),
        "catalog.html": render_catalog(site),
        "plan.html": render_plan(site),
        "runs.html": render_runs(site),
        "sources.html": render_sources(site),
    }
    if document["environments"] is not None:
        pages["environments.html"] = render_environments(site)
    for path, text in pages.items():
        yield path, text.encode()
    for name, file in site.files.items():
        yield f"nodes/{file}", render_node(site, name).encode("utf-8", "replace")
    for run in site.runs:
        yield f"runs/{make_file_name(run['id'])}", render_run(site, run).encode("utf-8", "replace")


def _describe_graph(site: Site) -> dict[str, Any]:
    """What the graph, its selectors and the search need of every node."""
    nodes = [
        {
            "name": name,
            "type": node["type"],
            "kind": node["kind"],
            "state": node["state"],
            "reason": node["reason"],
            "file": node["file"],
            "tags": node["tags"],
            "owner": node["owner"],
            "group": node["group"],
            "description": node["description"],
            "rows": node["rows"],
            "upstream": node["upstream"],
            "columns": [column["name"] for column in node["columns"]],
            "config": node.get("config", {}),
            "page": f"nodes/{site.files[name]}",
        }
        for name, node in site.nodes.items()
    ]
    return {"nodes": nodes, "facts": site.document["selections"]}


def _describe_columns(site: Site) -> dict[str, Any]:
    """What each column is made of, and the columns that choose rows; loaded when a column is asked for."""
    return {
        name: {"columns": {c["name"]: c["from"] for c in node["columns"]}, "rows": node["rows_from"]}
        for name, node in site.nodes.items()
        if node["columns"]
    }


def _encode_script(name: str, value: object) -> bytes:
    """A value as a script that a page can load from disk, where pages may not read files."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return f"window.{name}={text};\n".encode("ascii")


def _claim(folder: Path) -> None:
    """Refuse a folder with something else in it."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise CallError(
            f"{folder} has files that `sqb docs build` did not write",
            hint="name an empty folder with --output, or one that an earlier `sqb docs build` wrote",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("Written by `sqb docs build`, which removes what it did not write.\n", encoding="utf-8")


def _write(path: Path, content: bytes) -> None:
    """Write a file, unless it is the same: then a server need not send it again."""
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _remove_others(folder: Path, files: set[str]) -> None:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in files and name != MARK:
            path.unlink()
