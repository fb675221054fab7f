"""Types as people and Spark write them: `decimal(10,2)`, `map<string, array<date>>`, `STRUCT<a: INT NOT NULL>`.

Every name that Spark 4.1 has for a type is known, and a few that people bring from other databases. Knows only texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

from sqb.names import suggest_nearest
from sqb.types import model as m
from sqb.types.model import (
    ArrayType,
    CharType,
    CollatedType,
    DecimalType,
    Field,
    IntervalType,
    MapType,
    OpaqueType,
    StructType,
    TimeType,
    Type,
    VarcharType,
)

_SIMPLE: Mapping[str, Type] = {
    "boolean": m.BOOLEAN,
    "tinyint": m.TINYINT,
    "byte": m.TINYINT,
    "smallint": m.SMALLINT,
    "short": m.SMALLINT,
    "int": m.INT,
    "integer": m.INT,
    "bigint": m.BIGINT,
    "long": m.BIGINT,
    "float": m.FLOAT,
    "real": m.FLOAT,
    "double": m.DOUBLE,
    "date": m.DATE,
    "timestamp": m.TIMESTAMP,
    "timestamp_ltz": m.TIMESTAMP,
    "timestamp_ntz": m.TIMESTAMP_NTZ,
    "string": m.STRING,
    "binary": m.BINARY,
    "variant": m.VARIANT,
    "void": m.VOID,
    # Not Spark's, but what a type cannot be mistaken for.
    "bool": m.BOOLEAN,
    "text": m.STRING,
}
_DECIMALS = ("decimal", "dec", "numeric")
_CHARACTERS: Mapping[str, Callable[[int], Type]] = {"char": CharType, "character": CharType, "varchar": VarcharType}
_OPAQUE = ("geometry", "geography")
_UNITS = (("year", "month"), ("day", "hour", "minute", "second"))
_WITHOUT_ZONE = ("without", "time", "zone")
_DEFAULT_TIME_PRECISION = 6
_NAMES = (*_SIMPLE, *_DECIMALS, *_CHARACTERS, *_OPAQUE, "array", "map", "struct", "interval", "time")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)(?!\w)|(?P<word>\w+)|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<mark>\S))",
    re.DOTALL,
)
_T = TypeVar("_T")


class BadType(ValueError):
    """A text that is not a type: what is wrong with it, where, and what to write instead."""

    def __init__(self, message: str, offset: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.offset, self.hint = message, offset, hint


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type | None:
    """The type that a text such as `array<struct<a: int>>` stands for; None when there is no such type."""
    simple = _SIMPLE.get(text.strip().lower())
    if simple is not None:
        return simple
    reader = TypeReader(text, 0, len(text))
    try:
        kind = reader.read_type()
    except BadType:
        return None
    return kind if reader.is_at_end else None


def parse_declared_type(text: str) -> Type | None:
    """The type that a text gives a column or a parameter, with `string` for texts of any length; None if it cannot.

    It cannot be `void`, and not a text with a collation of its own, which no table keeps.
    """
    kind = parse_type(text)
    return m.to_plain_text(kind) if kind is not None and is_declarable(kind) else None


def is_declarable(kind: Type) -> bool:
    """Whether people can give a column this type."""
    return not any(part == m.VOID or isinstance(part, CollatedType) for part in m.iter_parts(kind))


class TypeReader:
    """Reads types from a part of a text, one after the other; raises `BadType` with the place of what is wrong."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._tokens = list(_iter_tokens(text, start, end))
        self._index = 0

    @property
    def is_at_end(self) -> bool:
        return self.token[0] == "end"

    @property
    def token(self) -> tuple[str, str, int]:
        """The kind, the text and the offset of what comes next."""
        return self._tokens[self._index]

    def take(self) -> tuple[str, str, int]:
        """Take what comes next."""
        token = self.token
        self._index += token[0] != "end"
        return token

    def take_if(self, *texts: str) -> bool:
        """Take these words or marks, in any case, if they come next."""
        ahead = self._tokens[self._index : self._index + len(texts)]
        if tuple(t.lower() for k, t, _ in ahead if k in ("word", "mark")) != texts:
            return False
        self._index += len(texts)
        return True

    def expect(self, mark: str, what: str) -> None:
        """Take a mark, or refuse what is in its place."""
        _, text, offset = self.take()
        if text != mark:
            raise BadType(f"{what} is expected here", offset)

    def read_name(self, what: str) -> str:
        """A name, in backticks or not."""
        kind, text, offset = self.take()
        if kind == "quoted":
            return text[1:-1].replace("``", "`")
        if kind != "word":
            raise BadType(f"{what} is expected here", offset, "write `id bigint not null, name string`")
        return text

    def read_not_null(self) -> bool:
        """Whether NOT NULL comes next."""
        if not self.take_if("not"):
            return False
        _, text, offset = self.take()
        if text.lower() != "null":
            raise BadType("NULL is expected after NOT", offset)
        return True

    def read_type(self) -> Type:
        """The type that comes next."""
        kind, text, offset = self.take()
        name = text.lower() if kind == "word" else ""
        match name:
            case "array":
                return ArrayType(self._read_within(self.read_type))
            case "map":
                return MapType(*self._read_within(self._read_key_and_value))
            case "struct":
                return StructType(self._read_within(self._read_fields))
            case "interval":
                return self._read_interval()
            case "timestamp":
                return m.TIMESTAMP_NTZ if self.take_if(*_WITHOUT_ZONE) else m.TIMESTAMP
            case "time":
                return self._read_time(offset)
            case "string":
                return CollatedType(self._read_collation()) if self.take_if("collate") else m.STRING
            case _ if name in _SIMPLE:
                return _SIMPLE[name]
            case _ if name in _DECIMALS:
                return self._read_decimal(offset)
            case _ if name in _CHARACTERS:
                sizes = self._read_sizes()
                return _CHARACTERS[name](sizes[0]) if sizes else m.STRING
            case _ if name in _OPAQUE:
                return OpaqueType(f"{name}({self._read_reference_system()})")
        raise BadType(
            f"there is no type `{text}`" if kind == "word" else "a type is expected here",
            offset,
            suggest_nearest(text, _NAMES) or "types are Spark's, such as bigint, decimal(10,2) or array<string>",
        )

    def _read_within(self, read: Callable[[], _T]) -> _T:
        self.expect("<", "`<`")
        inner = read()
        self.expect(">", "`>`")
        return inner

    def _read_key_and_value(self) -> tuple[Type, Type]:
        key = self.read_type()
        self.expect(",", "a comma")
        return key, self.read_type()

    def _read_fields(self) -> tuple[Field, ...]:
        fields: list[Field] = []
        while self.token[1] != ">" or fields:
            name = self.read_name("a field's name")
            self.take_if(":")
            kind = self.read_type()
            fields.append(Field(name, kind, nullable=not self.read_not_null()))
            if self.take_if("comment"):
                self.take()
            if not self.take_if(","):
                break
        return tuple(fields)

    def _read_sizes(self) -> list[int]:
        if not self.take_if("("):
            return []
        sizes = []
        while True:
            kind, text, offset = self.take()
            if kind != "number":
                raise BadType("a number is expected here", offset)
            sizes.append(int(text))
            if not self.take_if(","):
                self.expect(")", "`)`")
                return sizes

    def _read_decimal(self, offset: int) -> Type:
        sizes = self._read_sizes() or [10]
        precision, scale, *more = (*sizes, 0) if len(sizes) == 1 else sizes
        try:
            if more:
                raise ValueError
            return DecimalType(precision, scale)
        except ValueError:
            raise BadType("a decimal is decimal(p,s), with p up to 38 and s up to p", offset) from None

    def _read_time(self, offset: int) -> Type:
        sizes = self._read_sizes() or [_DEFAULT_TIME_PRECISION]
        self.take_if(*_WITHOUT_ZONE)
        if len(sizes) > 1 or sizes[0] > _DEFAULT_TIME_PRECISION:
            raise BadType("a time is time(p), with p up to 6", offset)
        return TimeType(sizes[0])

    def _read_interval(self) -> Type:
        _, text, _ = self.token
        units = next((units for units in _UNITS if text.lower() in units), None)
        if units is None:
            return m.INTERVAL
        first = last = self.take()[1].lower()
        if self.take_if("to"):
            _, text, offset = self.take()
            last = text.lower()
            if last not in units or units.index(last) <= units.index(first):
                raise BadType(f"`{text}` does not follow {first} in an interval", offset)
        return IntervalType(first, last)

    def _read_collation(self) -> str:
        parts = [self.read_name("a collation's name")]
        while self.take_if("."):
            parts.append(self.read_name("a collation's name"))
        return ".".join(parts).upper()

    def _read_reference_system(self) -> str:
        self.expect("(", "`(`")
        _, text, _ = self.take()
        self.expect(")", "`)`")
        return text.lower()


def _iter_tokens(text: str, start: int, end: int) -> Iterator[tuple[str, str, int]]:
    position = start
    while position < end and (match := _TOKEN.match(text, position, end)):
        kind = match.lastgroup or ""
        yield kind, match[kind], match.start(kind)
        position = match.end()
    yield "end", "", max(start, end - 1)
