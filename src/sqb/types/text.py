"""Texts as values, by the rules of seeds: how a text becomes a value of a type, and which type fits many texts.

Knows texts and values, not files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

from sqb.types import model as m
from sqb.types.model import DecimalType, Type

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
# Wide enough that no digit that a user wrote is rounded away before it is judged.
_CONTEXT = Context(prec=10_000)


def can_parse_text(kind: Type) -> bool:
    """Whether texts can be read as values of a type."""
    return kind in _PARSERS or isinstance(kind, DecimalType)


def build_text_parser(kind: Type) -> Callable[[str], Any]:
    """What makes a text a value of a type that texts can be read as; it raises ValueError when one does not fit."""
    if kind == m.STRING:
        return str
    parse = partial(_parse_decimal, kind) if isinstance(kind, DecimalType) else _PARSERS[kind]
    return lambda text: parse(text.strip())


def parse_value(kind: Type, text: str) -> Any:
    """The value that a text stands for in a type; raises ValueError when it does not fit."""
    return build_text_parser(kind)(text)


def infer_text_type(texts: Iterable[str]) -> Type:
    """The narrowest type that fits every text; string when there is none."""
    values = list(dict.fromkeys(texts))
    if not values:
        return m.STRING
    for kind, fits in _CANDIDATES:
        if all(fits(value) for value in values):
            return kind
    return m.STRING


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


def _parse_decimal(kind: DecimalType, text: str) -> Decimal:
    precision, scale = kind.precision, kind.scale
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


_PARSERS: Mapping[Type, Callable[[str], Any]] = {
    m.STRING: str,
    m.BOOLEAN: _parse_boolean,
    **{kind: partial(_parse_integer, bits=bits) for kind, bits in m.INTEGER_BITS.items()},
    m.FLOAT: partial(_parse_float, largest=_LARGEST_FLOAT),
    m.DOUBLE: partial(_parse_float, largest=float("inf")),
    m.DATE: _parse_date,
    m.TIMESTAMP: partial(_parse_timestamp, zoned=True),
    m.TIMESTAMP_NTZ: partial(_parse_timestamp, zoned=False),
}


def _build_matcher(kind: Type, pattern: re.Pattern[str]) -> Callable[[str], bool]:
    parse = build_text_parser(kind)

    def fits(text: str) -> bool:
        if not pattern.fullmatch(text):
            return False
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return fits


def _is_exact_double(text: str) -> bool:
    if not _build_matcher(m.DOUBLE, _PLAIN_NUMBER)(text):
        return False
    # A long identifier among numbers must not lose its last digits.
    return not _PLAIN_INTEGER.fullmatch(text) or int(float(text)) == int(text)


def _build_timestamp_matcher(zoned: bool) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        match = _FULL_TIMESTAMP.fullmatch(text)
        return (
            match is not None and bool(match.group(1)) == zoned and _build_matcher(m.TIMESTAMP, _FULL_TIMESTAMP)(text)
        )

    return fits


_CANDIDATES: tuple[tuple[Type, Callable[[str], bool]], ...] = (
    (m.BOOLEAN, lambda text: text.lower() in ("true", "false")),
    (m.BIGINT, _build_matcher(m.BIGINT, _PLAIN_INTEGER)),
    (m.DOUBLE, _is_exact_double),
    (m.DATE, _build_matcher(m.DATE, _DATE)),
    (m.TIMESTAMP_NTZ, _build_timestamp_matcher(zoned=False)),
    (m.TIMESTAMP, _build_timestamp_matcher(zoned=True)),
)
