"""Avro's container files, read and written whole: enough for the manifests of Iceberg, and no more.

pyiceberg reads them into its own classes and writes those; a manifest of another writer would not come out as it was.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MAGIC = b"Obj\x01"
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
Change = Callable[[dict[str, Any]], None]


def rewrite(path: Path, change: Change) -> None:
    """Write a file again, without compression, each of its records after `change` has had it."""
    data = io.BytesIO(path.read_bytes())
    assert data.read(4) == _MAGIC, path
    header = _read_map(data, "bytes", {})
    sync = data.read(16)
    names: dict[str, Any] = {}
    schema = json.loads(header["avro.schema"])
    _name_types(schema, names)
    out = io.BytesIO()
    out.write(_MAGIC)
    _write_map(out, {**header, "avro.codec": b"null"}, "bytes", names)
    out.write(sync)
    while data.tell() < len(data.getbuffer()):
        count, size = _read_long(data), _read_long(data)
        block = data.read(size)
        if header.get("avro.codec", b"null") == b"deflate":
            block = zlib.decompress(block, wbits=-15)
        assert data.read(16) == sync
        records = io.BytesIO(block)
        written = io.BytesIO()
        for _ in range(count):
            record = _read(records, schema, names)
            change(record)
            _write(written, record, schema, names)
        _write_long(out, count)
        _write_long(out, len(written.getbuffer()))
        out.write(written.getbuffer())
        out.write(sync)
    path.write_bytes(out.getbuffer())


def _name_types(schema: Any, names: dict[str, Any]) -> None:
    match schema:
        case list():
            for one in schema:
                _name_types(one, names)
        case {"type": "record", "name": name, "fields": fields}:
            names[name] = schema
            for field in fields:
                _name_types(field["type"], names)
        case {"type": "fixed" | "enum", "name": name}:
            names[name] = schema
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            _name_types(inner, names)
        case {"type": inner} if not isinstance(inner, str):
            _name_types(inner, names)
        case _:
            pass


def _read(data: io.BytesIO, schema: Any, names: dict[str, Any]) -> Any:
    match schema:
        case str() if schema in _PRIMITIVES:
            return _read_primitive(data, schema)
        case str():
            return _read(data, names[schema], names)
        case list():
            branch = _read_long(data)
            # Which branch it was: an int that could be a long must come out as it came in.
            return branch, _read(data, schema[branch], names)
        case {"type": "record", "fields": fields}:
            return {field["name"]: _read(data, field["type"], names) for field in fields}
        case {"type": "fixed", "size": size}:
            return data.read(size)
        case {"type": "array", "items": inner}:
            return _read_items(data, lambda: _read(data, inner, names))
        case {"type": "map", "values": inner}:
            return _read_map(data, inner, names)
        case {"type": inner}:
            return _read(data, inner, names)
    raise AssertionError(schema)


def _write(out: io.BytesIO, value: Any, schema: Any, names: dict[str, Any]) -> None:
    match schema:
        case str() if schema in _PRIMITIVES:
            _write_primitive(out, value, schema)
        case str():
            _write(out, value, names[schema], names)
        case list():
            branch, inner = value
            _write_long(out, branch)
            _write(out, inner, schema[branch], names)
        case {"type": "record", "fields": fields}:
            for field in fields:
                _write(out, value[field["name"]], field["type"], names)
        case {"type": "fixed"}:
            out.write(value)
        case {"type": "array", "items": inner}:
            if value:
                _write_long(out, len(value))
                for item in value:
                    _write(out, item, inner, names)
            _write_long(out, 0)
        case {"type": "map", "values": inner}:
            _write_map(out, value, inner, names)
        case {"type": inner}:
            _write(out, value, inner, names)
        case _:
            raise AssertionError(schema)


def _read_primitive(data: io.BytesIO, kind: str) -> Any:
    match kind:
        case "null":
            return None
        case "boolean":
            return data.read(1) == b"\x01"
        case "int" | "long":
            return _read_long(data)
        case "float":
            return struct.unpack("<f", data.read(4))[0]
        case "double":
            return struct.unpack("<d", data.read(8))[0]
        case "string":
            return data.read(_read_long(data)).decode()
        case _:
            return data.read(_read_long(data))


def _write_primitive(out: io.BytesIO, value: Any, kind: str) -> None:
    match kind:
        case "null":
            pass
        case "boolean":
            out.write(b"\x01" if value else b"\x00")
        case "int" | "long":
            _write_long(out, value)
        case "float":
            out.write(struct.pack("<f", value))
        case "double":
            out.write(struct.pack("<d", value))
        case _:
            text = value.encode() if kind == "string" else value
            _write_long(out, len(text))
            out.write(text)


def _read_items(data: io.BytesIO, read: Callable[[], Any]) -> list[Any]:
    items = []
    while count := _read_long(data):
        if count < 0:
            # The size of the block in bytes stands before it, for those who skip it.
            _read_long(data)
        items += [read() for _ in range(abs(count))]
    return items


def _read_map(data: io.BytesIO, inner: Any, names: dict[str, Any]) -> dict[str, Any]:
    return dict(_read_items(data, lambda: (_read_primitive(data, "string"), _read(data, inner, names))))


def _write_map(out: io.BytesIO, value: dict[str, Any], inner: Any, names: dict[str, Any]) -> None:
    if value:
        _write_long(out, len(value))
        for key, item in value.items():
            _write_primitive(out, key, "string")
            _write(out, item, inner, names)
    _write_long(out, 0)


def _read_long(data: io.BytesIO) -> int:
    shift = value = 0
    while True:
        byte = data.read(1)[0]
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _write_long(out: io.BytesIO, value: int) -> None:
    rest = (value << 1) ^ (value >> 63)
    while rest & ~0x7F:
        out.write(bytes([rest & 0x7F | 0x80]))
        rest >>= 7
    out.write(bytes([rest]))
