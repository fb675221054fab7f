"""Examples in the documentation can be read: blocks by the parsers of the project, calls of `sqb` by its options."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

import click
import pytest

from sqb.checks.custom_audits import read_custom_audits
from sqb.cli.main import sqb
from sqb.errors.base import Errors
from sqb.project.config.config import load_config
from sqb.project.config.yaml import read_yaml
from sqb.project.exposures import load_exposures
from sqb.project.models.header import parse_header
from sqb.project.sources import load_sources
from sqb.project.unit_tests import load_tests
from sqb.selection.selectors_file import load_selectors
from sqb.sql.analysis.parse import parse_tree

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(sqb [^`\n]+)`")
# Where a page leaves something out.
_LEFT_OUT = re.compile(r"…|\.\.\.")
# What sqb replaces before a query is parsed.
_VARIABLE, _MACRO = re.compile(r"@@(?:ENV:)?(\w+)"), re.compile(r"@(\w+)\(")
# What a call says in the place of a word: any command, one of several, all options.
_PLACEHOLDER = re.compile(r"<.*>|\[.*\]\S*|COMMAND|.*\|.*")
# Where the arguments of a command end: a comment, another command, a place for the result.
_END = {"#", "|", "||", "&&", ";", ">", ">>", "2>", "&", "…"}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page, and where it begins."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def _list_blocks() -> list[Block]:
    blocks = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            language = match["info"].split(" ")[0]
            blocks.append(Block(page, text.count("\n", 0, match.start()) + 1, language, dedent(match["body"])))
    return blocks


BLOCKS = _list_blocks()


def _with_language(language: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == language], ids=str)


@_with_language("python")
def test_python_is_python(block: Block) -> None:
    ast.parse(block.text.replace("…", "..."))


@_with_language("toml")
def test_settings_are_settings(block: Block, tmp_path: Path) -> None:
    text = block.text
    if text.startswith("# sqlbuild_local.toml"):
        # It is laid over the settings that the page shows before it.
        (tmp_path / "sqlbuild_local.toml").write_text(text, encoding="utf-8")
        text = next(b for b in reversed(BLOCKS[: BLOCKS.index(block)]) if b.language == "toml").text
    named = text if re.search(r"^name *=", text, re.MULTILINE) else f'name = "shop"\n{text}'
    (tmp_path / "sqlbuild_project.toml").write_text(named, encoding="utf-8")
    errors = Errors()
    load_config(tmp_path, errors)
    assert errors.found == []


# The first key of a file tells which file it is.
_FILES: dict[str, tuple[str, Callable[[Path, Errors], object]]] = {
    "sources": ("sources/a.yml", load_sources),
    "exposures": ("exposures/a.yml", load_exposures),
    "tests": ("tests/a.yml", lambda root, errors: load_tests(root, ["tests/a.yml"], errors)),
    "selectors": ("selectors.yml", load_selectors),
}


@_with_language("yaml")
def test_files_of_yaml_are_what_they_look_like(block: Block, tmp_path: Path) -> None:
    first = re.search(r"^(\w+):", block.text, re.MULTILINE)
    path, load = _FILES.get(first[1] if first else "", ("a.yml", lambda r, e: read_yaml(r / "a.yml", "a.yml", e)))
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(block.text, encoding="utf-8")
    errors = Errors()
    load(tmp_path, errors)
    assert errors.found == []


@_with_language("sql")
def test_models_are_models(block: Block) -> None:
    errors = Errors()
    text = _LEFT_OUT.sub("1", block.text)
    if "@@this AS" in text:
        assert list(read_custom_audits({"audits/a.sql": text}, (), errors)) == ["a"] and errors.found == []
        return
    header = parse_header(text, "models/a.sql", errors)
    assert errors.found == []
    query = _MACRO.sub(r"\1(", _VARIABLE.sub(r"\1", text[header.body_start :])).strip()
    if query and not query.startswith(("--", "CREATE FUNCTION")):
        parse_tree(query if re.match(r"(?i)(select|with)\b", query) else f"SELECT {query}")


def _list_calls() -> list[tuple[str, str]]:
    """Every call of `sqb`, with its page: lines of dialogues and of plain blocks, and what is in code type."""
    calls = []
    for block in BLOCKS:
        # A call that is the mistake is followed by the error about the command line.
        if block.language in ("", "console", "sh", "bash") and "error[SQB-C001]" not in block.text:
            lines = [line.removeprefix("$ ") for line in block.text.splitlines()]
            calls += [(str(block), line) for line in lines if line.startswith("sqb ")]
    for page in PAGES:
        # What changed, also of names that are gone.
        if page.name == "CHANGELOG.md":
            continue
        text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
        calls += [(str(page.relative_to(ROOT)), call) for call in _INLINE.findall(text)]
    return list(dict.fromkeys(calls))


def _split_call(call: str) -> list[str]:
    """The words of a call up to where another command begins; optional parts as if they were given."""
    words = shlex.split(re.sub(r"\[(-.*?)\]", r"\1", call), comments=True)[1:]
    end = next((i for i, word in enumerate(words) if word in _END), len(words))
    return [word for word in words[:end] if not _LEFT_OUT.fullmatch(word)]


def _check_call(command: click.Command, words: list[str]) -> None:
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if _PLACEHOLDER.fullmatch(words[0]):
            return
        inner = command.get_command(context, words[0])
        assert inner is not None, f"`{words[0]}` is not a command"
        command, words = inner, words[1:]
        context = click.Context(command, parent=context)
    try:
        values, _, order = command.make_parser(context).parse_args(list(words))
    except click.BadOptionUsage as error:
        # An option that a sentence names without its value.
        assert "requires an argument" in error.message, error.message
        return
    for parameter in order:
        value = values.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(value, str) and not _PLACEHOLDER.fullmatch(value):
            parameter.type.convert(value, parameter, context)


@pytest.mark.parametrize(("place", "call"), _list_calls())
def test_a_call_has_options_that_exist(place: str, call: str) -> None:
    _check_call(sqb, _split_call(call))


@pytest.mark.parametrize("call", ["sqb biuld", "sqb build --selct x", "sqb docs biuld", "sqb plan --no-such"])
def test_a_call_that_does_not_exist_is_noticed(call: str) -> None:
    with pytest.raises((AssertionError, click.UsageError)):
        _check_call(sqb, _split_call(call))


def test_calls_of_the_python_api_fit_their_types(tmp_path: Path) -> None:
    """Names, attributes and options are those that the package declares; nothing is run."""
    pytest.importorskip("mypy")
    pages = ("api.md", "notebooks.md")
    blocks = [b for b in BLOCKS if b.page.name in pages and b.language == "python"]
    functions = (
        f"def block_{i}(project: sqb.Project, result: sqb.Result, spark: Any) -> None:\n{indent(block.text, '    ')}"
        for i, block in enumerate(blocks)
    )
    file = tmp_path / "blocks.py"
    file.write_text("\n\n".join(["from typing import Any\n\nimport sqb", *functions]), encoding="utf-8")
    # With the cache that `make lint` leaves it takes a second or two.
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert len(blocks) > 10 and done.stdout + done.stderr == ""
