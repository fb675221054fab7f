"""What editors underline: mistakes, and what the rules of `sqb lint` find."""

from __future__ import annotations

from pathlib import Path

from sqb.lsp.diagnostics import list_diagnostics
from sqb.lsp.snapshot import ProjectReader
from unit.folders import write
from unit.lsp.conftest import FILES

EVERYTHING = "models/marts/everything.sql"
LINT = 'no_select_star = "warning"\nshort = "error"\n'
RULE = """\
import sqb

@sqb.lint_rule
def short(model):
    if len(model.sql) > 300:
        yield "the query is long"
"""


def read(reader: ProjectReader, texts: dict[str, str]) -> list[tuple[str, str, str, str]]:
    snapshot = reader.read(texts)
    listed = [d for diagnostics in list_diagnostics(snapshot).values() for d in diagnostics]
    spans = [(d.place.file, snapshot.read_text(d.place.file)[d.place.start : d.place.end]) for d in listed]
    return [(file, d.code, d.severity, text) for (file, text), d in zip(spans, listed, strict=True)]


def test_findings_come_and_go_with_the_text(root: Path, reader: ProjectReader) -> None:
    write(root, {**FILES, "sqlbuild_project.toml": FILES["sqlbuild_project.toml"] + LINT, "lint/own.py": RULE})
    star = (EVERYTHING, "no_select_star", "warning", "*")
    assert read(reader, {}) == [star]
    assert read(reader, {EVERYTHING: "SELECT customer FROM totals\n"}) == []
    long = "SELECT customer FROM totals\n" + "-- more\n" * 50
    assert [item[1:3] for item in read(reader, {EVERYTHING: long})] == [("short", "error")]
    # A broken text says what is wrong with it, and no more.
    assert [item[0] for item in read(reader, {EVERYTHING: "SELECT * FROM"})] == [EVERYTHING]
    assert read(reader, {}) == [star]


def test_what_only_some_commands_read_is_told_too(root: Path, reader: ProjectReader) -> None:
    settings = FILES["sqlbuild_project.toml"] + "no_such_rule = 'error'\n[format]\nindent = 0\n"
    selectors = "selectors:\n  - {name: a, definition: {tga: x}}\n"
    write(root, {**FILES, "sqlbuild_project.toml": settings, "selectors.yml": selectors})
    assert [(file, text) for file, _, _, text in read(reader, {})] == [
        ("selectors.yml", "tga"),
        ("sqlbuild_project.toml", "no_such_rule"),
        ("sqlbuild_project.toml", "0"),
    ]
