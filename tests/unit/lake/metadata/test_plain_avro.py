"""Avro files as plain values: every type, and never half a file."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from sqb.lake.metadata.avro_records import encode_int
from sqb.lake.metadata.plain_avro import read_plain_records

SYNC = bytes(range(16))


def write_avro(schema: Any, rows: list[bytes], codec: str = "null") -> bytes:
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    head = b"".join(write_bytes(key.encode()) + write_bytes(value) for key, value in meta.items())
    block = b"".join(rows)
    if codec == "deflate":
        block = zlib.compress(block)[2:-4]
    return (
        b"Obj\x01"
        + encode_int(len(meta))
        + head
        + encode_int(0)
        + SYNC
        + encode_int(len(rows))
        + write_bytes(block)
        + SYNC
    )


def write_bytes(value: bytes) -> bytes:
    return encode_int(len(value)) + value


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": name, "type": kind} for name, kind in fields]}


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_every_type_of_avro(codec: str) -> None:
    schema = record(
        ("number", "long"),
        ("text", ["null", "string"]),
        ("flag", "boolean"),
        ("half", "double"),
        ("colour", {"type": "enum", "name": "colour", "symbols": ["red", "blue"]}),
        ("pair", {"type": "fixed", "name": "pair", "size": 2}),
        ("again", "pair"),
        ("list", {"type": "array", "items": "int"}),
        ("map", {"type": "map", "values": "bytes"}),
        ("inner", {"type": "record", "name": "inner", "fields": [{"name": "x", "type": {"type": "int"}}]}),
    )
    row = b"".join(
        (
            encode_int(-(2**40)),
            encode_int(1) + write_bytes("é".encode()),
            b"\x01",
            b"\x00\x00\x00\x00\x00\x00\xe0\x3f",
            encode_int(1),
            b"ab",
            b"cd",
            # Blocks with and without their size.
            encode_int(-2)
            + encode_int(2)
            + encode_int(1)
            + encode_int(2)
            + encode_int(1)
            + encode_int(3)
            + encode_int(0),
            encode_int(1) + write_bytes(b"k") + write_bytes(b"v") + encode_int(0),
            encode_int(7),
        )
    )
    expected = {
        "number": -(2**40),
        "text": "é",
        "flag": True,
        "half": 0.5,
        "colour": "blue",
        "pair": b"ab",
        "again": b"cd",
        "list": [1, 2, 3],
        "map": {"k": b"v"},
        "inner": {"x": 7},
    }
    assert read_plain_records(write_avro(schema, [row, row], codec)) == [expected, expected]


def test_a_file_that_is_cut_off_or_no_avro_is_an_error() -> None:
    content = write_avro(record(("a", "string")), [write_bytes(b"text")] * 3)
    assert len(read_plain_records(content)) == 3
    # Without its only block a file is whole, and empty.
    beginning = len(write_avro(record(("a", "string")), [])) - 2 - len(SYNC)
    for end in range(len(content)):
        if end == beginning:
            continue
        with pytest.raises((ValueError, LookupError)):
            read_plain_records(content[:end])
    with pytest.raises(ValueError, match="compressed by b'zstandard'"):
        read_plain_records(write_avro(record(("a", "string")), [], "zstandard"))
