"""Types of columns as Spark writes them, and values of them: what rows that people write down mean.

A type is a name such as `bigint` or `decimal(10,2)`, or `("array", t)`, `("map", k, v)`, `("struct", ((name, t), …))`.
A value is canonical: equal values of one type are equal in Python and can be hashed, NaN and NULL included.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from sqb.names import quote, suggest_nearest
from sqb.types.literals import format_literal
from sqb.types.text import parse_value

Type = Any

_SYNONYMS = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "bool": "boolean",
    "real": "float",
    "text": "string",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
    "null": "void",
}
_INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_SIMPLE = frozenset(
    (*_INTEGERS, "boolean", "float", "double", "date", "timestamp", "timestamp_ntz", "string", "binary", "variant")
)
_WORD = re.compile(r"\s*([A-Za-z_]\w*(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?|`(?:``|[^`])*`|[<>,:])")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_CHARACTERS = re.compile(r"(?:var)?char\(\d+\)|string collate .*")
_NOT_A_NUMBER = "NaN"


# --- types ----------------------------------------------------------------------------------------------------------


def parse_type(text: str) -> Type | None:
    """The type that a text such as `array<struct<a: int>>` stands for; None when there is no such type."""
    words: list[str] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            return None
        word = match[1]
        words.append(word if word.startswith("`") else "".join(word.split()))
        position = match.end()
    try:
        kind, rest = _parse_words(words)
    except (IndexError, ValueError):
        return None
    return None if rest else kind


def _parse_words(words: list[str]) -> tuple[Type, list[str]]:
    name, rest = words[0].lower(), words[1:]
    if name in ("array", "map", "struct") and rest[:1] == ["<"]:
        parts, rest = _parse_parts(rest[1:], named=name == "struct")
        if len(parts) != {"array": 1, "map": 2}.get(name, len(parts)):
            raise ValueError(name)
        return (name, tuple(parts)) if name == "struct" else (name, *parts), rest
    return _parse_simple(name), rest


def _parse_parts(words: list[str], named: bool) -> tuple[list[Any], list[str]]:
    parts: list[Any] = []
    while words[0] != ">":
        if parts:
            if words[0] != ",":
                raise ValueError(words[0])
            words = words[1:]
        if named:
            field = words[0]
            part_type, words = _parse_words(words[2:] if words[1] == ":" else words[1:])
            parts.append((field.strip("`").replace("``", "`"), part_type))
        else:
            part_type, words = _parse_words(words)
            parts.append(part_type)
    return parts, words[1:]


def _parse_simple(name: str) -> str:
    base, bracket, inside = name.partition("(")
    base = _SYNONYMS.get(base, base)
    if base == "decimal":
        precision, _, scale = inside.removesuffix(")").partition(",") if bracket else ("10", "", "0")
        if not 1 <= int(precision) <= 38 or int(scale or 0) > int(precision):
            raise ValueError(name)
        return f"decimal({int(precision)},{int(scale or 0)})"
    if (base in ("varchar", "char") and bracket) or (base == "varchar"):
        return "string"
    if base not in _SIMPLE or bracket:
        raise ValueError(name)
    return base


def from_json_type(kind: Any) -> Type:
    """A type in Spark's JSON notation."""
    match kind:
        case {"type": "array", "elementType": element}:
            return ("array", from_json_type(element))
        case {"type": "map", "keyType": key, "valueType": value}:
            return ("map", from_json_type(key), from_json_type(value))
        case {"type": "struct", "fields": fields}:
            return ("struct", tuple((f["name"], from_json_type(f["type"])) for f in fields))
        case str() if _CHARACTERS.fullmatch(kind):
            return "string"
        case str():
            return _SYNONYMS.get(kind, kind.replace(", ", ","))
        case _:
            return "string"


