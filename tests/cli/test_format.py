"""`sqb format`: files are written, asked about or compared; what a project is stays the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sqb
from sqb.cli.main import run
from sqb.errors.base import Errors
from sqb.project.models.format_model import format_model
from sqb.project.models.header import parse_header
from sqb.workspace import open_workspace
from unit.folders import TOML, write

UGLY = "MODEL(kind   table,tags [a,b], -- the tags\n -- more\n description 'x, y'\n);\nselect  1 as a"
TIDY = """\
MODEL (
  kind table,
  tags [a,b], -- the tags
  -- more
  description 'x, y',
);

SELECT 1 AS a
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"models/marts/a.sql": UGLY, "models/marts/b.sql": "-- @kind: view\nSELECT a FROM a\n"}
    monkeypatch.chdir(write(tmp_path, files))
    return tmp_path


def test_files_are_written_and_then_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["format"]) == 0
    assert capsys.readouterr().out == "formatted models/marts/a.sql\n1 formatted, 1 as they are.\n"
    assert (project / "models/marts/a.sql").read_text() == TIDY
    assert run(["format", "--check"]) == 0


def test_check_and_diff_write_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["format", "--check"]) == 1
    assert capsys.readouterr().out == "models/marts/a.sql would be formatted\n1 to format, 1 as they are.\n"
    assert run(["format", "--diff", "marts.a"]) == 1
    assert "+SELECT 1 AS a" in capsys.readouterr().out
    assert run(["format", "--check", "b"]) == 0
    capsys.readouterr()
    assert run(["format", "--check", "--json", "models/marts"]) == 1
    assert json.loads(capsys.readouterr().out) == {"files": 2, "changed": ["models/marts/a.sql"], "written": False}
    assert (project / "models/marts/a.sql").read_text() == UGLY


def test_settings(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"sqlbuild_project.toml": f'{TOML}\n[format]\nkeyword_case = "lower"\nindent = 4\n'})
    assert run(["format", "a"]) == 0
    assert (project / "models/marts/a.sql").read_text().endswith("\nselect 1 as a\n")
    write(project, {"sqlbuild_project.toml": f'{TOML}\n[format]\nkeyword_case = "title"\nwidth = 4\n'})
    assert run(["format"]) == 2
    messages = capsys.readouterr().err
    assert (
        "`keyword_case` must be one of upper, lower, preserve" in messages
        and "unknown key `width` in [format]" in messages
    )


def test_a_name_that_nothing_has(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["format", "aa"]) == 2
    assert 'error[SQB-C003]: no model is called "aa"' in capsys.readouterr().err


def test_line_ends_of_a_file_stay(project: Path) -> None:
    path = project / "models/marts/b.sql"
    path.write_bytes(b"\xef\xbb\xbf-- @kind: view\r\nselect a\r\nfrom a\r\n")
    assert run(["format", "b"]) == 0
    assert path.read_bytes() == b"\xef\xbb\xbf-- @kind: view\r\nSELECT a\r\nFROM a\r\n"


def test_a_header_that_cannot_be_read_stays(project: Path) -> None:
    for text in ("MODEL (kind table;\nselect 1", "MODEL (nonsense 1);\nselect 1", ""):
        assert format_model(text, "models/a.sql") == text


@pytest.mark.parametrize(
    "text", ["--@kind:table\n--  @tags:  [a, b]\nselect 1 as a", "model (  kind table  );select 1"]
)
def test_headers_say_the_same(text: str) -> None:
    formatted = format_model(text, "models/a.sql")
    before, after = parse_header(text, "a", Errors()), parse_header(formatted, "a", Errors())
    assert {k: s.value for k, s in before.settings.items()} == {k: s.value for k, s in after.settings.items()}
    assert format_model(formatted, "models/a.sql") == formatted != text


def test_comments_between_lines_of_a_header_stay() -> None:
    text = "-- what it is\n--@kind:table \n--\n-- @anna look\n--  @tags :  [a, b]\n-- of the query\nselect 1 as a"
    formatted = "-- what it is\n-- @kind: table\n--\n-- @anna look\n-- @tags: [a, b]\n-- of the query\nSELECT 1 AS a\n"
    assert format_model(text, "models/a.sql") == formatted
    assert format_model(formatted, "models/a.sql") == formatted


def test_headers_with_checks_hooks_and_contracts_are_laid_out_too() -> None:
    text = (
        "model(kind table,tags[a,b],constraints[not_null(a), compare(a,>=,0)],post_hook['SELECT 1'],"
        " contract(a int not null),columns (a: 'what it is'));select a from b"
    )
    formatted = format_model(text, "models/a.sql")
    assert formatted.splitlines() == [
        "MODEL (",
        "  kind table,",
        "  tags [a,b],",
        "  constraints [not_null(a), compare(a,>=,0)],",
        "  post_hook ['SELECT 1'],",
        "  contract (a int not null),",
        "  columns (a: 'what it is'),",
        ");",
        "",
        "SELECT a FROM b",
    ]
    assert format_model(formatted, "models/a.sql") == formatted


def test_the_example_is_as_format_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(Path(sqb.__file__).parent / "example", tmp_path / "shop"))
    assert run(["format", "--check"]) == 0
    assert run(["lint"]) == 0


def test_identities_of_a_project_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "shop"
    shutil.copytree(Path(sqb.__file__).parent / "example", root)
    before = {n.name: n.version_hash for n in open_workspace(root).project}
    monkeypatch.chdir(root)
    write(
        root, {"sqlbuild_project.toml": f"{(root / 'sqlbuild_project.toml').read_text()}\n[format]\nline_length = 40\n"}
    )
    assert run(["format"]) == 0
    assert {n.name: n.version_hash for n in open_workspace(root).project} == before
