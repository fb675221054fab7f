"""What filters, tests, methods and operators of Jinja's give, for values that are known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqb.dbt.convert.jinja.problems import Unconvertible

# The place in a rendered text of what is decided when the whole text is there: a reference, a variable, a macro.
MARK = "__sqb_mark_"


class Undefined:
    """A name that has no value; it is false and prints nothing."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return ""


UNDEFINED = Undefined()

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "in": lambda left, right: left in right,
}
_JOINING = ("+",)

_METHODS: Mapping[type, tuple[str, ...]] = {
    str: (
        *("upper", "lower", "strip", "lstrip", "rstrip", "replace", "split", "startswith", "endswith", "title"),
        *("join", "format", "capitalize", "zfill", "count", "find"),
    ),
    list: ("append", "extend", "insert", "index", "count", "pop"),
    dict: ("items", "keys", "values", "get", "update"),
    tuple: ("index", "count"),
}
_JOINING_METHODS = ("join", "strip", "append", "extend", "insert", "items", "keys", "values", "get", "update", "pop")


def is_marked(*values: object) -> bool:
    """Whether a text among these is not yet what it will be."""
    return any(isinstance(value, str) and MARK in value for value in values)


def _require_known(what: str, *values: object) -> None:
    if is_marked(*values):
        raise Unconvertible(what, "what it is applied to is known only when the model is built")
    if any(isinstance(value, Undefined) for value in values):
        raise Unconvertible(what, "a name in it has no value")


def combine(sign: str, left: object, right: object) -> object:
    """The value of two values and the operator between them."""
    if sign == "~":
        return format_output(left) + format_output(right)
    if sign not in _JOINING:
        _require_known(f"`{sign}`", left, right)
    try:
        return _OPERATORS[sign](left, right)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise Unconvertible(f"`{sign}`", str(error)) from None


def format_output(value: object) -> str:
    """A value as `{{ … }}` prints it."""
    if callable(value):
        raise Unconvertible("a macro without brackets", "it has no text")
    return str(value)


def find_method(owner: object, name: str) -> Callable[..., Any] | None:
    """A method of a text, a list or a mapping that changes nothing else."""
    for kind, names in _METHODS.items():
        if isinstance(owner, kind) and name in names:
            if name not in _JOINING_METHODS:
                _require_known(f"`.{name}`", owner)
            method: Callable[..., Any] = getattr(owner, name)
            return method
    return None


def apply_filter(name: str, value: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """The value of `value | name(arguments)`."""
    if name not in _FILTERS:
        raise Unconvertible(f"the filter `{name}`", "it is not known here")
    if name not in ("join", "list", "default", "d", "string", "safe", "trim", "as_text", "as_native", "first", "last"):
        _require_known(f"the filter `{name}`", value)
    try:
        return _FILTERS[name](value, *arguments, **named)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise Unconvertible(f"the filter `{name}`", str(error)) from None


def _join(values: Any, by: str = "") -> str:
    return by.join(format_output(value) for value in values)


def _choose_default(value: Any, other: Any = "", boolean: bool = False) -> Any:
    return other if isinstance(value, Undefined) or (boolean and not value) else value


def _map(values: Any, name: str = "", *arguments: Any, attribute: str = "") -> list[Any]:
    if attribute:
        return [value[attribute] for value in values]
    return [apply_filter(name, value, arguments, {}) for value in values]


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "upper": lambda value: str(value).upper(),
    "lower": lambda value: str(value).lower(),
    "trim": lambda value: str(value).strip(),
    "title": lambda value: str(value).title(),
    "capitalize": lambda value: str(value).capitalize(),
    "replace": lambda value, old, new: str(value).replace(old, new),
    "join": _join,
    "length": len,
    "count": len,
    "list": list,
    "default": _choose_default,
    "d": _choose_default,
    "first": lambda values: next(iter(values)),
    "last": lambda values: list(values)[-1],
    "int": lambda value, default=0: int(float(value)) if str(value).strip() else default,
    "float": float,
    "round": lambda value, digits=0: round(float(value), digits),
    "abs": abs,
    "string": str,
    "safe": lambda value: value,
    "as_text": lambda value: value,
    "as_native": lambda value: value,
    "as_bool": lambda value: value,
    "as_number": lambda value: value,
    "unique": lambda values: list(dict.fromkeys(values)),
    "sort": lambda values, reverse=False: sorted(values, reverse=reverse),
    "reverse": lambda values: list(reversed(values)),
    "sum": sum,
    "min": min,
    "max": max,
    "map": _map,
}


def apply_test(name: str, value: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether `value is name`."""
    if name in ("defined", "undefined"):
        return isinstance(value, Undefined) == (name == "undefined")
    if name not in _TESTS:
        raise Unconvertible(f"the test `{name}`", "it is not known here")
    return bool(_TESTS[name](value, *arguments))


_TESTS: Mapping[str, Callable[..., bool]] = {
    "none": lambda value: value is None,
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "mapping": lambda value: isinstance(value, dict),
    "iterable": lambda value: isinstance(value, str | list | tuple | dict),
    "sequence": lambda value: isinstance(value, str | list | tuple),
    "even": lambda value: value % 2 == 0,
    "odd": lambda value: value % 2 == 1,
    "divisibleby": lambda value, by: value % by == 0,
    "equalto": lambda value, other: value == other,
    "eq": lambda value, other: value == other,
    "in": lambda value, values: value in values,
}
