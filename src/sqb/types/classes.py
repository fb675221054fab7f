"""Classes of column types, and which of them a check can work on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqb.types import model as m
from sqb.types.model import ArrayType, DecimalType, MapType, SimpleType, StructType, Type

_FLAT = frozenset({"integer", "decimal", "float", "text", "boolean", "time"})
_ORDERABLE = _FLAT | {"binary", "array", "struct"}

# What a check takes, by the word that its documentation uses, and how an error says it.
TAKES: Mapping[str, tuple[frozenset[str], str]] = {
    "any": (_ORDERABLE | {"map"}, "any type"),
    "comparable": (_ORDERABLE, "a type whose values can be compared"),
    "flat": (_FLAT, "a number, text, boolean, date or timestamp"),
    "number": (frozenset({"integer", "decimal", "float"}), "a number"),
    "exact": (frozenset({"integer", "decimal"}), "an integer or a decimal"),
    "text": (frozenset({"text"}), "text"),
    "text or time": (frozenset({"text", "time"}), "text, a date or a timestamp"),
    "text or bytes": (frozenset({"text", "binary"}), "text or binary"),
    "text or collection": (frozenset({"text", "binary", "array", "map"}), "text, an array or a map"),
    "time": (frozenset({"time"}), "a date or a timestamp"),
    "boolean": (frozenset({"boolean"}), "a boolean"),
}
_TIME = re.compile(r"[+-]?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)


def classify_type(kind: Type) -> str | None:
    """The class of a type; None for one that no check refuses, as it is not known here."""
    match kind:
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case StructType():
            return "struct"
        case DecimalType():
            return "decimal"
        case SimpleType("date" | "timestamp" | "timestamp_ntz"):
            return "time"
        case SimpleType("boolean" | "binary" as name):
            return name
        case _ if m.is_integer(kind):
            return "integer"
        case _ if m.is_fraction(kind):
            return "float"
        case _:
            return "text" if m.is_text(kind) else None


def is_time(text: str) -> bool:
    """Whether a text may be a date or a timestamp for Spark; only what surely is none is not."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return False
    _, month, day = (int(part) if part else 1 for part in match.groups())
    return 1 <= month <= 12 and 1 <= day <= 31


def is_comparable(kind: Type, other: Type) -> bool:
    """Whether values of two types are compared as what they are, and not by reading one as the other."""
    left, right = classify_type(kind), classify_type(other)
    return left is None or right is None or left == right or {left, right} <= TAKES["number"][0]


def is_type_accepted(kind: Type, takes: str) -> bool:
    """Whether a check that takes `takes` can work on a type."""
    type_class = classify_type(kind)
    return type_class is None or type_class in TAKES[takes][0]
