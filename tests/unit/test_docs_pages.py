"""The documentation as a site: it is built without a warning, has every page, and asks nothing of other servers."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import build_docs
import pytest

from support.required import missing

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-docs" / "bin" / "python"
SECTIONS = ["Start", "Tutorials", "How-to", "Concepts", "Reference", "Operations", "Comparisons", "Architecture"]
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LIST_IN_PARAGRAPH = re.compile(r"^(?![-|#>\s]|\d+\. )\S.*\n(?:- |1\. )", re.MULTILINE)


class Page(HTMLParser):
    """What a page loads, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.classes: set[str] = set()
        self.styles = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.classes |= set(values.get("class", "").split())
        self.styles += values.get("style", "")
        if tag != "a":
            self.loads |= {values[name] for name in ("src", "href", "srcset", "data", "poster") if name in values}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PYTHON.exists():
        missing("MkDocs is not installed: scripts/docs_env.py makes .venv-docs")
    folder = tmp_path_factory.mktemp("docs")
    command = [str(PYTHON), str(ROOT / "scripts" / "build_docs.py"), "--into", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_every_page_is_there(site: Path) -> None:
    pages = [file.relative_to(ROOT) for pattern in build_docs.COPIED for file in ROOT.glob(pattern)]
    expected = {page.with_suffix(".html").as_posix() for page in pages if page.suffix == ".md"} - {"README.html"}
    assert expected - {page.relative_to(site).as_posix() for page in site.rglob("*.html")} == set()
    assert (site / "index.html").is_file()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Material's script can fetch two things by itself: diagrams of Mermaid, and figures of a repository."""
    outside = {}
    for file in site.rglob("*.html"):
        page = Page(file.read_text(encoding="utf-8"))
        loaded = {address for address in page.loads if re.match(r"(?:[a-z]+:)?//", address)}
        if loaded or {"mermaid", "md-source"} & page.classes or "url(" in page.styles:
            outside[file.name] = loaded
    assert outside == {}
    styles = [file.read_text(encoding="utf-8") for file in site.rglob("*.css")]
    assert (
        styles
        and [found for text in styles for found in re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", text)] == []
    )


def test_search_knows_the_pages(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {document["location"].partition("#")[0] for document in index["docs"]}
    assert {"docs/planning.html", "docs/errors/SQB-R002.html", "ARCHITECTURE.html"} <= places


def test_the_sections_are_tabs(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    tabs = re.findall(r'class="md-tabs__link">\s*([\w-]+)\s*<', text)
    assert tabs == SECTIONS


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_lists_begin_after_an_empty_line(page: Path) -> None:
    """GitHub needs none; MkDocs would make one paragraph of the list and what is above it."""
    assert _LIST_IN_PARAGRAPH.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))) == []
