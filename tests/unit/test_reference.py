"""The pages of reference are those of the code's own tables."""

from __future__ import annotations

import click
import make_reference
import pytest

import sqb as sqb_package
from sqb.checks.catalogue import CATALOGUE
from sqb.cli.main import sqb
from sqb.project.models.keys import KEYS


@pytest.mark.parametrize("name", make_reference.PAGES)
def test_the_page_is_that_of_the_code(name: str) -> None:
    written = (make_reference.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    now = make_reference.NOTE + make_reference.PAGES[name]()
    assert written == now, "`.venv/bin/python scripts/make_reference.py` writes it anew"


def test_no_page_is_left_of_a_table_that_is_gone() -> None:
    pages = {page.stem for page in make_reference.FOLDER.glob("reference-*.md")}
    assert pages == set(make_reference.PAGES)


def test_nothing_of_the_tables_is_left_out() -> None:
    commands = make_reference.make_cli()
    with click.Context(sqb) as context:
        assert [name for name in sqb.list_commands(context) if f"\n## sqb {name}\n" not in commands] == []
    assert "\n## sqb docs serve\n" in commands
    assert [name for name in KEYS if f"\n| `{name}` |" not in make_reference.make_keys()] == []
    assert [name for name in CATALOGUE if f"\n| `{name}(" not in make_reference.make_checks()] == []


def test_tables_in_tables_have_their_keys() -> None:
    settings = make_reference.make_settings()
    for key in ("janitor.keep_snapshots", "targets.NAME.schema", "sources[].freshness.age_policy", "tests[].given"):
        assert f"\n| `{key}` |" in settings


def test_cells_are_shown_as_they_are() -> None:
    table = make_reference._format_table(("a", "b"), [("`x <y>`", "one|two <three>")])
    assert table == "| a | b |\n| --- | --- |\n| `x <y>` | one\\|two &lt;three> |\n"


def test_the_api_is_listed_with_what_it_takes() -> None:
    page = make_reference.make_api()
    assert [name for name in sqb_package.__all__ if f"`{name}" not in page and f"sqb.{name}\n" not in page] == []
    for call in ("`load(*names, concurrency", "`lint_rule(function, *, severity)`", "`build(project, plan, *, target"):
        assert call in page
    assert "Its values are `columns`, `rows`." in page
    assert "(self" not in page
