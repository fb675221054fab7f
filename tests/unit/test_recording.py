"""The recording of a terminal: what a terminal shows of what is written to it, and the picture of that."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import make_recording
import pytest
from terminal import Row, Terminal

WRITTEN = make_recording.SVG.read_text(encoding="utf-8")


def show(*texts: str, columns: int = 40) -> list[str]:
    terminal = Terminal(columns)
    for number, text in enumerate(texts):
        terminal.write(text, float(number))
    return [row.text for row in terminal.list_rows()]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("waiting 1s\r\x1b[2Kdone\r\n", ["done"]),
        ("long text\rnew\x1b[K", ["new"]),
        ("a\r\nb\r\nc\x1b[2A\x1b[1Gx", ["x", "b", "c"]),
        ("a\r\nb\r\nc\x1b[1A\r\x1b[0J", ["a"]),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\ end", ["link end"]),
        ("\x1b[?25lhidden cursor\x1b[?25h", ["hidden cursor"]),
        ("a\tb", ["a       b"]),
        ("ab\bc", ["ac"]),
        ("", []),
    ],
)
def test_a_terminal_shows_what_is_written(written: str, shown: list[str]) -> None:
    assert show(written) == shown


def test_a_row_ends_at_the_edge() -> None:
    assert show("abcdef", columns=4) == ["abcd", "ef"]


def test_a_sequence_may_come_in_two_parts() -> None:
    assert show("a\x1b[", "31mb\x1b]8;;addr", "ess\x07c") == ["abc"]


def test_styles_and_moments() -> None:
    terminal = Terminal(40)
    terminal.write("\x1b[1;32mOK\x1b[0m plain \x1b[2mdim\x1b[22;36m blue-green", 1.0)
    terminal.write("\r\n", 2.0)
    (row,) = terminal.list_rows()
    assert [(run.text, sorted(run.style)) for run in row.list_runs()] == [
        ("OK", ["bold", "green"]),
        (" plain ", []),
        ("dim", ["dim"]),
        (" blue-green", ["cyan"]),
    ]
    assert row.changed == 1.0


def test_commands_run_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    rows = make_recording.record(("cd inner", "pwd", "test -t 1 && tput cols"), tmp_path)
    assert [row.text for row in rows] == [
        "$ cd inner",
        "$ pwd",
        str(tmp_path / "inner"),
        "$ test -t 1 && tput cols",
        str(make_recording.COLUMNS),
    ]


def test_a_command_that_fails_ends_the_recording(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no-such-file"):
        make_recording.record(("cat no-such-file",), tmp_path)


def test_waits_are_shortened_and_rows_keep_their_order() -> None:
    rows = [Row([(c, frozenset())], changed) for c, changed in (("a", 0.0), ("b", 90.0), ("c", 90.0), ("d", 5.0))]
    seconds = [frame.second for frame in make_recording.time_rows(rows)]
    assert seconds == sorted(seconds) and seconds[-1] < 4


def test_a_picture_has_its_text_and_hostile_text_stays_text() -> None:
    text = "<script>alert(1)</script> & \"quotes\" 'single' ü → 漢"
    frames = make_recording.time_rows([Row([(c, frozenset({"red"})) for c in text])] * 40)
    svg = make_recording.draw(frames)
    assert make_recording.read_text(svg) == f"{text}\n" * 40
    assert "<script" not in svg


def test_the_picture_loads_nothing_and_runs_nothing() -> None:
    tree = ElementTree.fromstring(WRITTEN)
    assert {element.tag.rpartition("}")[2] for element in tree.iter()} <= {
        "svg", "title", "style", "rect", "circle", "g", "text", "tspan"
    }  # fmt: skip
    assert re.findall(r"(?:https?:)?//[^\"\s]+", WRITTEN) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"url\(|@import|@font-face|href|\son\w+=", WRITTEN)
    assert len(WRITTEN) < 60_000


def test_the_picture_is_of_the_commands_of_the_script() -> None:
    text = make_recording.read_text(WRITTEN)
    assert tuple(re.findall(r"^\$ (.*)$", text, re.MULTILINE)) == make_recording.COMMANDS
    assert max(map(len, text.splitlines())) <= make_recording.COLUMNS
