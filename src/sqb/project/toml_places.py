"""Where each key and value of a TOML file stands: `tomllib` parses but keeps no places.

The scanner runs only on text that `tomllib` accepted, so it looks for ends of things and checks nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqb.errors import BadToml
from sqb.names import At, place
from sqb.project.entries import Entry

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key and its value stand."""

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
    """The text is not what the scanner expects; what was found so far stands."""


class _Scanner:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.pos = 0
        self.found: dict[KeyPath, Place] = {}
        self.array_sizes: dict[KeyPath, int] = {}

    def scan(self) -> Mapping[KeyPath, Place]:
        prefix: KeyPath = ()
        try:
            while self._peek():
                if self._peek() == "[":
                    prefix = self._header()
                else:
                    self._pair(prefix)
        except _Lost:
            pass
        return self.found

    def _peek(self) -> str:
        self.pos = self._match(_BLANK).end()
        return self.text[self.pos : self.pos + 1]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.pos)
        if found is None:
            raise _Lost
        return found

    def _at(self, start: int, end: int) -> At:
        newline = self.text.find("\n", start, end)
        return place(self.text, start, self.file, (newline if newline >= 0 else end) - start)

    def _header(self) -> KeyPath:
        double = self.text.startswith("[[", self.pos)
        self.pos += 2 if double else 1
        path = self._key(())
        self.pos += 2 if double else 1
        if double:
            index = self.array_sizes.get(path, 0)
            self.array_sizes[path] = index + 1
            self.found[(*path, index)] = self.found[path]
            return (*path, index)
        return path

    def _key(self, prefix: KeyPath) -> KeyPath:
        path = prefix
        while True:
            self.pos = self._match(_SPACE).end()
            quoted = self.text[self.pos : self.pos + 1] in ("'", '"')
            part = self._match(_STRING if quoted else _BARE_KEY)
            name = tomllib.loads(f"k = {part.group()}")["k"] if quoted else part.group()
            path = (*path, name)
            at = self._at(part.start(), part.end())
            # A table may be named many times; the first header that ends in it or passes through it is where it is.
            self.found.setdefault(path, Place(at, at))
            self.pos = part.end()
            self.pos = self._match(_SPACE).end()
            if self.text[self.pos : self.pos + 1] != ".":
                return path
            self.pos += 1

    def _pair(self, prefix: KeyPath) -> None:
        path = self._key(prefix)
        if self.text[self.pos : self.pos + 1] != "=":
            raise _Lost
        self.pos += 1
        start, end = self._value(path)
        self.found[path] = Place(self.found[path].key, self._at(start, end))

    def _value(self, path: KeyPath) -> tuple[int, int]:
        first = self._peek()
        start = self.pos
        match first:
            case '"' | "'":
                self.pos = self._match(_STRING).end()
                return start, self.pos
            case "[":
                self._items(path)
                return start, self.pos
            case "{":
                self._inline_table(path)
                return start, self.pos
            case _:
                scalar = self._match(_SCALAR)
                self.pos = scalar.end()
                return start, start + len(scalar.group().rstrip())

    def _items(self, path: KeyPath) -> None:
        self.pos += 1
        index = 0
        while self._peek() != "]":
            start, end = self._value((*path, index))
            at = self._at(start, end)
            self.found[(*path, index)] = Place(at, at)
            index += 1
            if self._peek() == ",":
                self.pos += 1
        self.pos += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.pos += 1
        while self._peek() != "}":
            self._pair(path)
            if self._peek() == ",":
                self.pos += 1
        self.pos += 1


def find_places(text: str, file: str) -> Mapping[KeyPath, Place]:
    """The place of every key path in a valid TOML text; list items count from 0."""
    return _Scanner(text, file).scan()


def parse_toml(text: str, file: str) -> dict[str, Entry]:
    """A TOML text as entries with places; raises BadToml at the place where it does not parse."""
    text = text.replace("\r\n", "\n")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad_toml(str(error), text, file) from None
    places = find_places(text, file)
    top = Place(At(file, 1, 1), At(file, 1, 1))
    table: dict[str, Entry] = _entry(data, (), top, places).value
    return table


def _entry(value: Any, path: KeyPath, parent: Place, places: Mapping[KeyPath, Place]) -> Entry:
    here = places.get(path, parent)
    match value:
        case dict():
            value = {key: _entry(item, (*path, key), here, places) for key, item in value.items()}
        case list():
            value = [_entry(item, (*path, index), here, places) for index, item in enumerate(value)]
    return Entry(value, here.value, here.key)


def _bad_toml(report: str, text: str, file: str) -> BadToml:
    found = _REPORTED.search(report)
    message = report[: found.start()] if found else report
    if found and found.group(1):
        at = At(file, int(found.group(1)), int(found.group(2)))
    else:
        at = place(text, len(text.rstrip()), file)
    return BadToml(f"this is not valid TOML: {message[:1].lower()}{message[1:]}", at=at)
