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

from sqb.names import did_you_mean, quote
from sqb.project.seed_types import parse
from sqb.sql.expand import literal

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
        found = _WORD.match(text, position)
        if found is None:
            return None
        word = found[1]
        words.append(word if word.startswith("`") else "".join(word.split()))
        position = found.end()
    try:
        kind, rest = _typed(words)
    except (IndexError, ValueError):
        return None
    return None if rest else kind


def _typed(words: list[str]) -> tuple[Type, list[str]]:
    name, rest = words[0].lower(), words[1:]
    if name in ("array", "map", "struct") and rest[:1] == ["<"]:
        parts, rest = _parts(rest[1:], named=name == "struct")
        if len(parts) != {"array": 1, "map": 2}.get(name, len(parts)):
            raise ValueError(name)
        return (name, tuple(parts)) if name == "struct" else (name, *parts), rest
    return _simple(name), rest


def _parts(words: list[str], named: bool) -> tuple[list[Any], list[str]]:
    parts: list[Any] = []
    while words[0] != ">":
        if parts:
            if words[0] != ",":
                raise ValueError(words[0])
            words = words[1:]
        if named:
            field = words[0]
            found, words = _typed(words[2:] if words[1] == ":" else words[1:])
            parts.append((field.strip("`").replace("``", "`"), found))
        else:
            found, words = _typed(words)
            parts.append(found)
    return parts, words[1:]


def _simple(name: str) -> str:
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


def spark_json_type(kind: Any) -> Type:
    """A type in Spark's JSON notation."""
    match kind:
        case {"type": "array", "elementType": element}:
            return ("array", spark_json_type(element))
        case {"type": "map", "keyType": key, "valueType": value}:
            return ("map", spark_json_type(key), spark_json_type(value))
        case {"type": "struct", "fields": fields}:
            return ("struct", tuple((f["name"], spark_json_type(f["type"])) for f in fields))
        case str() if _CHARACTERS.fullmatch(kind):
            return "string"
        case str():
            return _SYNONYMS.get(kind, kind.replace(", ", ","))
        case _:
            return "string"


def type_text(kind: Type) -> str:
    """A type as it is written in SQL."""
    match kind:
        case ("array", element):
            return f"ARRAY<{type_text(element)}>"
        case ("map", key, value):
            return f"MAP<{type_text(key)}, {type_text(value)}>"
        case ("struct", fields):
            return "STRUCT<" + ", ".join(f"{quote(name)}: {type_text(part)}" for name, part in fields) + ">"
        case _:
            return str(kind).upper()


def plain_type(kind: Type) -> Type:
    """The type as which a value leaves Spark: times as text, as Python's know neither Spark's zone nor its range."""
    match kind:
        case ("array", element):
            return ("array", plain_type(element))
        case ("map", key, value):
            return ("map", plain_type(key), plain_type(value))
        case ("struct", fields):
            return ("struct", tuple((name, plain_type(part)) for name, part in fields))
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


def cell_text(cell: Any) -> str:
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


def shown_cell(cell: Any) -> str:
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
            return cell_text(cell)


def cell_type(cell: Any) -> Type | None:
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
            return ("array", common_type(cells))
        case ["map", pairs]:
            return ("struct", tuple((key, cell_type(value) or "string") for key, value in pairs))
        case _:
            return "string"


def common_type(cells: Any) -> Type:
    """One type for all cells of a column: numbers widen, anything else that differs is text."""
    found = list(dict.fromkeys(kind for cell in cells if (kind := cell_type(cell)) is not None))
    match found:
        case []:
            return "string"
        case [one]:
            return one
        case _ if set(found) <= {"bigint", "double"}:
            return "double"
        case _ if set(found) <= {"date", "timestamp"}:
            return "timestamp"
        case _ if all(isinstance(kind, tuple) and kind[0] == "struct" for kind in found):
            names = dict.fromkeys(name for kind in found for name, _ in kind[1])
            fields = ((n, common_type([dict(c[1]).get(n) for c in cells if c is not None])) for n in names)
            return ("struct", tuple(fields))
        case _ if all(isinstance(kind, tuple) and kind[0] == "array" for kind in found):
            return ("array", common_type([item for c in cells if c is not None for item in c[1]]))
        case _:
            return "string"


