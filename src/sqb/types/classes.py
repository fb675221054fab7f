"""Classes of column types, in Spark's or Iceberg's words, and which of them a check can work on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_WORDS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "numeric": "decimal",
    "dec": "decimal",
    "bool": "boolean",
    "text": "string",
    "uuid": "string",
    "timestamptz": "timestamp",
    "timestamp_ltz": "timestamp",
}
_CLASSES = {
    "tinyint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bigint": "integer",
    "decimal": "decimal",
    "float": "float",
    "double": "float",
    "string": "text",
    "varchar": "text",
    "char": "text",
    "boolean": "boolean",
    "date": "time",
    "timestamp": "time",
    "timestamp_ntz": "time",
    "binary": "binary",
    "fixed": "binary",
    "array": "array",
    "list": "array",
    "map": "map",
    "struct": "struct",
}
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
_NAME = re.compile(r"[a-z_]+")
_TIME = re.compile(r"[+-]?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)


def normalize_type(kind: Any) -> str:
    """A type in Spark's words, whichever notation it came in: `BIGINT`, `"long"`, or Spark's or Iceberg's JSON."""
    match kind:
        case str() if kind.startswith(('"', "[", "{")):
            return normalize_type(json.loads(kind))
        case str():
            return _normalize_simple(kind)
        case {"type": "struct", "fields": fields}:
            return _format_struct((f["name"], f["type"]) for f in fields)
        case {"type": "array", "elementType": element}:
            return f"array<{normalize_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{normalize_type(key)},{normalize_type(value)}>"
        case ["struct", list(fields)]:
            return _format_struct((f[0], f[1]) for f in fields)
        case ["list", element, *_]:
            return f"array<{normalize_type(element)}>"
        case ["map", key, value, *_]:
            return f"map<{normalize_type(key)},{normalize_type(value)}>"
        case _:
            return ""


def _format_struct(fields: Iterable[tuple[str, Any]]) -> str:
    return f"struct<{','.join(f'{name}:{normalize_type(kind)}' for name, kind in fields)}>"


def _normalize_simple(text: str) -> str:
    text = re.sub(r"\s+", "", text.lower())
    text = re.sub(r"[a-z_]+(?=[,>(]|$)", lambda word: _WORDS.get(word[0], word[0]), text)
    return "decimal(10,0)" if text == "decimal" else re.sub(r"decimal\((\d+)\)", r"decimal(\1,0)", text)


def classify_type(kind: Any) -> str | None:
    """The class of a type; None for one that is not known here, which no check refuses."""
    match = _NAME.match(normalize_type(kind))
    return _CLASSES.get(match[0]) if match else None


def is_time(text: str) -> bool:
    """Whether a text may be a date or a timestamp for Spark; only what surely is none is not."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return False
    _, month, day = (int(part) if part else 1 for part in match.groups())
    return 1 <= month <= 12 and 1 <= day <= 31


def is_comparable(kind: Any, other: Any) -> bool:
    """Whether values of two types are compared as what they are, and not by reading one as the other."""
    left, right = classify_type(kind), classify_type(other)
    return left is None or right is None or left == right or {left, right} <= TAKES["number"][0]


def is_type_accepted(kind: Any, takes: str) -> bool:
    """Whether a check that takes `takes` can work on a type."""
    type_class = classify_type(kind)
    return type_class is None or type_class in TAKES[takes][0]
