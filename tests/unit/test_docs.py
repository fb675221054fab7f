"""The documentation is complete: every code, key, command and option has its place, and every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from sqb.checks.catalogue import WORDS as CHECKS
from sqb.cli.main import sqb
from sqb.errors import FAMILIES as ERROR_MODULES
from sqb.errors.base import SqbError
from sqb.project.models.keys import KEYS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_EXAMPLES = (ROOT / "src/sqb").glob("example*/**/*.md")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "bench").glob("*.md"), *_EXAMPLES])
# Codes that only name a family: nothing is ever raised with them.
FAMILIES = {
    "",
    "SQB-0000",
    "SQB-P000",
    "SQB-R000",
    "SQB-S000",
    "SQB-F000",
    "SQB-K000",
    "SQB-E000",
    "SQB-D000",
    "SQB-N000",
    "SQB-V000",
    "SQB-Y000",
}

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def _classes(root: type[SqbError] = SqbError) -> Iterator[type[SqbError]]:
    yield root
    for child in root.__subclasses__():
        yield from _classes(child)


_MODULES = tuple(import_module(f"sqb.errors.{name}").__name__ for name in ERROR_MODULES)
CODES = {c.code for c in _classes() if c.__module__ in _MODULES} - FAMILIES


def _words(page: str) -> set[str]:
    """Everything in code type, outside of examples, split at spaces and commas."""
    text = _FENCE.sub("", (DOCS / page).read_text(encoding="utf-8"))
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.split(r"[\s,]+", code)}


def _anchors(page: Path) -> set[str]:
    """The names by which headings can be linked to, as the usual renderers make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(text))
    return {heading.replace(" ", "-") for heading in plain}


def test_no_two_errors_share_a_code() -> None:
    codes = [c.code for c in _classes() if c.__module__ in _MODULES and c.code not in FAMILIES]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_error_has_a_page(code: str) -> None:
    page = DOCS / "errors" / f"{code}.md"
    assert page.is_file()
    assert page.read_text(encoding="utf-8").startswith(f"# {code}: ")
    assert f"[{code}]({code}.md)" in (DOCS / "errors" / "index.md").read_text(encoding="utf-8")


def test_every_page_of_an_error_is_about_one_that_exists() -> None:
    pages = {page.stem for page in (DOCS / "errors").glob("*.md")} - {"index"}
    assert pages - CODES == set()


def test_every_key_of_models_is_in_the_reference() -> None:
    documented = _words("models.md")
    words = {word for key in KEYS.values() for word in (key.name, *key.synonyms)}
    values = {value for key in KEYS.values() for value in key.choices}
    assert (words | values) - documented == set()


def test_every_check_is_in_the_reference() -> None:
    text = (DOCS / "checks.md").read_text(encoding="utf-8")
    assert [word for word in CHECKS if f"`{word}(" not in text and f"`{word}`" not in text] == []


def test_every_command_and_option_is_in_the_reference() -> None:
    documented = _words("cli.md")
    context = click.Context(sqb)
    expected: set[str] = set()
    for name in sqb.list_commands(context):
        command = sqb.get_command(context, name)
        assert command is not None
        expected.add(name)
        expected.update(o for p in command.params if isinstance(p, click.Option) for o in p.opts)
    assert expected - documented == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_command_is_listed_in_an_order() -> None:
    with click.Context(sqb) as context:
        assert set(sqb.list_commands(context)) == set(sqb.commands)


@pytest.mark.parametrize("family", ERROR_MODULES)
def test_a_tree_at_the_top_of_a_family_has_all_its_errors(family: str) -> None:
    module = import_module(f"sqb.errors.{family}")
    own = [n for n, c in vars(module).items() if isinstance(c, type) and c.__module__ == module.__name__]
    assert "├──" not in (module.__doc__ or "") or [n for n in own if n not in (module.__doc__ or "")] == []
