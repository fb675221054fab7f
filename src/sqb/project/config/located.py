"""Configuration as parsed, every key and value with its place; what TOML and YAML files are turned into first.

Knows the shapes of values (text, flag, table), not what any key means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from typing import Any

from sqb.errors.base import Errors
from sqb.errors.project import BadValue, UnknownKey
from sqb.light_dataclass import dataclass
from sqb.names import At, suggest_nearest
from sqb.project.values import Value


@dataclass(frozen=True, slots=True)
class Entry:
    """A scalar, a list of entries or a table of entries, with its places and, for YAML scalars, its text as written."""

    value: Any
    at: At
    key_at: At
    text: str = ""


def to_plain_value(entry: Entry) -> Value:
    """The value without its places; dates become their ISO text."""
    match entry.value:
        case dict() as table:
            return {key: to_plain_value(item) for key, item in table.items()}
        case list() as items:
            return [to_plain_value(item) for item in items]
        case date() | time() as moment:
            return moment.isoformat()
        case scalar:
            return scalar


def describe(value: Value) -> str:
    """A value as an error message names it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "a table"
        case list() | tuple():
            return "a list"
        case str():
            return f'"{value}"'
        case None:
            return "nothing"
        case other:
            return str(other)


def build_unknown_key(key: str, where: str, known: Iterable[str], at: At, instead: str | None = None) -> UnknownKey:
    """The error for a key that does not exist in `where`; `instead` is what another tool's key is here."""
    names = sorted(known)
    hint = (
        instead or suggest_nearest(key, names) or (f"known keys are {', '.join(names)}" if len(names) <= 16 else None)
    )
    return UnknownKey(f"unknown key `{key}` in {where}", at=at, hint=hint)


def iter_dotted(entries: Mapping[str, Entry], prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """The scalars of nested tables under their dotted names: `spark.x = 1` unquoted is a table in TOML."""
    for key, entry in entries.items():
        if isinstance(entry.value, dict):
            yield from iter_dotted(entry.value, f"{prefix}{key}.")
        else:
            yield prefix + key, entry


def format_option(value: Value) -> str | None:
    """A scalar as the text that Spark and Iceberg options are made of; None for anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Section:
    """A table being read: its entries, its name in messages, its place, and where errors go."""

    entries: Mapping[str, Entry]
    where: str
    at: At
    errors: Errors

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Report every key that is not known."""
        known = set(known)
        for key, entry in self.entries.items():
            if key not in known:
                self.errors.add(build_unknown_key(key, self.where, known, entry.key_at))

    def report(self, key: str, expected: str, hint: str | None = None) -> None:
        """Report the value of `key` as not being what it must be."""
        entry = self.entries[key]
        message = f"`{key}` must be {expected}, not {describe(entry.value)}"
        self.errors.add(BadValue(message, at=entry.at, hint=hint))

    def read_text(self, key: str) -> str | None:
        """The text under `key`; None when it is absent or wrong."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        if isinstance(entry.value, str):
            return entry.value
        scalar = not isinstance(entry.value, dict | list) and entry.value is not None
        self.report(key, "text", "put it in quotes" if scalar else None)
        return None

    def read_choice(self, key: str, choices: Iterable[str]) -> str | None:
        """The text under `key` when it is one of `choices`."""
        value = self.read_text(key)
        names = tuple(choices)
        if value is None or value in names:
            return value
        self.report(key, f"one of {', '.join(names)}", suggest_nearest(value, names))
        return None

    def read_flag(self, key: str) -> bool | None:
        """The boolean under `key`; None when it is absent or wrong."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        if isinstance(entry.value, bool):
            return entry.value
        self.report(key, "true or false")
        return None

    def read_table(self, key: str, where: str) -> Section:
        """The table under `key`, empty when it is absent or wrong."""
        entry = self.entries.get(key)
        if entry is not None and not isinstance(entry.value, dict):
            self.report(key, "a table")
            entry = None
        return Section(entry.value if entry else {}, where, entry.at if entry else self.at, self.errors)

    def read_options(self, key: str) -> dict[str, str]:
        """The table under `key` as option names and texts."""
        options = {}
        for name, entry in iter_dotted(self.read_table(key, f"`{key}`").entries):
            text = format_option(entry.value)
            if text is None:
                message = f"`{name}` in `{key}` must be text, a number or true/false, not {describe(entry.value)}"
                self.errors.add(BadValue(message, at=entry.at))
            else:
                options[name] = text
        return options
