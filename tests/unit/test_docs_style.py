"""Every page says whom it is for, and every block says whether it is run: no output can go stale unseen.

The pages of the reference are generated, and those about errors have a form of their own.
"""

from __future__ import annotations

import re
from pathlib import Path

import docs_output
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "SECURITY.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if not page.stem.startswith("reference-")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
# `console` is run and compared, `text` is a listing or an illustration, `sh` are commands that no test can run.
LANGUAGES = {"console", "csv", "jinja", "json", "lua", "python", "sh", "sql", "text", "toml", "yaml"}
# What is shown and not run, and why. Whoever adds to this list has tried to run it.
ILLUSTRATIONS = {
    "cli": ["goes on until Ctrl-C"],
    "csv-to-schedule": ["lines of a crontab"],
    "dbt": ["needs dbt", "needs dbt"],
    "deploying": ["lines of a crontab"],
    "engine": ["only at a terminal", "only with an engine that is stale"],
    "functions": ["asks another server"],
    "janitor": ["takes days and a killed build", "takes thirty days", "takes the time of ttl and grace"],
    "notebooks": ["cells of a notebook", "a cell of a notebook"],
    "orchestration": ["lines of a crontab"],
    "python": ["asks another server"],
}
# Blocks of commands that are not run: they install something, need a server or a database, or change the machine.
COMMANDS = {
    "README": 2,
    "cli": 2,
    "connections": 1,
    "dbt": 1,
    "deploying": 1,
    "editors": 1,
    "environments-state": 1,
    "getting-started": 1,
    "lineage-events": 2,
    "orchestration": 2,
    "upgrading": 2,
}
_BLOCK = re.compile(r"^ *```(?P<info>[^\n`]*)\n(?P<body>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LONGEST = 35
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*\[(a-z])")
_TITLE = re.compile(rf'title="{docs_output.ILLUSTRATION}([^"]+)"')


def _list_blocks(page: Path) -> list[re.Match[str]]:
    return list(_BLOCK.finditer(page.read_text(encoding="utf-8")))


def _by_page(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.stem)


@_by_page([page for page in PAGES if page != README])
def test_a_page_says_whom_it_is_for(page: Path) -> None:
    title, _, rest = page.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith("# ")
    assert rest.startswith("For "), "the first words after the title: For everyone who …"


@_by_page(PAGES)
def test_sentences_are_short(page: Path) -> None:
    """Of prose; a row of a table may list as much as it has to."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))
    paragraphs = re.split(r"\n\s*\n|\n(?=- |\d\. )", prose)
    sentences = [s for paragraph in paragraphs for s in _SENTENCE.split(" ".join(paragraph.split()))]
    assert [s for s in sentences if len(s.split()) > _LONGEST] == []


@_by_page(PAGES)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {block["info"].split(" ")[0] for block in _list_blocks(page)} - LANGUAGES == set()


@_by_page(PAGES)
def test_commands_with_outputs_are_run(page: Path) -> None:
    for block in _list_blocks(page):
        is_console = block["info"].startswith("console")
        is_illustration = _TITLE.search(block["info"]) is not None
        assert is_console == docs_output.is_dialogue(block), block["body"]
        assert is_console or is_illustration or not re.search(r"^ *\$ ", block["body"], re.MULTILINE), block["body"]


@_by_page(PAGES)
def test_what_is_not_run_is_listed(page: Path) -> None:
    infos = [block["info"] for block in _list_blocks(page)]
    assert [title[1] for title in map(_TITLE.search, infos) if title] == ILLUSTRATIONS.get(page.stem, [])
    assert infos.count("sh") == COMMANDS.get(page.stem, 0)


@_by_page(PAGES)
def test_a_page_with_a_dialogue_is_run(page: Path) -> None:
    has_console = any(block["info"].startswith("console") for block in _list_blocks(page))
    assert has_console == (page in [*docs_output.PAGES, *docs_output.list_guides()])
