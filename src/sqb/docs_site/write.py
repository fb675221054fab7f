"""The folder of static files: pages, the graph's data, and the scripts and styles that come with sqb."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqb.cache.files import stamp_code
from sqb.docs_site.pages.environments import render_environments
from sqb.docs_site.pages.frame import Site, build_site
from sqb.docs_site.pages.node import render_node
from sqb.docs_site.pages.overview import render_catalog, render_graph
from sqb.docs_site.pages.plan import render_plan
from sqb.docs_site.pages.run import render_run
from sqb.docs_site.pages.runs import render_runs
from sqb.docs_site.pages.sources import render_sources
from sqb.docs_site.words import make_file_name
from sqb.errors.call import CallError

ASSETS = Path(__file__).parent / "assets"
# What a folder has that was written here, with the names of its files: others are neither overwritten nor removed.
MARK = ".sqb-docs"
_CLAIM = "Written by `sqb docs build`: the files below, which it writes again and removes."


def write_site(document: Mapping[str, Any], folder: Path) -> int:
    """Write all pages into a folder; those of an earlier time that are not there any more go. How many there are."""
    try:
        return _write_pages(build_site(document), folder)
    except OSError as error:
        at = error.filename or folder
        raise CallError(
            f"the pages cannot be written: {at}: {error.strerror}", hint="name another folder with --output"
        ) from error


def _write_pages(site: Site, folder: Path) -> int:
    _claim(folder)
    known = _read_keys(folder)
    keys: dict[str, str] = {}
    for path, text in iter_shared_files(site):
        _write(folder / path, text)
        keys[path] = ""
    for page in iter_single_pages(site):
        size = _find_size(folder / page.path)
        if known.get(page.path) != f"{page.key}:{size}":
            text = page.render()
            size = len(text)
            _write(folder / page.path, text)
        keys[page.path] = f"{page.key}:{size}"
    for path in known.keys() - keys.keys():
        (folder / path).unlink(missing_ok=True)
    _write_keys(folder, keys)
    return sum(path.endswith(".html") for path in keys)


@dataclass(frozen=True, slots=True)
class SinglePage:
    """The page of one node or run, and what it is made of, as a key: while that stays, so does the page."""

    path: str
    key: str
    render: Callable[[], bytes]


def iter_files(document: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Every file by its path in the folder."""
    site = build_site(document)
    yield from iter_shared_files(site)
    for page in iter_single_pages(site):
        yield page.path, page.render()


def iter_shared_files(site: Site) -> Iterator[tuple[str, bytes]]:
    """The files that are about the project as a whole, and those that come with sqb."""
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
    if site.document["environments"] is not None:
        pages["environments.html"] = render_environments(site)
    for path, text in pages.items():
        yield path, text.encode("utf-8", "replace")


def iter_single_pages(site: Site) -> Iterator[SinglePage]:
    """The pages of nodes and of runs."""
    document = site.document
    # What every page has, and which names and runs have a page that can be linked to.
    frame = (document["project"], document["sqb_version"], document["environments"] is None, list(site.files))
    common = _compute_key(stamp_code("docs_site"), frame)
    for name, file in site.files.items():
        node = site.nodes[name]
        downstream = site.downstream.get(name, ())
        around = [(n, site.nodes[n]["state"], site.nodes[n]["kind"]) for n in node["upstream"] if n in site.nodes]
        around += [(n, site.nodes[n]["state"], site.nodes[n]["kind"]) for n in downstream]
        linked = [entry["run"] for entry in (*node["runs"], *node["snapshots"]) if entry["run"] in site.run_places]
        key = _compute_key(common, (node, around, linked))
        yield SinglePage(f"nodes/{file}", key, partial(_encode_page, render_node, site, name))
    for run in site.runs:
        path = f"runs/{make_file_name(run['id'])}"
        around = [(other["id"], other["at"], other["status"]) for other in site.find_neighbours(run["id"]) if other]
        yield SinglePage(path, _compute_key(common, (run, around)), partial(_encode_page, render_run, site, run))


def _encode_page(render: Callable[[Site, Any], str], site: Site, about: Any) -> bytes:
    return render(site, about).encode("utf-8", "replace")


def _compute_key(stamp: str, value: object) -> str:
    return hashlib.sha256(f"{stamp}\0{json.dumps(value)}".encode()).hexdigest()[:24]


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
    """Refuse a folder with something else in it; what is hidden may be there, such as the `.git` of a branch."""
    is_used = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    if is_used and not (folder / MARK).exists():
        raise CallError(
            f"{folder} has files that `sqb docs build` did not write",
            hint="name an empty folder with --output, or one that an earlier `sqb docs build` wrote",
        )
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MARK).exists():
        _write_keys(folder, {})


def _write_keys(folder: Path, keys: Mapping[str, str]) -> None:
    """Note what was written, and what pages were made of, in the file that says whose folder this is."""
    lines = [_CLAIM, *(f"{path} {key}" for path, key in keys.items())]
    (folder / MARK).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_keys(folder: Path) -> dict[str, str]:
    lines = (folder / MARK).read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    pairs = (line.partition(" ") for line in lines)
    return {path: key for path, _, key in pairs if not path.startswith("/") and ".." not in path}


def _find_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _write(path: Path, content: bytes) -> None:
    """Write a file, unless it is the same: then a server need not send it again."""
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
