"""The columns that a model promises: `id bigint not null, amount decimal(10,2), tags array<string>`.

Types are kept in one spelling, so that equal texts are equal types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqb.names import suggest_nearest
from sqb.project.models.grammar import Malformed, Span, find_inside
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
    """The columns in a span of a text; raises Malformed where it is not a list of columns."""
    return _Reader(text, find_inside(text, span, "([") or span).read_columns()


class _Reader:
    def __init__(self, text: str, span: Span) -> None:
        self.tokens = list(_iter_tokens(text, span))
        self.index = 0

    @property
    def token(self) -> tuple[str, str, int]:
        return self.tokens[self.index]

    def read_columns(self) -> tuple[ContractColumn, ...]:
        columns: dict[str, ContractColumn] = {}
        while self.token[0] != "end":
            _, _, offset = self.token
            name = self._read_name("a column's name")
            if name.lower() in columns:
                raise Malformed(f"the contract has the column `{name}` twice", offset)
            kind = self._read_type()
            columns[name.lower()] = ContractColumn(name, kind, self._read_not_null())
            if self.token[0] != "end":
                self._expect_mark(",", "a comma or NOT NULL")
        if not columns:
            raise Malformed("a contract needs columns", self.token[2], "write `id bigint not null, name string`")
        return tuple(columns.values())

    def _next(self) -> tuple[str, str, int]:
        token = self.token
        self.index += token[0] != "end"
        return token

    def _read_name(self, what: str) -> str:
        kind, text, offset = self._next()
        if kind == "quoted":
            return text[1:-1].replace("``", "`")
        if kind != "word":
            raise Malformed(f"{what} is expected here", offset, "write `id bigint not null, name string`")
        return text

    def _expect_mark(self, mark: str, what: str) -> None:
        _, text, offset = self._next()
        if text != mark:
            raise Malformed(f"{what} is expected here", offset)

    def _is_mark(self, mark: str) -> bool:
        if self.token[1].lower() != mark or self.token[0] == "quoted":
            return False
        self._next()
        return True

    def _read_not_null(self) -> bool:
        if not self._is_mark("not"):
            return False
        _, text, offset = self._next()
        if text.lower() != "null":
            raise Malformed("NULL is expected after NOT", offset)
        return True

    def _read_type(self) -> str:
        kind, text, offset = self._next()
        name = _NAMES.get(text.lower(), text.lower()) if kind == "word" else ""
        match name:
            case "array":
                return f"array<{self._read_within(self._read_type)}>"
            case "map":
                return f"map<{self._read_within(self._read_key_and_value)}>"
            case "struct":
                return f"struct<{self._read_within(self._read_fields)}>"
            case "decimal":
                return self._read_decimal(offset)
            case "string":
                self._read_sizes()
                return name
            case _ if name in _SIMPLE:
                return name
        raise Malformed(
            f"there is no type `{text}`" if kind == "word" else "a type is expected here",
            offset,
            suggest_nearest(text, _KNOWN) or "types are Spark's, such as bigint, decimal(10,2) or array<string>",
        )

    def _read_within(self, read: Any) -> str:
        self._expect_mark("<", "`<`")
        inner: str = read()
        self._expect_mark(">", "`>`")
        return inner

    def _read_key_and_value(self) -> str:
        key = self._read_type()
        self._expect_mark(",", "a comma")
        return f"{key},{self._read_type()}"

    def _read_fields(self) -> str:
        fields = []
        while True:
            name = self._read_name("a field's name").lower()
            self._is_mark(":")
            fields.append(f"{name}:{self._read_type()}")
            if not self._is_mark(","):
                return ",".join(fields)

    def _read_sizes(self) -> list[int]:
        if not self._is_mark("("):
            return []
        sizes = []
        while True:
            kind, text, offset = self._next()
            if kind != "number":
                raise Malformed("a number is expected here", offset)
            sizes.append(int(text))
            if not self._is_mark(","):
                self._expect_mark(")", "`)`")
                return sizes

    def _read_decimal(self, offset: int) -> str:
        sizes = self._read_sizes()
        precision = sizes[0] if sizes else 10
        scale = sizes[1] if len(sizes) > 1 else 0
        if len(sizes) > 2 or not 1 <= precision <= _MAX_PRECISION or scale > precision:
            raise Malformed("a decimal is decimal(p,s), with p up to 38 and s up to p", offset)
        return f"decimal({precision},{scale})"


def _iter_tokens(text: str, span: Span) -> Iterator[tuple[str, str, int]]:
    position = span.start
    while position < span.end and (match := _TOKEN.match(text, position, span.end)):
        kind = match.lastgroup or ""
        if match[kind].strip():
            yield kind, match[kind], match.start(kind)
        position = match.end()
    yield "end", "", max(span.start, span.end - 1)


def format_contract_type(kind: Any) -> str:
    """A type in Spark's JSON notation, in the spelling of contracts."""
    match kind:
        case {"type": "array", "elementType": element}:
            return f"array<{format_contract_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{format_contract_type(key)},{format_contract_type(value)}>"
        case {"type": "struct", "fields": fields}:
            inner = (f"{f['name'].lower()}:{format_contract_type(f['type'])}" for f in fields)
            return f"struct<{','.join(inner)}>"
        case str() if kind.startswith(("string", "varchar", "char")):
            return "string"
        case str():
            return _NAMES.get(kind, kind).replace(" ", "")
        case _:
            return str(kind)
