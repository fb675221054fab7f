"""The arguments of the decorators of Python nodes: which there are, and what each takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqb.errors import BadValue, Contradiction, Errors, MissingKey, UnknownKey
from sqb.names import At, did_you_mean, duration_seconds
from sqb.project.column_types import parse_type
from sqb.project.keys import WORDS


class Wrong(Exception):
    """A value that an argument does not take: what it takes, the way out, and what of the value is wrong."""

    def __init__(self, expected: str, hint: str | None = None, found: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint
        self.found = found


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a decorator as plain values, with the places of their values and of their names."""

    kind: str
    values: Mapping[str, Any]
    at: At
    places: Mapping[str, At]
    names: Mapping[str, At]

    def place(self, name: str) -> At:
        return self.places.get(name, self.at)


def check_options(given: Given, errors: Errors) -> dict[str, Any]:
    """The arguments in one form, those that were not given left out; what is wrong is reported and left out."""
    takes = arguments_of(given.kind)
    found: dict[str, Any] = {}
    for name, value in given.values.items():
        if name not in takes:
            hint = did_you_mean(name, takes) or f"@{given.kind} takes {', '.join(takes)}"
            at = given.names.get(name, given.at)
            errors.add(UnknownKey(f"@{given.kind} has no argument `{name}`", at=at, hint=hint))
            continue
        if value is None:
            continue
        try:
            found[name] = takes[name](value)
        except Wrong as wrong:
            message = f"`{name}` must be {wrong.expected}, not {wrong.found or shown(value)}"
            errors.add(BadValue(message, at=given.place(name), hint=wrong.hint))
    if given.kind == "loader":
        _check_loader(given, errors)
    return found


def arguments_of(kind: str) -> Mapping[str, Callable[[Any], Any]]:
    """What the decorator of a kind of node takes."""
    match kind:
        case "loader":
            return _LOADER
        case "check":
            return _CHECK
        case "model":
            return _MODEL
        case "task" | "asset":
            return _DEPENDENT
        case _:
            return _COMMON


def shown(value: Any) -> str:
    """A value as a message names it."""
    match value:
        case {"?": str(what)}:
            return what
        case str():
            return f'"{value}"'
        case dict():
            return "a mapping"
        case list():
            odd = next((item for item in value if not isinstance(item, str)), None)
            return "a list" if odd is None else f"a list with {shown(odd)}"
        case _:
            return str(value)


def _check_loader(given: Given, errors: Errors) -> None:
    values = {name: value for name, value in given.values.items() if value is not None}
    if "source" not in values:
        hint = 'name the source that it fills: @loader(source="raw.orders")'
        errors.add(MissingKey("a loader without `source`", at=given.at, hint=hint))
    mode = values.get("mode", "replace")
    if mode == "upsert" and "key" not in values:
        hint = 'name the columns that identify a row: key="id"'
        errors.add(MissingKey('`mode="upsert"` without `key`', at=given.place("mode"), hint=hint))
    if mode in ("replace", "append") and "key" in values:
        hint = 'write mode="upsert", or leave `key` out'
        errors.add(Contradiction(f'`key` means nothing with mode="{mode}"', at=given.place("key"), hint=hint))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("a text")
    return value.strip()


def _free_text(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong("a text")
    return value


def _names(value: Any) -> list[str]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
        raise Wrong("a name or a list of names")
    return list(dict.fromkeys(item.strip() for item in items))


def _key(value: Any) -> list[str]:
    found = _names(value)
    if not found:
        raise Wrong("a column or a list of columns")
    return found


def _duration(value: Any) -> str:
    seconds = duration_seconds(value) if isinstance(value, str) else None
    if seconds is None:
        hint = f'write "{value}s" for seconds' if isinstance(value, int) and not isinstance(value, bool) else None
        raise Wrong('a duration such as "30s", "10m" or "1h30m"', hint)
    if seconds == 0:
        raise Wrong("longer than nothing")
    return str(value).strip()


def _pause(value: Any) -> str:
    return value.strip() if isinstance(value, str) and duration_seconds(value) == 0 else _duration(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Wrong("a whole number from 0 on")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("True or False")
    return value


def _choice(*choices: str) -> Callable[[Any], str]:
    listed = " or ".join(f'"{c}"' for c in choices)

    def check(value: Any) -> str:
        if value not in choices:
            raise Wrong(listed, did_you_mean(value, choices) if isinstance(value, str) else None)
        return str(value)

    return check


def _columns(value: Any) -> dict[str, str]:
    takes, example = "columns with types of Spark's", 'for instance {"id": "bigint", "name": "string"}'
    if not isinstance(value, dict) or "?" in value:
        raise Wrong(takes, example)
    for column, kind in value.items():
        if not isinstance(kind, str) or parse_type(kind) is None:
            raise Wrong(takes, example, f"{shown(kind)} for {column}")
    return dict(value)


def _plain(value: Any) -> Any:
    """Any value without code in it: what a key of a model takes is said by the key."""
    match value:
        case {"?": _}:
            raise Wrong("a plain value")
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case _:
            return value


_COMMON: Mapping[str, Callable[[Any], Any]] = {
    "name": _text,
    "tags": _names,
    "description": _free_text,
    "timeout": _duration,
    "retries": _count,
    "retry_delay": _pause,
    "enabled": _flag,
}
_DEPENDENT = {"depends_on": _names, **_COMMON}
_LOADER = {
    "source": _text,
    "mode": _choice("replace", "append", "upsert"),
    "key": _key,
    "columns": _columns,
    **_DEPENDENT,
}
_CHECK = {"severity": _choice("error", "warn"), **_DEPENDENT}
_MODEL = {**dict.fromkeys(WORDS, _plain), **_DEPENDENT}