def format_sql_type(kind: Type) -> str:
    """A type as it is written in SQL."""
    match kind:
        case ("array", element):
            return f"ARRAY<{format_sql_type(element)}>"
        case ("map", key, value):
            return f"MAP<{format_sql_type(key)}, {format_sql_type(value)}>"
        case ("struct", fields):
            return "STRUCT<" + ", ".join(f"{quote(name)}: {format_sql_type(part)}" for name, part in fields) + ">"
        case _:
            return str(kind).upper()


def to_collected_type(kind: Type) -> Type:
    """The type as which a value leaves Spark: times as text, as Python's know neither Spark's zone nor its range."""
    match kind:
        case ("array", element):
            return ("array", to_collected_type(element))
        case ("map", key, value):
            return ("map", to_collected_type(key), to_collected_type(value))
        case ("struct", fields):
            return ("struct", tuple((name, to_collected_type(part)) for name, part in fields))
        case "boolean" | "float" | "double" | "binary" | "void":
            return kind
        case str() if kind in _INTEGERS or _DECIMAL.fullmatch(kind):
            return kind
        case _:
            return "string"


# --- values as people write them ------------------------------------------------------------------------------------
#
# A cell is what YAML or CSV holds, as plain data: None, a boolean, a number, a text, or a list that begins with what it
# is: ["int", text, as written], ["float", text, as written], ["date", …], ["timestamp", …], ["bool", …],
# ["binary", hex], ["list", cells], ["map", [[key, cell], …]].


def format_cell(cell: Any) -> str:
    """A scalar as it was written."""
    match cell:
        case bool():
            return "true" if cell else "false"
        case [str(), str() as text]:
            return text
        case [str(), _, str() as written]:
            return written
        case _:
            return str(cell)


def describe_cell(cell: Any) -> str:
    """A cell as an error names it."""
    match cell:
        case None:
            return "NULL"
        case str():
            return f'"{cell}"'
        case ["list", _]:
            return "a list"
        case ["map", _]:
            return "a mapping"
        case _:
            return format_cell(cell)


def infer_cell_type(cell: Any) -> Type | None:
    """The type that a cell has by itself; None for NULL."""
    match cell:
        case None:
            return None
        case bool() | ["bool", *_]:
            return "boolean"
        case int() | ["int", *_]:
            return "bigint"
        case ["float", *_]:
            return "double"
        case ["date", *_]:
            return "date"
        case ["timestamp", *_]:
            return "timestamp"
        case ["binary", _]:
            return "binary"
        case ["list", cells]:
            return ("array", infer_common_type(cells))
        case ["map", pairs]:
            return ("struct", tuple((key, infer_cell_type(value) or "string") for key, value in pairs))
        case _:
            return "string"


def infer_common_type(cells: Any) -> Type:
    """One type for all cells of a column: numbers widen, anything else that differs is text."""
    kinds = list(dict.fromkeys(kind for cell in cells if (kind := infer_cell_type(cell)) is not None))
    match kinds:
        case []:
            return "string"
        case [one]:
            return one
        case _ if set(kinds) <= {"bigint", "double"}:
            return "double"
        case _ if set(kinds) <= {"date", "timestamp"}:
            return "timestamp"
        case _ if all(isinstance(kind, tuple) and kind[0] == "struct" for kind in kinds):
            names = dict.fromkeys(name for kind in kinds for name, _ in kind[1])
            fields = ((n, infer_common_type([dict(c[1]).get(n) for c in cells if c is not None])) for n in names)
            return ("struct", tuple(fields))
        case _ if all(isinstance(kind, tuple) and kind[0] == "array" for kind in kinds):
            return ("array", infer_common_type([item for c in cells if c is not None for item in c[1]]))
        case _:
            return "string"


