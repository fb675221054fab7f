"""A terminal without a window: what a command writes, as rows of coloured text and when each was last written.

It knows what Rich and sqb write: colours, a moving last line, links. It has as many rows as are written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"\x1b\[(?P<parameters>[?0-9;]*)(?P<final>[A-Za-z])"
    r"|\x1b\](?:[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b[=>()][0-9A-B]?"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
    r"|(?P<text>[^\x00-\x1f\x7f]+)"
)
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_TAB = 8


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one style: names of colours, `bold`, `dim`, `underline`."""

    text: str
    style: frozenset[str]


@dataclass(slots=True)
class Row:
    """One row: its characters, their styles, and the moment of the last change."""

    cells: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    changed: float = 0.0

    @property
    def text(self) -> str:
        return "".join(char for char, _ in self.cells).rstrip()

    def list_runs(self) -> list[Run]:
        """The row in parts of one style, without spaces at its end."""
        runs: list[Run] = []
        for char, style in self.cells[: len(self.text)]:
            if runs and runs[-1].style == style:
                runs[-1] = Run(runs[-1].text + char, style)
            else:
                runs.append(Run(char, style))
        return runs


@dataclass
class Terminal:
    """The screen, the place of the cursor and the style in which it writes."""

    columns: int
    rows: list[Row] = field(default_factory=lambda: [Row()])
    row: int = 0
    column: int = 0
    style: frozenset[str] = frozenset()
    rest: str = ""

    def write(self, text: str, at: float = 0.0) -> None:
        """Show what was written at a moment; the beginning of a sequence waits for its end."""
        text, place = self.rest + text, 0
        while (token := _TOKEN.match(text, place)) is not None:
            place = token.end()
            if token["text"]:
                for char in token["text"]:
                    self._put(char, at)
            elif token["control"]:
                self._control(token["control"])
            elif token["final"]:
                self._act(token["final"], token["parameters"], at)
        self.rest = text[place:]

    def list_rows(self) -> list[Row]:
        """All rows up to the last one with text."""
        last = max((i for i, row in enumerate(self.rows) if row.text), default=-1)
        return self.rows[: last + 1]

    def _put(self, char: str, at: float) -> None:
        if self.column >= self.columns:
            self._move(self.row + 1, 0)
        row = self.rows[self.row]
        row.cells += [(" ", frozenset[str]())] * (self.column + 1 - len(row.cells))
        row.cells[self.column] = (char, self.style)
        row.changed = at
        self.column += 1

    def _move(self, row: int, column: int) -> None:
        self.row, self.column = max(row, 0), max(column, 0)
        self.rows += [Row() for _ in range(self.row + 1 - len(self.rows))]

    def _control(self, char: str) -> None:
        match char:
            case "\n":
                self._move(self.row + 1, self.column)
            case "\r":
                self.column = 0
            case "\b":
                self.column = max(self.column - 1, 0)
            case "\t":
                self.column += _TAB - self.column % _TAB

    def _act(self, final: str, parameters: str, at: float) -> None:
        if parameters.startswith("?"):
            return
        numbers = [int(n or 0) for n in parameters.split(";")]
        count = max(numbers[0], 1)
        match final:
            case "A":
                self._move(self.row - count, self.column)
            case "B":
                self._move(self.row + count, self.column)
            case "C":
                self.column += count
            case "D":
                self.column = max(self.column - count, 0)
            case "G":
                self.column = count - 1
            case "K":
                self._erase_row(numbers[0], at)
            case "J" if numbers[0] == 0:
                self._erase_row(0, at)
                del self.rows[self.row + 1 :]
            case "m":
                self._set_style(numbers)

    def _erase_row(self, mode: int, at: float) -> None:
        row = self.rows[self.row]
        if mode == 0:
            del row.cells[self.column :]
        elif mode == 2:
            row.cells.clear()
        row.changed = at

    def _set_style(self, numbers: list[int]) -> None:
        for number in numbers:
            if number == 0:
                self.style = frozenset()
            elif number in (1, 2, 4):
                self.style |= {{1: "bold", 2: "dim", 4: "underline"}[number]}
            elif number in (22, 24):
                self.style -= {"bold", "dim"} if number == 22 else {"underline"}
            elif number == 39 or 30 <= number <= 37 or 90 <= number <= 97:
                self.style -= set(_COLOURS)
                if number != 39:
                    self.style |= {_COLOURS[number % 10]}
