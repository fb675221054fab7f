"""The columns that a model promises: `id bigint not null, amount decimal(10,2), tags array<string>`.

Types are kept in one spelling, so that equal texts are equal types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqb.names import did_you_mean
from sqb.project.grammar import Malformed, Span, inside
from sqb.project.values import ContractColumn

_TOKEN = re.compile(r"\s*(?:(?P<word>[^\W\d]\w*)|(?P<quoted>`(?:[^`]|``)+`)|(?P<number>\d+)|(?P<mark>.))", re.DOTALL)
_NAMES = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "character": "string",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_SIMPLE = frozenset(("boolean", *_NUMBERS, "string", "binary", "date", "timestamp", "timestamp_ntz", "variant"))
_KNOWN = (*_NAMES, *_SIMPLE, "decimal", "array", "map", "struct")
_MAX_PRECISION = 38


def read_contract(text: str, span: Span) -> tuple[ContractColumn, ...]:
    """The columns in a span of a text; raises Malformed where it is no list of columns."""
    return _Reader(text, inside(text, span, "([") or span).columns()


class _Reader:
    def __init__(self, text: str, span: Span) -> None:
        self.tokens = list(_tokens(text, span))
        self.index = 0

    @property
    def token(self) -> tuple[str, str, int]:
        return self.tokens[self.index]

    def columns(self) -> tuple[ContractColumn, ...]:
        found: dict[str, ContractColumn] = {}
        while self.token[0] != "end":
            _, _, offset = self.token
            name = self._name("a column's name")
            if name.lower() in found:
                raise Malformed(f"the contract has the column `{name}` twice", offset)
            kind = self._type()
            found[name.lower()] = ContractColumn(name, kind, self._not_null())
            if self.token[0] != "end":
                self._mark(",", "a comma or NOT NULL")
        if not found:
            raise Malformed("a contract needs columns", self.token[2], "write `id bigint not null, name string`")
        return tuple(found.values())

    def _next(self) -> tuple[str, str, int]:
        token = self.token
        self.index += token[0] != "end"
        return token

    def _name(self, what: str) -> str:
        kind, text, offset = self._next()
        if kind == "quoted":
            return text[1:-1].replace("``", "`")
        if kind != "word":
            raise Malformed(f"{what} is expected here", offset, "write `id bigint not null, name string`")
        return text

    def _mark(self, mark: str, what: str) -> None:
        _, text, offset = self._next()
        if text != mark:
            raise Malformed(f"{what} is expected here", offset)

    def _is(self, mark: str) -> bool:
        if self.token[1].lower() != mark or self.token[0] == "quoted":
            return False
        self._next()
        return True

    def _not_null(self) -> bool:
        if not self._is("not"):
            return False
        _, text, offset = self._next()
        if text.lower() != "null":
            raise Malformed("NULL is expected after NOT", offset)
        return True

    def _type(self) -> str:
        kind, text, offset = self._next()
        name = _NAMES.get(text.lower(), text.lower()) if kind == "word" else ""
        match name:
            case "array":
                return f"array<{self._within(self._type)}>"
            case "map":
                return f"map<{self._within(self._key_and_value)}>"
            case "struct":
                return f"struct<{self._within(self._fields)}>"
            case "decimal":
                return self._decimal(offset)
            case "string":
                self._sizes()
                return name
            case _ if name in _SIMPLE:
                return name
        raise Malformed(
            f"there is no type `{text}`" if kind == "word" else "a type is expected here",
            offset,
            did_you_mean(text, _KNOWN) or "types are Spark's, such as bigint, decimal(10,2) or array<string>",
        )

    def _within(self, read: Any) -> str:
        self._mark("<", "`<`")
        found: str = read()
        self._mark(">", "`>`")
        return found

    def _key_and_value(self) -> str:
        key = self._type()
        self._mark(",", "a comma")
        return f"{key},{self._type()}"

    def _fields(self) -> str:
        fields = []
        while True:
            name = self._name("a field's name").lower()
            self._is(":")
            fields.append(f"{name}:{self._type()}")
            if not self._is(","):
                return ",".join(fields)

    def _sizes(self) -> list[int]:
        if not self._is("("):
            return []
        sizes = []
        while True:
            kind, text, offset = self._next()
            if kind != "number":
                raise Malformed("a number is expected here", offset)
            sizes.append(int(text))
            if not self._is(","):
                self._mark(")", "`)`")
                return sizes

    def _decimal(self, offset: int) -> str:
        sizes = self._sizes()
        precision = sizes[0] if sizes else 10
        scale = sizes[1] if len(sizes) > 1 else 0
        if len(sizes) > 2 or not 1 <= precision <= _MAX_PRECISION or scale > precision:
            raise Malformed("a decimal is decimal(p,s), with p up to 38 and s up to p", offset)
        return f"decimal({precision},{scale})"


def _tokens(text: str, span: Span) -> Iterator[tuple[str, str, int]]:
    position = span.start
    while position < span.end and (found := _TOKEN.match(text, position, span.end)):
        kind = found.lastgroup or ""
        if found[kind].strip():
            yield kind, found[kind], found.start(kind)
        position = found.end()
    yield "end", "", max(span.start, span.end - 1)


def type_text(kind: Any) -> str:
    """A type in Spark's JSON notation, in the spelling of contracts."""
    match kind:
        case {"type": "array", "elementType": element}:
            return f"array<{type_text(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{type_text(key)},{type_text(value)}>"
        case {"type": "struct", "fields": fields}:
            inner = (f"{f['name'].lower()}:{type_text(f['type'])}" for f in fields)
            return f"struct<{','.join(inner)}>"
        case str() if kind.startswith(("string", "varchar", "char")):
            return "string"
        case str():
            return _NAMES.get(kind, kind).replace(" ", "")
        case _:
            return str(kind)
