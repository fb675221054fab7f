"""What single pages say, and where they say nothing that is not so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqb.docs_site.pages.frame import build_site
from sqb.docs_site.pages.node import render_node
from sqb.docs_site.pages.run import render_run
from sqb.docs_site.write import iter_files, iter_shared_files
from sqb.operations.docs import DocsOptions, collect_document
from sqb.workspace import open_workspace
from support.docs_project import collect_example


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
