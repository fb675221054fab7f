"""What `--json` prints is what docs/cli.md says: each key has its word there, and each key of a document is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Folder, build_all, new_project

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
PROJECT = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "seeds/places.csv": "id,place\n1,London\n",
    "models/m.sql": "-- @owner: ann\n-- @constraint: not_null(id)\nSELECT * FROM people",
    "sources/files.yml": (
        "sources:\n  - {name: prices, path: incoming/*.csv, options: {header: true, schema: id BIGINT}}\n"
    ),
    "incoming/a.csv": "id\n1\n",
}
# Commands that need no Spark, each by its name in the table of documents; "" for those that the text describes.
CALLS = [
    ("", ("plan",)),
    ("", ("plan", "m", "--explain")),
    ("", ("build", "people")),
    ("", ("plan", "-s", "nope")),
    ("sqb validate", ("validate",)),
    ("sqb lint", ("lint",)),
    ("sqb format", ("format", "--check")),
    ("sqb list", ("list",)),
    ("sqb compile", ("compile",)),
    ("sqb lineage", ("lineage",)),
    ("sqb lineage", ("lineage", "m.id")),
    ("sqb freshness", ("freshness",)),
    ("sqb history", ("history",)),
    ("sqb drop", ("drop", "--dry-run")),
    ("sqb janitor", ("janitor", "--dry-run")),
]
CALLS_OF_ENVIRONMENTS = [
    ("", ("plan", "-s", "people")),
    ("sqb state show", ("state", "show")),
    ("sqb state checkpoints", ("state", "checkpoints")),
    ("sqb janitor", ("janitor", "--dry-run")),
]
# Mappings whose keys are names of the project, or what a page of its own describes.
_FREE = {"concerned", "environment"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    root = tmp_path_factory.mktemp("documents")
    built = build_all(new_project(root, {k: v for k, v in PROJECT.items() if not k.startswith("models/")}))
    # A table of a seed that is gone, and a model that is not built.
    built.write({"seeds/gone.csv": "id\n1\n"})
    build_all(built)
    (root / "seeds" / "gone.csv").unlink()
    built.write(PROJECT)
    return built


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    settings = {"sqlbuild_project.toml": f"{PROJECT['sqlbuild_project.toml']}\n[virtual]\nenabled = true\n"}
    seeds = {name: text for name, text in PROJECT.items() if name.startswith("seeds/")}
    return build_all(new_project(tmp_path_factory.mktemp("environments"), {**seeds, **settings}))


def _read_section() -> str:
    return PAGE.read_text(encoding="utf-8").partition("\n## JSON\n")[2].partition("\n## Events\n")[0]


def _iter_keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in _FREE:
                yield from _iter_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iter_keys(inner)


def _list_top_keys(command: str) -> list[str]:
    """The keys of a document, without those of what it holds, as the table writes them."""
    row = next(line for line in _read_section().splitlines() if line.startswith("| `") and f"`{command}`" in line)
    text, depth, keys = row.split("| ")[2].split("`")[1], 0, []
    for token in re.findall(r'[\[{]|[\]}]|"\w+"', text):
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif depth == 1:
            keys.append(token.strip('"'))
    return keys


def _by_call(calls: list[tuple[str, tuple[str, ...]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("command", "arguments"), calls, ids=[" ".join(words) for _, words in calls])


@_by_call(CALLS)
def test_a_document_has_the_keys_that_are_described(folder: Folder, command: str, arguments: tuple[str, ...]) -> None:
    _compare_with_page(json.loads(folder.here(*arguments, "--json").out), command)


@_by_call(CALLS_OF_ENVIRONMENTS)
def test_so_has_one_about_environments(environments: Folder, command: str, arguments: tuple[str, ...]) -> None:
    _compare_with_page(json.loads(environments.here(*arguments, "--json").out), command)


def _compare_with_page(document: dict[str, Any], command: str) -> None:
    described = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`|```.*?```", _read_section(), re.DOTALL))))
    assert set(_iter_keys(document)) - described == set()
    if command:
        assert [key for key in _list_top_keys(command) if key not in document] == []


def test_the_document_of_pages_has_the_keys_that_are_described(folder: Folder) -> None:
    page = (PAGE.parent / "docs-site.md").read_text(encoding="utf-8")
    described = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", page.partition("\n## The document\n")[2]))))
    document = json.loads(folder.here("docs", "build", "--json").out)
    nodes, runs = document["nodes"].values(), document["runs"]
    keys = {*document, *document["project"], *document["plan"]}
    keys |= {key for value in (*nodes, *runs) for key in value}
    keys |= {key for run in runs for node in run["nodes"] for key in node}
    assert nodes and runs and keys - described == set()
