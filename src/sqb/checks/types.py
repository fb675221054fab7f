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


def type_words(kind: Any) -> str:
    """A type in Spark's words, whichever notation it came in: `BIGINT`, `"long"`, or Spark's or Iceberg's JSON."""
    match kind:
        case str() if kind.startswith(('"', "[", "{")):
            return type_words(json.loads(kind))
        case str():
            return _simple(kind)
        case {"type": "struct", "fields": fields}:
            return _struct((f["name"], f["type"]) for f in fields)
        case {"type": "array", "elementType": element}:
            return f"array<{type_words(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{type_words(key)},{type_words(value)}>"
        case ["struct", list(fields)]:
            return _struct((f[0], f[1]) for f in fields)
        case ["list", element, *_]:
            return f"array<{type_words(element)}>"
        case ["map", key, value, *_]:
            return f"map<{type_words(key)},{type_words(value)}>"
        case _:
            return ""


def _struct(fields: Iterable[tuple[str, Any]]) -> str:
    return f"struct<{','.join(f'{name}:{type_words(kind)}' for name, kind in fields)}>"


def _simple(text: str) -> str:
    text = re.sub(r"\s+", "", text.lower())
    text = re.sub(r"[a-z_]+(?=[,>(]|$)", lambda word: _WORDS.get(word[0], word[0]), text)
    return "decimal(10,0)" if text == "decimal" else re.sub(r"decimal\((\d+)\)", r"decimal(\1,0)", text)


def type_class(kind: Any) -> str | None:
    """The class of a type; None for one that is not known here, which no check refuses."""
    found = _NAME.match(type_words(kind))
    return _CLASSES.get(found[0]) if found else None


def is_time(text: str) -> bool:
    """Whether a text may be a date or a timestamp for Spark; only what surely is none is not."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return False
    _, month, day = (int(part) if part else 1 for part in found.groups())
    return 1 <= month <= 12 and 1 <= day <= 31


def comparable(kind: Any, other: Any) -> bool:
    """Whether values of two types are compared as what they are, and not by reading one as the other."""
    one, two = type_class(kind), type_class(other)
    return one is None or two is None or one == two or {one, two} <= TAKES["number"][0]


def fits(kind: Any, takes: str) -> bool:
    """Whether a check that takes `takes` can work on a type."""
    found = type_class(kind)
    return found is None or found in TAKES[takes][0]