def value_of(kind: Type, cell: Any, zone: ZoneInfo | None = None) -> Any:
    """The canonical value that a cell stands for in a type; raises ValueError when it cannot be one.

    Numbers keep what was written: 9.5 is no whole number, but may still be expected of a column of them.
    """
    if cell is None:
        return None
    match kind, cell:
        case ("array", element), ["list", cells]:
            return tuple(value_of(element, item, zone) for item in cells)
        case ("map", key, value), ["map", pairs]:
            return frozenset((value_of(key, k, zone), value_of(value, v, zone)) for k, v in pairs)
        case ("struct", fields), ["map", pairs]:
            return _struct(fields, pairs, zone)
        case ("struct", fields), ["list", cells] if len(cells) == len(fields):
            return tuple(value_of(part, item, zone) for (_, part), item in zip(fields, cells, strict=True))
        case (tuple(), _) | (_, ["list" | "map", _]):
            raise ValueError("")
        case _:
            return _scalar(kind, cell, zone)


def _struct(fields: Any, pairs: Any, zone: ZoneInfo | None) -> tuple[Any, ...]:
    known = {name.lower(): name for name, _ in fields}
    given = {key.lower(): value for key, value in pairs}
    for key, _ in pairs:
        if key.lower() not in known:
            raise ValueError(f'no field is called "{key}"' + _or_nothing(did_you_mean(key, known.values())))
    return tuple(value_of(part, given.get(name.lower()), zone) for name, part in fields)


def _or_nothing(hint: str | None) -> str:
    return f": {hint}" if hint else ""


def _scalar(kind: str, cell: Any, zone: ZoneInfo | None) -> Any:
    text = cell_text(cell)
    canonical = cell[1] if isinstance(cell, list) else text
    match kind:
        case "boolean":
            return parse("boolean", canonical)
        case "binary":
            return bytes.fromhex(cell[1]) if isinstance(cell, list) and cell[0] == "binary" else text.encode()
        case "double" | "float":
            return _canonical_float(kind, parse("double", canonical))
        case "date":
            moment = datetime.fromisoformat(canonical)
            if moment != datetime(moment.year, moment.month, moment.day):
                raise ValueError("")
            return moment.date()
        case "timestamp" | "timestamp_ntz":
            return _moment(kind, canonical, zone)
        case _ if kind in _INTEGERS or _DECIMAL.fullmatch(kind):
            if isinstance(cell, bool):
                raise ValueError("")
            return _number(canonical)
        case _:
            return text


def _number(text: str) -> Decimal:
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError("") from None
    if not found.is_finite() or not text.isascii():
        raise ValueError("")
    return found


def _moment(kind: str, text: str, zone: ZoneInfo | None) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        return found
    if kind == "timestamp_ntz":
        raise ValueError("")
    return found.astimezone(zone or ZoneInfo("UTC")).replace(tzinfo=None)


def _canonical_float(kind: str, value: float) -> float | str:
    if math.isnan(value):
        return _NOT_A_NUMBER
    if kind == "float" and math.isfinite(value):
        narrow: float = struct.unpack("f", struct.pack("f", value))[0]
        return narrow
    return value