def convert_cell(kind: Type, cell: Any, zone: ZoneInfo | None = None) -> Any:
    """The canonical value that a cell stands for in a type; raises ValueError when it cannot be one.

    Numbers keep what was written: 9.5 is not a whole number, but may still be expected of a column of them.
    """
    if cell is None:
        return None
    match kind, cell:
        case ("array", element), ["list", cells]:
            return tuple(convert_cell(element, item, zone) for item in cells)
        case ("map", key, value), ["map", pairs]:
            return frozenset((convert_cell(key, k, zone), convert_cell(value, v, zone)) for k, v in pairs)
        case ("struct", fields), ["map", pairs]:
            return _convert_struct(fields, pairs, zone)
        case ("struct", fields), ["list", cells] if len(cells) == len(fields):
            return tuple(convert_cell(part, item, zone) for (_, part), item in zip(fields, cells, strict=True))
        case (tuple(), _) | (_, ["list" | "map", _]):
            raise ValueError("")
        case _:
            return _convert_scalar(kind, cell, zone)


def _convert_struct(fields: Any, pairs: Any, zone: ZoneInfo | None) -> tuple[Any, ...]:
    known = {name.lower(): name for name, _ in fields}
    values = {key.lower(): value for key, value in pairs}
    for key, _ in pairs:
        if key.lower() not in known:
            raise ValueError(f'no field is called "{key}"' + _format_hint(suggest_nearest(key, known.values())))
    return tuple(convert_cell(part, values.get(name.lower()), zone) for name, part in fields)


def _format_hint(hint: str | None) -> str:
    return f": {hint}" if hint else ""


def _convert_scalar(kind: str, cell: Any, zone: ZoneInfo | None) -> Any:
    text = format_cell(cell)
    canonical = cell[1] if isinstance(cell, list) else text
    match kind:
        case "boolean":
            return parse_value("boolean", canonical)
        case "binary":
            return bytes.fromhex(cell[1]) if isinstance(cell, list) and cell[0] == "binary" else text.encode()
        case "double" | "float":
            return _canonicalize_float(kind, parse_value("double", canonical))
        case "date":
            moment = datetime.fromisoformat(canonical)
            if moment != datetime(moment.year, moment.month, moment.day):
                raise ValueError("")
            return moment.date()
        case "timestamp" | "timestamp_ntz":
            return _parse_moment(kind, canonical, zone)
        case _ if kind in _INTEGERS or _DECIMAL.fullmatch(kind):
            if isinstance(cell, bool):
                raise ValueError("")
            return _parse_number(canonical)
        case _:
            return text


