"""What a command is at is shown on a terminal, and goes when it is over."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from sqb.cli.options import CommonOptions
from sqb.console.phase import show_phase
from unit.folders import write


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_it_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with show_phase("compiling"):
        assert terminal.getvalue() == "compiling …"
    assert terminal.getvalue() == "compiling …\r\x1b[K"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["a file", "a dumb terminal"])
def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", stream)
    with show_phase("compiling"):
        pass
    assert stream.getvalue() == ""


def test_a_project_that_is_compiled_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, {"seeds/a.csv": "id\n1\n"})
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    CommonOptions(project_dir=root).open_workspace()
    assert terminal.getvalue().startswith("compiling …")
    CommonOptions(project_dir=root).open_workspace()
    assert terminal.getvalue().count("compiling") == 1
