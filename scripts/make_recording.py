"""Record a session in a terminal as a picture that moves: docs/images/terminal.svg, which the README shows.

The commands run in a real pseudo-terminal, one after the other, in a new folder. Each row appears when it was written;
long waits are shortened. The picture has no script, no font and no address in it: it is text and CSS.

`make recording` writes it. tests/cli/test_docs_output.py runs its commands and compares what they print, as for a page.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from html import escape
from pathlib import Path

from terminal import Row, Terminal

ROOT = Path(__file__).resolve().parents[1]
SVG = ROOT / "docs" / "images" / "terminal.svg"
COMMANDS = (
    "sqb init --example star coffee",
    "cd coffee",
    "sqb build",
    "sqb build --vars days=91  # a day of sales comes in",
    "sqb diff revenue_by_region  # the table, and its query over all rows",
)
COLUMNS, VISIBLE_ROWS = 100, 26
# How long a command is looked at before it runs, the longest wait that is shown, and the shortest between two rows.
_TYPED, _LONGEST, _SHORTEST = 1.2, 1.0, 0.06
_WIDTH, _HEIGHT, _MARGIN, _BAR = 8.0, 18.0, 16.0, 32.0
_COLOURS = {
    "red": "#f7768e",
    "green": "#9ece6a",
    "yellow": "#e0af68",
    "blue": "#7aa2f7",
    "magenta": "#bb9af7",
    "cyan": "#7dcfff",
    "black": "#8a90b0",
    "white": "#e6e8f2",
}
_SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True, slots=True)
class Frame:
    """A row of the recording and the second in which it appears."""

    row: Row
    second: float


def record(commands: tuple[str, ...], folder: Path) -> list[Row]:
    """Run commands in a pseudo-terminal, each as a user types it, and give all rows of the terminal."""
    terminal = Terminal(COLUMNS)
    begin = time.monotonic()
    for command in commands:
        terminal.write(f"\x1b[36m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n", time.monotonic() - begin)
        if command.startswith("cd "):
            folder = folder / command.removeprefix("cd ")
            continue
        _run(command, folder, terminal, begin)
    return terminal.list_rows()


def _run(command: str, folder: Path, terminal: Terminal, begin: float) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    env |= {"PATH": path, "TERM": "xterm-256color", "SQB_ENGINE": "off"}
    process = subprocess.Popen(command, shell=True, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        terminal.write(decoder.decode(data), time.monotonic() - begin)
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"`{command}` failed:\n" + "\n".join(row.text for row in terminal.list_rows()))


def time_rows(rows: list[Row]) -> list[Frame]:
    """When each row appears: as it was recorded, with waits of a length that one likes to look at."""
    frames: list[Frame] = []
    second, before, typed = 0.4, 0.0, False
    for row in rows:
        # A row that was written again later, such as one that a moving line had been in, appears with the row above it.
        waited = max(row.changed - before, 0.0)
        second += max(_TYPED if typed else 0.0, min(max(waited, _SHORTEST), _LONGEST))
        before, typed = max(before, row.changed), row.text.startswith("$ ")
        frames.append(Frame(row, round(second, 2)))
    return frames


def draw(frames: list[Frame]) -> str:
    """The recording as a picture: rows that appear, and move up once the window is full."""
    width = 2 * _MARGIN + COLUMNS * _WIDTH
    height = _BAR + 2 * _MARGIN + VISIBLE_ROWS * _HEIGHT
    end = frames[-1].second + 0.5
    lines = "\n".join(_draw_row(frame, number) for number, frame in enumerate(frames))
    colours = "".join(f".{name}{{fill:{value}}}" for name, value in _COLOURS.items())
    steps = _list_steps(frames, end)
    last = -max(len(frames) - VISIBLE_ROWS, 0) * _HEIGHT
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" role="img"
 viewBox="0 0 {width:g} {height:g}" width="{width:g}">
<title>sqb in a terminal: a star of 100,000 sales is built, a day of sales comes in, and nothing differs</title>
<style>
text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c8cde4;white-space:pre}}
.bold{{font-weight:bold}}.dim{{opacity:.6}}.underline{{text-decoration:underline}}{colours}
#rows{{transform:translateY({last:g}px)}}
@media (prefers-reduced-motion:no-preference){{
.row{{opacity:0;animation:show .01s linear forwards}}
@keyframes show{{to{{opacity:1}}}}
#rows{{animation:scroll {end:g}s step-end forwards}}
@keyframes scroll{{{steps}}}
}}
</style>
<rect width="{width:g}" height="{height:g}" rx="8" fill="#1a1b26"/>
<circle cx="18" cy="16" r="5" fill="#f7768e"/><circle cx="36" cy="16" r="5" fill="#e0af68"/>
<circle cx="54" cy="16" r="5" fill="#9ece6a"/>
<svg x="{_MARGIN:g}" y="{_BAR + 4:g}" width="{COLUMNS * _WIDTH:g}" height="{VISIBLE_ROWS * _HEIGHT + 6:g}">
<g id="rows">
{lines}
</g>
</svg>
</svg>
"""


def _draw_row(frame: Frame, number: int) -> str:
    parts, column = [], 0
    for run in frame.row.list_runs():
        names = f' class="{" ".join(sorted(run.style))}"' if run.style else ""
        place = f'x="{column * _WIDTH:g}" textLength="{len(run.text) * _WIDTH:g}"'
        parts.append(f'<tspan {place} lengthAdjust="spacingAndGlyphs"{names}>{escape(run.text, quote=False)}</tspan>')
        column += len(run.text)
    y = (number + 1) * _HEIGHT - 4
    return f'<text class="row" y="{y:g}" style="animation-delay:{frame.second:g}s">{"".join(parts)}</text>'


def _list_steps(frames: list[Frame], end: float) -> str:
    steps = ["0%{transform:translateY(0)}"]
    for number, frame in enumerate(frames[VISIBLE_ROWS:], 1):
        steps.append(f"{100 * frame.second / end:.2f}%{{transform:translateY({-number * _HEIGHT:g}px)}}")
    return "".join(steps)


def read_text(svg: str) -> str:
    """What a recording shows, as a dialogue: the commands and what they printed."""
    rows = ElementTree.fromstring(svg).iter(f"{_SVG}text")
    return "".join("".join(row.itertext()) + "\n" for row in rows)


def main() -> None:
    """Record and write."""
    with tempfile.TemporaryDirectory(prefix="sqb-recording-") as folder:
        rows = record(COMMANDS, Path(folder))
    SVG.write_text(draw(time_rows(rows)), encoding="utf-8")
    print(read_text(SVG.read_text(encoding="utf-8")), end="")


if __name__ == "__main__":
    main()
