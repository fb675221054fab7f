"""The types of seed columns: how a text becomes a value, and which type fits the texts of a column.

Knows texts and values, not files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

SIMPLE_TYPES = ("boolean", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz", "string")
_SYNONYMS = {
    "bool": "boolean",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "text": "string",
    "varchar": "string",
}
_TYPE = re.compile(r"([a-z_]+)(?:\((\d+)(?:,(\d+))?\))?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d:\d\d)?")
_FULL_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(Z|[+-]\d\d:\d\d)?")
_PLAIN_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_PLAIN_NUMBER = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_BOOLEANS = {
    "true": True,
    "t": True,
    "yes": True,
    "y": True,
    "1": True,
    "false": False,
    "f": False,
    "no": False,
    "n": False,
    "0": False,
}
_SPECIAL = ("nan", "inf", "-inf", "infinity", "-infinity")
_LARGEST_FLOAT = 3.4028234663852886e38
_MAX_PRECISION = 38
# Wide enough that no digit that a user wrote is rounded away before it is judged.
_CONTEXT = Context(prec=10_000)


def normalize_type_name(written: str) -> str | None:
    """The Spark name of a type as people write it; None when there is no such type."""
    match = _TYPE.fullmatch(re.sub(r"\s+", "", written.lower()))
    if match is None:
        return None
    name, precision, scale = match.groups()
    name = _SYNONYMS.get(name, name)
    if name in ("decimal", "numeric"):
        p, s = int(precision or 10), int(scale or 0)
        return f"decimal({p},{s})" if 1 <= p <= _MAX_PRECISION and s <= p else None
    if name == "string" and "varchar" in written.lower() and scale is None:
        return "string"
    return name if name in SIMPLE_TYPES and precision is None else None


def parse_value(kind: str, text: str) -> Any:
    """The value that a text stands for in a type; raises ValueError when it does not fit."""
    if kind == "string":
        return text
    text = text.strip()
    match kind:
        case "boolean":
            return _parse_boolean(text)
        case "int":
            return _parse_integer(text, 31)
        case "bigint":
            return _parse_integer(text, 63)
        case "float":
            return _parse_float(text, _LARGEST_FLOAT)
        case "double":
            return _parse_float(text, float("inf"))
        case "date":
            return _parse_date(text)
        case "timestamp":
            return _parse_timestamp(text, zoned=True)
        case "timestamp_ntz":
            return _parse_timestamp(text, zoned=False)
        case _:
            return _parse_decimal(kind, text)


def infer_text_type(texts: Iterable[str]) -> str:
    """The narrowest type that fits every text; `string` when there is none."""
    values = list(dict.fromkeys(texts))
    if not values:
        return "string"
    for kind, fits in _CANDIDATES:
        if all(fits(value) for value in values):
            return kind
    return "string"


def _parse_boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _parse_integer(text: str, bits: int) -> int:
    # The regular expression lets other scripts' digits through, and so does int(): Spark would not.
    if not text.isascii() or not _INTEGER.fullmatch(text) or len(text) > 4000:
        raise ValueError(text)
    value = int(text)
    if not -(2**bits) <= value < 2**bits:
        raise ValueError(text)
    return value


def _parse_float(text: str, largest: float) -> float:
    if text.lower() in _SPECIAL:
        return float(text)
    if not text.isascii() or not _NUMBER.fullmatch(text):
        raise ValueError(text)
    value = float(text)
    if abs(value) > largest or value in (float("inf"), float("-inf")):
        raise ValueError(text)
    return value


def _parse_decimal(kind: str, text: str) -> Decimal:
    precision, scale = (int(n) for n in kind.removeprefix("decimal(").removesuffix(")").split(","))
    if not text.isascii() or not _NUMBER.fullmatch(text):
        raise ValueError(text)
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    if value == 0:
        return Decimal((0, (0,), -scale))
    _, digits, exponent = value.normalize(_CONTEXT).as_tuple()
    places = int(exponent)
    if -places > scale or len(digits) + places > precision - scale:
        raise ValueError(text)
    return value.quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)


def _parse_date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _parse_timestamp(text: str, zoned: bool) -> datetime:
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match.group(4) and not zoned):
        raise ValueError(text)
    day, clock, fraction, zone = match.groups()
    value = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone or ''}")
    value = value.replace(microsecond=int((fraction or "0").ljust(6, "0")))
    if not zoned:
        return value
    try:
        # Without a zone a timestamp means UTC, which is what sessions are set to.
        return value.astimezone(UTC) if zone else value.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError(text) from None


def _build_matcher(kind: str, pattern: re.Pattern[str]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        if not pattern.fullmatch(text):
            return False
        try:
            parse_value(kind, text)
        except ValueError:
            return False
        return True

    return fits


def _is_exact_double(text: str) -> bool:
    if not _build_matcher("double", _PLAIN_NUMBER)(text):
        return False
    # A long identifier among numbers must not lose its last digits.
    return not _PLAIN_INTEGER.fullmatch(text) or int(float(text)) == int(text)


def _build_timestamp_matcher(zoned: bool) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        match = _FULL_TIMESTAMP.fullmatch(text)
        return (
            match is not None and bool(match.group(1)) == zoned and _build_matcher("timestamp", _FULL_TIMESTAMP)(text)
        )

    return fits


_CANDIDATES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("boolean", lambda text: text.lower() in ("true", "false")),
    ("bigint", _build_matcher("bigint", _PLAIN_INTEGER)),
    ("double", _is_exact_double),
    ("date", _build_matcher("date", _DATE)),
    ("timestamp_ntz", _build_timestamp_matcher(zoned=False)),
    ("timestamp", _build_timestamp_matcher(zoned=True)),
)