def value_problem(kind: Type, value: Any) -> bool:
    """Whether a canonical value is too large or too fine for its type, so that no row can hold it."""
    match kind, value:
        case _, None:
            return False
        case ("array", element), tuple():
            return any(value_problem(element, item) for item in value)
        case ("map", key, part), frozenset():
            return any(k is None or value_problem(key, k) or value_problem(part, v) for k, v in value)
        case ("struct", fields), tuple():
            return any(value_problem(part, item) for (_, part), item in zip(fields, value, strict=True))
        case str(), Decimal() if kind in _INTEGERS:
            return value != value.to_integral_value() or not -(2 ** _INTEGERS[kind]) <= value < 2 ** _INTEGERS[kind]
        case str(), Decimal():
            try:
                parse(kind, f"{value:f}")
            except ValueError:
                return True
    return False


# --- values as Spark gives them -------------------------------------------------------------------------------------


def collected(kind: Type, value: Any) -> Any:
    """The canonical value of one that was collected from Spark as `plain_type` of its type."""
    match kind, value:
        case _, None:
            return None
        case ("array", element), _:
            return tuple(collected(element, item) for item in value)
        case ("map", key, part), _:
            return frozenset((collected(key, k), collected(part, v)) for k, v in value.items())
        case ("struct", fields), _:
            return tuple(collected(part, item) for (_, part), item in zip(fields, value, strict=True))
        case "double" | "float", float():
            return _canonical_float(kind, value)
        case "binary", _:
            return bytes(value)
        case "date" | "timestamp" | "timestamp_ntz", str():
            return _moment_from_spark(kind, value)
        case _, bool():
            return value
        case _, int():
            return Decimal(value)
        case _:
            return value


def _moment_from_spark(kind: str, text: str) -> Any:
    try:
        return date.fromisoformat(text) if kind == "date" else datetime.fromisoformat(text)
    except ValueError:
        return text  # a year that Python does not have


# --- values as text -------------------------------------------------------------------------------------------------


def sql_value(kind: Type, value: Any) -> str:
    """A canonical value as an SQL expression, which a cast to the type makes exact."""
    match kind, value:
        case _, None:
            return "NULL"
        case ("array", element), tuple():
            return "array(" + ", ".join(_cast(element, item) for item in value) + ")"
        case ("map", key, part), frozenset():
            return "map(" + ", ".join(f"{_cast(key, k)}, {_cast(part, v)}" for k, v in _sorted(value)) + ")"
        case ("struct", fields), tuple():
            inside = (f"{literal(n)}, {_cast(part, v)}" for (n, part), v in zip(fields, value, strict=True))
            return f"named_struct({', '.join(inside)})"
        case "binary", bytes():
            return f"X'{value.hex()}'"
        case _:
            return literal(shown_value(kind, value))


def _cast(kind: Type, value: Any) -> str:
    return f"CAST({sql_value(kind, value)} AS {type_text(kind)})"


def _sorted(pairs: frozenset[Any]) -> list[Any]:
    return sorted(pairs, key=repr)


def shown_value(kind: Type, value: Any) -> str:
    """A canonical value as people read it, and as Spark would read it from text."""
    match kind, value:
        case _, None:
            return "NULL"
        case ("array", element), tuple():
            return "[" + ", ".join(shown_value(element, item) for item in value) + "]"
        case ("map", key, part), frozenset():
            return "{" + ", ".join(f"{shown_value(key, k)}: {shown_value(part, v)}" for k, v in _sorted(value)) + "}"
        case ("struct", fields), tuple():
            inside = (f"{n}: {shown_value(part, v)}" for (n, part), v in zip(fields, value, strict=True))
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
            return next(t for p in range(6, 18) if _canonical_float("float", float(t := f"{value:.{p}g}")) == value)
        case str(), Decimal():
            return _shown_number(kind, value)
        case _:
            return str(value)


def _shown_number(kind: str, value: Decimal) -> str:
    if kind in _INTEGERS and value == value.to_integral_value():
        return str(int(value))
    found = _DECIMAL.fullmatch(kind)
    exponent = value.as_tuple().exponent
    if found is not None and isinstance(exponent, int) and -exponent < int(found[2]):
        return f"{value:.{int(found[2])}f}"
    return f"{value:f}"
