"""What single pages say, and where they say nothing that is not so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqb.docs_site.pages.frame import build_site
from sqb.docs_site.pages.node import render_node
from sqb.docs_site.pages.run import render_run
from sqb.docs_site.write import ASSETS, iter_files, iter_shared_files
from sqb.lake.open import open_lake
from sqb.operations.docs import DocsOptions, collect_document
from sqb.workspace import open_workspace
from support.docs_project import collect_example, write_docs_project

STYLES = (ASSETS / "style.css").read_text(encoding="utf-8")
PAGE = Path(__file__).parents[3] / "docs/docs-site.md"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return collect_example(tmp_path_factory.mktemp("pages") / "shop")


def test_a_project_without_models_has_pages(tmp_path: Path) -> None:
    (tmp_path / "sqlbuild_project.toml").write_text(
        'name = "empty"\ndefault_target = "dev"\n[targets.dev]\nschema = "{folder}"\n'
    )
    document = collect_document(open_workspace(tmp_path), DocsOptions())
    pages = {path: text.decode() for path, text in iter_files(document) if path.endswith(".html")}
    assert set(pages) == {"index.html", "catalog.html", "plan.html", "runs.html", "sources.html"}
    for path in ("index.html", "plan.html"):
        assert "The project has nothing to build yet: models are .sql files in <code>models/</code>." in pages[path]


def test_rows_are_there_only_when_they_are_asked_for(tmp_path: Path) -> None:
    workspace = open_workspace(write_docs_project(tmp_path / "shop"))
    lake = open_lake(workspace)
    lake.ensure_schemas(["seeds"])
    rows = pa.table({"id": [1, 2], "note": ["x" * 300, None], "bytes": [b"\xff", b""]})
    lake.open_for_writing().catalog.create_table(("seeds", "orders"), rows.schema).append(rows)
    assert "sample" not in collect_document(workspace, DocsOptions())["nodes"]["seeds.orders"]
    sample = collect_document(workspace, DocsOptions(sample=1))["nodes"]["seeds.orders"]["sample"]
    assert sample == {"columns": ["id", "note", "bytes"], "rows": [["1", "x" * 199 + "…", "0xff"]]}
    sample = collect_document(workspace, DocsOptions(sample=5))["nodes"]["seeds.orders"]["sample"]
    assert sample["rows"][1] == ["2", None, "0x"]


def test_a_preview_shows_every_column_and_every_value_as_text(document: dict[str, Any]) -> None:
    sample = {"columns": ["id", "note", "nothing"], "rows": [["1", "", None], ["<b>", "", None]]}
    node = {**document["nodes"]["staging.stg_orders"], "sample": sample}
    site = build_site({**document, "nodes": {**document["nodes"], "staging.stg_orders": node}})
    page = render_node(site, "staging.stg_orders").partition('id="sample"')[2]
    assert all(f'scope="col">{name}</th>' in page for name in sample["columns"])
    assert "&lt;b&gt;" in page and page.count("NULL") == 2


def test_the_words_about_a_critical_path_fit_how_many_ran(document: dict[str, Any]) -> None:
    site = build_site(document)
    alone, several = (next(r for r in document["runs"] if r["id"].endswith(end)) for end in ("bbbbbb", "aaaaaa"))
    assert "This decided how long the run took.</p>" in render_run(site, alone)
    assert "These decided how long the run took; the other ran beside them.</p>" in render_run(site, several)


def test_a_run_without_times_has_the_seconds_of_its_nodes(document: dict[str, Any]) -> None:
    runs = [{**document["runs"][0], "seconds": None, "work_seconds": 3.0}]
    page = dict(iter_shared_files(build_site({**document, "runs": runs})))["runs.html"].decode()
    trend = page.partition("Seconds by run")[0].rpartition("<figcaption>")[2]
    assert ">3.0 s<" in trend


def measure_light(colour: str) -> float:
    """The relative luminance of a colour (WCAG 2)."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", range(3), ids=["light", "dark by the system", "dark by choice"])
def test_words_differ_enough_from_what_is_behind_them(theme: int) -> None:
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", re.findall(r"{([^{}]*--page[^{}]*)}", STYLES)[theme]))
    pairs = [
        (state, f"{state}-soft") for state in ("current", "stale", "failed", "blocked", "new", "unknown", "accent")
    ]
    pairs += [(word, behind) for word in ("text", "quiet", "accent") for behind in ("page", "card")]
    pairs += [(word, "code") for word in ("text", "word", "string", "number", "comment", "accent")]
    for word, behind in pairs:
        one, other = sorted((measure_light(colours[word]), measure_light(colours[behind])))
        assert (other + 0.05) / (one + 0.05) >= 4.5, f"{word} on {behind}"


def test_every_key_of_the_document_is_described(document: dict[str, Any]) -> None:
    described = set(re.findall(r"`([a-z_]+)`", PAGE.read_text(encoding="utf-8").partition("## The document")[2]))
    nodes, runs = document["nodes"].values(), document["runs"]
    parts = [document, document["project"], document["plan"], *nodes, *runs]
    parts += [part for node in nodes for key in ("columns", "checks", "runs") for part in node[key]]
    parts += [node for run in runs for node in run["nodes"]]
    assert {key for part in parts for key in part} - described == set()
