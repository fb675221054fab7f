"""Where each key and value of a TOML file is: `tomllib` parses but keeps no places.

The scanner runs only on text that `tomllib` accepted, so it looks for ends of things and checks nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from sqb.errors.project import BadToml
from sqb.light_dataclass import dataclass
from sqb.names import At, locate_offset
from sqb.project.config.located import Entry

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a key and its value are."""

    key: At
    value: At


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")' r"|'''.*?'{3,5}(?!')" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")
_REPORTED = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


class _Lost(Exception):
    """The text is not what the scanner expects; what was read so far counts."""


class _Scanner:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.pos = 0
        self.places: dict[KeyPath, KeyPlace] = {}
        self.array_sizes: dict[KeyPath, int] = {}

    def scan(self) -> Mapping[KeyPath, KeyPlace]:
        prefix: KeyPath = ()
        try:
            while self._peek():
                if self._peek() == "[":
                    prefix = self._scan_header()
                else:
                    self._scan_pair(prefix)
        except _Lost:
            pass
        return self.places

    def _peek(self) -> str:
        self.pos = self._match(_BLANK).end()
        return self.text[self.pos : self.pos + 1]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self.text, self.pos)
        if match is None:
            raise _Lost
        return match

    def _locate(self, start: int, end: int) -> At:
        newline = self.text.find("\n", start, end)
        return locate_offset(self.text, start, self.file, (newline if newline >= 0 else end) - start)

    def _scan_header(self) -> KeyPath:
        double = self.text.startswith("[[", self.pos)
        self.pos += 2 if double else 1
        path = self._scan_key(())
        self.pos += 2 if double else 1
        if double:
            index = self.array_sizes.get(path, 0)
            self.array_sizes[path] = index + 1
            self.places[(*path, index)] = self.places[path]
            return (*path, index)
        return path

    def _scan_key(self, prefix: KeyPath) -> KeyPath:
        path = prefix
        while True:
            self.pos = self._match(_SPACE).end()
            quoted = self.text[self.pos : self.pos + 1] in ("'", '"')
            part = self._match(_STRING if quoted else _BARE_KEY)
            name = tomllib.loads(f"k = {part.group()}")["k"] if quoted else part.group()
            path = (*path, name)
            at = self._locate(part.start(), part.end())
            # A table may be named many times; the first header that ends in it or passes through it is where it is.
            self.places.setdefault(path, KeyPlace(at, at))
            self.pos = part.end()
            self.pos = self._match(_SPACE).end()
            if self.text[self.pos : self.pos + 1] != ".":
                return path
            self.pos += 1

    def _scan_pair(self, prefix: KeyPath) -> None:
        path = self._scan_key(prefix)
        if self.text[self.pos : self.pos + 1] != "=":
            raise _Lost
        self.pos += 1
        start, end = self._scan_value(path)
        self.places[path] = KeyPlace(self.places[path].key, self._locate(start, end))

    def _scan_value(self, path: KeyPath) -> tuple[int, int]:
        first = self._peek()
        start = self.pos
        match first:
            case '"' | "'":
                self.pos = self._match(_STRING).end()
                return start, self.pos
            case "[":
                self._scan_items(path)
                return start, self.pos
            case "{":
                self._scan_inline_table(path)
                return start, self.pos
            case _:
                scalar = self._match(_SCALAR)
                self.pos = scalar.end()
                return start, start + len(scalar.group().rstrip())

    def _scan_items(self, path: KeyPath) -> None:
        self.pos += 1
        index = 0
        while self._peek() != "]":
            start, end = self._scan_value((*path, index))
            at = self._locate(start, end)
            self.places[(*path, index)] = KeyPlace(at, at)
            index += 1
            if self._peek() == ",":
                self.pos += 1
        self.pos += 1

    def _scan_inline_table(self, path: KeyPath) -> None:
        self.pos += 1
        while self._peek() != "}":
            self._scan_pair(path)
            if self._peek() == ",":
                self.pos += 1
        self.pos += 1


def find_places(text: str, file: str) -> Mapping[KeyPath, KeyPlace]:
    """The place of every key path in a valid TOML text; list items count from 0."""
    return _Scanner(text, file).scan()


def parse_toml(text: str, file: str) -> dict[str, Entry]:
    """A TOML text as entries with places; raises BadToml at the place where it does not parse."""
    text = text.replace("\r\n", "\n")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _build_error(str(error), text, file) from None
    places = find_places(text, file)
    top = KeyPlace(At(file, 1, 1), At(file, 1, 1))
    table: dict[str, Entry] = _build_entry(data, (), top, places).value
    return table


def _build_entry(value: Any, path: KeyPath, parent: KeyPlace, places: Mapping[KeyPath, KeyPlace]) -> Entry:
    here = places.get(path, parent)
    match value:
        case dict():
            value = {key: _build_entry(item, (*path, key), here, places) for key, item in value.items()}
        case list():
            value = [_build_entry(item, (*path, index), here, places) for index, item in enumerate(value)]
    return Entry(value, here.value, here.key)


def _build_error(report: str, text: str, file: str) -> BadToml:
    match = _REPORTED.search(report)
    message = report[: match.start()] if match else report
    if match and match.group(1):
        at = At(file, int(match.group(1)), int(match.group(2)))
    else:
        at = locate_offset(text, len(text.rstrip()), file)
    return BadToml(f"this is not valid TOML: {message[:1].lower()}{message[1:]}", at=at)
