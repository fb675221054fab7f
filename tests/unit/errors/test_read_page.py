"""The pages about errors; tests/cli/test_wheel.py finds them in a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.cli.main import run
from sqb.console.errors import format_error
from sqb.console.style import Paint
from sqb.errors.project import UnknownReference
from sqb.errors.read_page import find_page, list_titles, parse_code, read_page

ROOT = Path(__file__).parents[3]
PAGES = sorted(path.stem for path in (ROOT / "docs" / "errors").glob("SQB-*.md"))


def test_every_page_can_be_read_and_is_in_the_index() -> None:
    assert sorted(list_titles()) == PAGES
    for code in PAGES:
        page = read_page(code)
        assert page is not None and page.title and page.text.startswith(f"# {code}: ")


@pytest.mark.parametrize("text", ["SQB-R002", "sqb-r002", "R002", "error[SQB-R002]", "error[SQB-R002]:"])
def test_codes_are_known_as_they_are_copied(text: str) -> None:
    assert parse_code(text) == "SQB-R002"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "r002"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "SQB-R002: A reference to nothing" and "What to do" in lines
    assert not any("](" in line or line.startswith("```") for line in lines)
    assert run(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(PAGES)
    assert run(["explain", "marts.revenue"]) == 2
    assert '"marts.revenue" is not the code of an error' in capsys.readouterr().err


def test_codes_lead_to_their_pages_on_terminals() -> None:
    paint = Paint.plain()
    assert next(format_error(UnknownReference("x"), None, paint)) == "error[SQB-R002]: x"
    paint.enabled = True
    page = find_page("SQB-R002")
    assert page is not None
    assert f"\x1b]8;;{page.resolve().as_uri()}\x1b\\" in next(format_error(UnknownReference("x"), None, paint))
