"""Selectors on the command line, and help that is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from sqb.cli.main import run, sqb
from unit.folders import write

FILES = {
    "seeds/orders.csv": "id,amount\n1,2\n",
    "models/staging/a.sql": "SELECT id FROM orders\n",
    "models/staging/b.sql": "SELECT id FROM orders\n",
    "models/marts/c.sql": "MODEL (kind view, tags [x]);\nSELECT a.id FROM a JOIN b USING (id)\n",
    "selectors.yml": "selectors:\n  - name: nightly\n    definition: tag:x staging,file:b\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write(tmp_path, FILES))
    monkeypatch.setattr("sys.argv", ["sqb"])
    return tmp_path


def compile_names(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert run(["compile", *words]) == 0
    return [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("-- ")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-s", "a", "c"], ["staging.a", "marts.c"]),
        (["--select", "staging", "--exclude", "a", "c"], ["staging.b"]),
        (["--select=a", "b", "-t", "dev"], ["staging.a", "staging.b"]),
        (["--selector", "nightly"], ["staging.b", "marts.c"]),
        (["--selector", "nightly", "--exclude", "c"], ["staging.b"]),
        (["-s", "1+c", "--exclude", "config.kind:view"], ["staging.a", "staging.b"]),
        (["-s", "state:new,marts"], ["marts.c"]),
        (["-s", "state:old"], []),
        (["-s", "result:error"], []),
    ],
)
def test_words_up_to_the_next_option(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: list[str]
) -> None:
    assert compile_names(capsys, *words) == expected


def test_plan_takes_names_and_says_when_nothing_is_selected(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "staging", "seeds"]) == 0
    assert "Plan: 3 to run, 0 unchanged" in capsys.readouterr().out
    assert run(["plan", "-s", "state:unmodified"]) == 0
    assert capsys.readouterr().out == "Nothing to do: nothing is selected.\n"


def test_two_selections_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("plan", "build", "compile", "test", "freshness"):
        assert run([command, "-s", "a", "--selector", "nightly"]) == 2
        assert "--select and --selector are two selections" in capsys.readouterr().err


def iter_groups(group: click.Group, context: click.Context) -> Any:
    yield group, context
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from iter_groups(command, click.Context(command, context, name, terminal_width=80))


@pytest.mark.parametrize("width", [80, 100])
def test_lines_of_help_are_whole(width: int) -> None:
    context = click.Context(sqb, info_name="sqb", terminal_width=width, max_content_width=width)
    for group, above in iter_groups(sqb, context):
        lines = group.get_help(above).splitlines()[1:]
        assert not [line for line in lines if line.endswith("...") or len(line) > width], group.name
        for name in group.list_commands(above):
            command = group.get_command(above, name)
            assert command is not None
            below = click.Context(command, above, name, terminal_width=width, max_content_width=width)
            lines = command.get_help(below).splitlines()[1:]
            assert not [line for line in lines if len(line) > width], name
