"""The arguments of the decorators of Python nodes: which there are, and what each takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqb.errors.base import Errors
from sqb.errors.project import BadValue, Contradiction, MissingKey, UnknownKey
from sqb.names import At, parse_duration, suggest_nearest
from sqb.project.models.keys import WORDS
from sqb.types.iceberg import parse_storable_type


class BadOption(Exception):
    """A value that an argument does not take: what it takes, the way out, and what of the value is wrong."""

    def __init__(self, expected: str, hint: str | None = None, actual: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint
        self.found = actual


@dataclass(frozen=True, slots=True)
class DecoratorArguments:
    """The arguments of a decorator as plain values, with the places of their values and of their names."""

    kind: str
    values: Mapping[str, Any]
    at: At
    places: Mapping[str, At]
    names: Mapping[str, At]

    def locate(self, name: str) -> At:
        return self.places.get(name, self.at)


def check_options(arguments: DecoratorArguments, errors: Errors) -> dict[str, Any]:
    """The arguments in one form, those that were not given left out; what is wrong is reported and left out."""
    takes = get_argument_parsers(arguments.kind)
    options: dict[str, Any] = {}
    for name, value in arguments.values.items():
        if name not in takes:
            hint = suggest_nearest(name, takes) or f"@{arguments.kind} takes {', '.join(takes)}"
            at = arguments.names.get(name, arguments.at)
            errors.add(UnknownKey(f"@{arguments.kind} has no argument `{name}`", at=at, hint=hint))
            continue
        if value is None:
            continue
        try:
            options[name] = takes[name](value)
        except BadOption as wrong:
            message = f"`{name}` must be {wrong.expected}, not {wrong.found or format_value(value)}"
            errors.add(BadValue(message, at=arguments.locate(name), hint=wrong.hint))
    if arguments.kind == "loader":
        _check_loader(arguments, errors)
    return options


def get_argument_parsers(kind: str) -> Mapping[str, Callable[[Any], Any]]:
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


def format_value(value: Any) -> str:
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
            return "a list" if odd is None else f"a list with {format_value(odd)}"
        case _:
            return str(value)


def _check_loader(arguments: DecoratorArguments, errors: Errors) -> None:
    values = {name: value for name, value in arguments.values.items() if value is not None}
    if "source" not in values:
        hint = 'name the source that it fills: @loader(source="raw.orders")'
        errors.add(MissingKey("a loader without `source`", at=arguments.at, hint=hint))
    mode = values.get("mode", "replace")
    if mode == "upsert" and "key" not in values:
        hint = 'name the columns that identify a row: key="id"'
        errors.add(MissingKey('`mode="upsert"` without `key`', at=arguments.locate("mode"), hint=hint))
    if mode in ("replace", "append") and "key" in values:
        hint = 'write mode="upsert", or leave `key` out'
        errors.add(Contradiction(f'`key` means nothing with mode="{mode}"', at=arguments.locate("key"), hint=hint))


def _check_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadOption("a text")
    return value.strip()


def _check_free_text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadOption("a text")
    return value


def _check_names(value: Any) -> list[str]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
        raise BadOption("a name or a list of names")
    return list(dict.fromkeys(item.strip() for item in items))


def _check_key(value: Any) -> list[str]:
    names = _check_names(value)
    if not names:
        raise BadOption("a column or a list of columns")
    return names


def _check_duration(value: Any) -> str:
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None:
        hint = f'write "{value}s" for seconds' if isinstance(value, int) and not isinstance(value, bool) else None
        raise BadOption('a duration such as "30s", "10m" or "1h30m"', hint)
    if seconds == 0:
        raise BadOption("longer than nothing")
    return str(value).strip()


def _check_pause(value: Any) -> str:
    return value.strip() if isinstance(value, str) and parse_duration(value) == 0 else _check_duration(value)


def _check_count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadOption("a whole number from 0 on")
    return value


def _check_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadOption("True or False")
    return value


def _build_choice_check(*choices: str) -> Callable[[Any], str]:
    listed = " or ".join(f'"{c}"' for c in choices)

    def check(value: Any) -> str:
        if value not in choices:
            raise BadOption(listed, suggest_nearest(value, choices) if isinstance(value, str) else None)
        return str(value)

    return check


def _check_columns(value: Any) -> dict[str, str]:
    takes, example = "columns with types of Spark's", 'for instance {"id": "bigint", "name": "string"}'
    if not isinstance(value, dict) or "?" in value:
        raise BadOption(takes, example)
    for column, kind in value.items():
        if not isinstance(kind, str) or parse_storable_type(kind) is None:
            raise BadOption(takes, example, f"{format_value(kind)} for {column}")
    return dict(value)


def _check_plain(value: Any) -> Any:
    """Any value without code in it: what a key of a model takes is said by the key."""
    match value:
        case {"?": _}:
            raise BadOption("a plain value")
        case list():
            return [_check_plain(item) for item in value]
        case dict():
            return {name: _check_plain(item) for name, item in value.items()}
        case _:
            return value


_COMMON: Mapping[str, Callable[[Any], Any]] = {
    "name": _check_text,
    "tags": _check_names,
    "description": _check_free_text,
    "timeout": _check_duration,
    "retries": _check_count,
    "retry_delay": _check_pause,
    "enabled": _check_flag,
}
_DEPENDENT = {"depends_on": _check_names, **_COMMON}
_LOADER = {
    "source": _check_text,
    "mode": _build_choice_check("replace", "append", "upsert"),
    "key": _check_key,
    "columns": _check_columns,
    **_DEPENDENT,
}
_CHECK = {"severity": _build_choice_check("error", "warn"), **_DEPENDENT}
_MODEL = {**dict.fromkeys(WORDS, _check_plain), **_DEPENDENT}
