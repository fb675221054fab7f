"""Calls that help and documentation show: each is one that the command line takes, at any width of a terminal."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from sqb.cli.examples import EXAMPLES
from sqb.cli.main import sqb

DOCS = Path(__file__).parents[3] / "docs"
_CALL = re.compile(r"`(sqb [^`]+)`")


def list_calls(text: str) -> list[str]:
    """The calls in a text; what stands for something is given a value."""
    return sorted({call.replace("…", "2026-01-01").replace("DIR", "folder") for call in _CALL.findall(text)})


def check_call(call: str) -> None:
    """Parse a call as the command does, up to where it would begin."""
    words = shlex.split(call.removeprefix('eval "$(').removesuffix(')"'))
    words = words[: words.index(">")] if ">" in words else words
    group: click.Group = sqb
    context = click.Context(sqb, info_name=words.pop(0))
    while words and isinstance(group, click.Group):
        name, command, words = group.resolve_command(context, words)
        assert command is not None and name is not None
        if not isinstance(command, click.Group):
            command.make_context(name, words, parent=context)
            return
        group, context = command, click.Context(command, info_name=name, parent=context)


def test_every_example_is_of_a_command() -> None:
    assert EXAMPLES.keys() <= set(sqb.commands)


@pytest.mark.parametrize("call", [call for calls in EXAMPLES.values() for call in calls])
def test_examples_of_help(call: str) -> None:
    check_call(call)


@pytest.mark.parametrize("call", list_calls((DOCS / "comparison.md").read_text()))
def test_calls_of_the_comparison(call: str) -> None:
    check_call(call)


@pytest.mark.parametrize("call", ["sqb shw orders", "sqb show --limt 3", "sqb diff --snapshot"])
def test_others_are_noticed(call: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no such|no command|requires|no option"):
        check_call(call)
    assert list_calls("a `sqb plan` b `dbt ls` `sqb build -s …`") == ["sqb build -s 2026-01-01", "sqb plan"]


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_stay_whole_on_their_lines(name: str, width: int) -> None:
    command = sqb.get_command(click.Context(sqb), name)
    assert command is not None
    text = command.get_help(click.Context(command, info_name=name, max_content_width=100, terminal_width=width))
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert [line.strip() for line in lines[-len(EXAMPLES[name]) :]] == list(EXAMPLES[name])