def _parse_number(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError("") from None
    if not number.is_finite() or not text.isascii():
        raise ValueError("")
    return number


def _parse_moment(kind: str, text: str, zone: ZoneInfo | None) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment
    if kind == "timestamp_ntz":
        raise ValueError("")
    return moment.astimezone(zone or ZoneInfo("UTC")).replace(tzinfo=None)


def _canonicalize_float(kind: str, value: float) -> float | str:
    if math.isnan(value):
        return _NOT_A_NUMBER
    if kind == "float" and math.isfinite(value):
        narrow: float = struct.unpack("f", struct.pack("f", value))[0]
        return narrow
    return value


def is_out_of_range(kind: Type, value: Any) -> bool:
    """Whether a canonical value is too large or too fine for its type, so that no row can hold it."""
    match kind, value:
        case _, None:
            return False
        case ("array", element), tuple():
            return any(is_out_of_range(element, item) for item in value)
        case ("map", key, part), frozenset():
            return any(k is None or is_out_of_range(key, k) or is_out_of_range(part, v) for k, v in value)
        case ("struct", fields), tuple():
            return any(is_out_of_range(part, item) for (_, part), item in zip(fields, value, strict=True))
        case str(), Decimal() if kind in _INTEGERS:
            return value != value.to_integral_value() or not -(2 ** _INTEGERS[kind]) <= value < 2 ** _INTEGERS[kind]
        case str(), Decimal():
            try:
                parse_value(kind, f"{value:f}")
            except ValueError:
                return True
    return False


# --- values as Spark gives them -------------------------------------------------------------------------------------


def canonicalize_collected(kind: Type, value: Any) -> Any:
    """The canonical value of one that was collected from Spark as `plain_type` of its type."""
    match kind, value:
        case _, None:
            return None
        case ("array", element), _:
            return tuple(canonicalize_collected(element, item) for item in value)
        case ("map", key, part), _:
            return frozenset(
                (canonicalize_collected(key, k), canonicalize_collected(part, v)) for k, v in value.items()
            )
        case ("struct", fields), _:
            return tuple(canonicalize_collected(part, item) for (_, part), item in zip(fields, value, strict=True))
        case "double" | "float", float():
            return _canonicalize_float(kind, value)
        case "binary", _:
            return bytes(value)
        case "date" | "timestamp" | "timestamp_ntz", str():
            return _parse_spark_moment(kind, value)
        case _, bool():
            return value
        case _, int():
            return Decimal(value)
        case _:
            return value


def _parse_spark_moment(kind: str, text: str) -> Any:
    try:
        return date.fromisoformat(text) if kind == "date" else datetime.fromisoformat(text)
    except ValueError:
        return text  # a year that Python does not have


# --- values as text -------------------------------------------------------------------------------------------------


def format_sql_value(kind: Type, value: Any) -> str:
    """A canonical value as an SQL expression, which a cast to the type makes exact."""
    match kind, value:
        case _, None:
            return "NULL"
        case ("array", element), tuple():
            return "array(" + ", ".join(_format_cast(element, item) for item in value) + ")"
        case ("map", key, part), frozenset():
            return (
                "map("
                + ", ".join(f"{_format_cast(key, k)}, {_format_cast(part, v)}" for k, v in _sort_pairs(value))
                + ")"
            )
        case ("struct", fields), tuple():
            inside = (
                f"{format_literal(n)}, {_format_cast(part, v)}" for (n, part), v in zip(fields, value, strict=True)
            )
            return f"named_struct({', '.join(inside)})"
        case "binary", bytes():
            return f"X'{value.hex()}'"
        case _:
            return format_literal(format_value(kind, value))


def _format_cast(kind: Type, value: Any) -> str:
    return f"CAST({format_sql_value(kind, value)} AS {format_sql_type(kind)})"


def _sort_pairs(pairs: frozenset[Any]) -> list[Any]:
    return sorted(pairs, key=repr)


def format_value(kind: Type, value: Any) -> str:
    """A canonical value as people read it, and as Spark would read it from text."""
    match kind, value:
        case _, None:
            return "NULL"
        case ("array", element), tuple():
            return "[" + ", ".join(format_value(element, item) for item in value) + "]"
        case ("map", key, part), frozenset():
            return (
                "{" + ", ".join(f"{format_value(key, k)}: {format_value(part, v)}" for k, v in _sort_pairs(value)) + "}"
            )
        case ("struct", fields), tuple():
            inside = (f"{n}: {format_value(part, v)}" for (n, part), v in zip(fields, value, strict=True))
            return "{" + ", ".join(inside) + "}"
        case _, bool():
            return "true" if value else "false"
        case "binary", bytes():
            return f"0x{value.hex()}"
        case _, datetime():
            return value.isoformat(sep=" ")
        case _, float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case "float", float():
            return next(t for p in range(6, 18) if _canonicalize_float("float", float(t := f"{value:.{p}g}")) == value)
        case str(), Decimal():
            return _format_number(kind, value)
        case _:
            return str(value)


def _format_number(kind: str, value: Decimal) -> str:
    if kind in _INTEGERS and value == value.to_integral_value():
        return str(int(value))
    match = _DECIMAL.fullmatch(kind)
    exponent = value.as_tuple().exponent
    if match is not None and isinstance(exponent, int) and -exponent < int(match[2]):
        return f"{value:.{int(match[2])}f}"
    return f"{value:f}"
