"""Records of Avro files as plain values, without pyiceberg: it takes longer to import than small files take to read.

For the few and small manifests of state tables; `manifests.py` reads those of large tables, with pyiceberg's compiled
decoder.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

_MAGIC, _SYNC_SIZE = b"Obj\x01", 16

Read = Callable[["_Cursor"], Any]


class _Cursor:
    """Bytes, and how far they have been read."""

    __slots__ = ("at", "content")

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.content):
            raise ValueError("an Avro file ends too early")
        taken = self.content[self.at : end]
        self.at = end
        return taken

    def take_int(self) -> int:
        shift = value = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7


def read_plain_records(content: bytes) -> list[dict[str, Any]]:
    """The records of a file, by the names of their fields; raises ValueError or LookupError for what is none."""
    cursor = _Cursor(content)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("not an Avro file")
    meta = dict(_read_blocks(cursor, lambda c: (_read_text(c), _read_bytes(c))))
    sync = cursor.take(_SYNC_SIZE)
    read, codec = _build_reader(json.loads(meta["avro.schema"]), {}), meta.get("avro.codec", b"null")
    records: list[dict[str, Any]] = []
    while cursor.at < len(content):
        count, block = cursor.take_int(), _Cursor(_decompress(_read_bytes(cursor), codec))
        records += [read(block) for _ in range(count)]
        if cursor.take(_SYNC_SIZE) != sync:
            raise ValueError("a block of an Avro file does not end where it should")
    return records


def _decompress(block: bytes, codec: bytes) -> bytes:
    if codec == b"null":
        return block
    if codec == b"deflate":
        return zlib.decompress(block, -15)
    raise ValueError(f"blocks of an Avro file are compressed by {codec!r}")


def _read_bytes(cursor: _Cursor) -> bytes:
    return cursor.take(cursor.take_int())


def _read_text(cursor: _Cursor) -> str:
    return _read_bytes(cursor).decode()


def _read_float(cursor: _Cursor) -> float:
    return float(struct.unpack("<f", cursor.take(4))[0])


def _read_double(cursor: _Cursor) -> float:
    return float(struct.unpack("<d", cursor.take(8))[0])


_PRIMITIVES: dict[str, Read] = {
    "null": lambda cursor: None,
    "boolean": lambda cursor: cursor.take(1) == b"\x01",
    "int": _Cursor.take_int,
    "long": _Cursor.take_int,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_text,
}


def _build_reader(schema: Any, named: dict[str, Read]) -> Read:
    """How to read a value of a schema; `named` are the records, enums and fixed values that it has defined so far."""
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or named[schema]
    if isinstance(schema, list):
        choices = [_build_reader(choice, named) for choice in schema]
        return lambda cursor: choices[cursor.take_int()](cursor)
    match schema["type"]:
        case "record":
            fields = [(field["name"], _build_reader(field["type"], named)) for field in schema["fields"]]
            read: Read = lambda cursor: {name: read_field(cursor) for name, read_field in fields}  # noqa: E731
        case "array":
            item = _build_reader(schema["items"], named)
            return lambda cursor: _read_blocks(cursor, item)
        case "map":
            value = _build_reader(schema["values"], named)
            return lambda cursor: dict(_read_blocks(cursor, lambda c: (_read_text(c), value(c))))
        case "enum":
            symbols = schema["symbols"]
            read = lambda cursor: symbols[cursor.take_int()]  # noqa: E731
        case "fixed":
            size = schema["size"]
            read = lambda cursor: cursor.take(size)  # noqa: E731
        case inner:
            return _build_reader(inner, named)
    named[schema["name"]] = read
    return read


def _read_blocks(cursor: _Cursor, read: Read) -> list[Any]:
    """The items of an array or a map, which come in blocks; a negative number is followed by the block's size."""
    items: list[Any] = []
    while count := cursor.take_int():
        if count < 0:
            count = -count
            cursor.take_int()
        items += [read(cursor) for _ in range(count)]
    return items
