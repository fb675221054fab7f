"""Records of Avro files, field by field as the bytes that they were written as.

What is copied from one file to another that way stays what it was, with fields that neither sqb nor pyiceberg knows. It
knows nothing of manifests: a record has fields with the ids of Iceberg, and one of them may be a record itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import OptionReader, Reader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_SCHEMA, _CODEC = "avro.schema", "avro.codec"


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record; of a record inside it, which is never NULL, the fields."""

    id: int
    is_optional: bool
    reader: Reader
    fields: tuple[AvroField, ...] = ()


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """What the head of a file says: metadata by its names, the schema of its records among it."""

    meta: Mapping[str, str]
    fields: tuple[AvroField, ...] = field(repr=False)

    @property
    def schema(self) -> str:
        return self.meta[_SCHEMA]

    def has_field(self, field_id: int) -> bool:
        """Whether its records, or the record inside them, have a field."""
        return any(field_id == f.id or any(field_id == i.id for i in f.fields) for f in self.fields)


@dataclass(frozen=True, slots=True)
class AvroRecord:
    """One record: all of its fields as they were written, and the values of those that were asked for, by their ids."""

    raw: Mapping[int, bytes]
    values: Mapping[int, Any]


def read_records(content: bytes, read_ids: Collection[int], inner: int = -1) -> tuple[AvroHeader, list[AvroRecord]]:
    """The records of a file; the fields of the record with the id `inner` count as their own."""
    decoder = new_decoder(content)
    head = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    assert isinstance(head, AvroFileHeader)
    header = AvroHeader(dict(head.meta), _build_fields(head.meta[_SCHEMA], inner))
    codec = head.compression_codec()
    leaves = [leaf for f in header.fields for leaf in f.fields or (f,)]
    steps = [(leaf.id, leaf.reader.read if leaf.id in read_ids else leaf.reader.skip) for leaf in leaves]
    records: list[AvroRecord] = []
    while decoder.tell() < len(content):
        count, block = decoder.read_int(), decoder.read_bytes()
        block = codec.decompress(block) if codec is not None else block
        if decoder.read(SYNC_SIZE) != head.sync:
            raise ValueError("a block of an Avro file does not end where it should")
        records += _read_block(block, count, steps)
    return header, records


def _read_block(block: bytes, count: int, steps: list[tuple[int, Any]]) -> Iterable[AvroRecord]:
    decoder = new_decoder(block)
    at = 0
    for _ in range(count):
        raw, values = {}, {}
        for field_id, read in steps:
            values[field_id] = read(decoder)
            end = decoder.tell()
            raw[field_id] = block[at:end]
            at = end
        yield AvroRecord(raw, values)


@lru_cache(maxsize=256)
def _build_fields(schema: str, inner: int) -> tuple[AvroField, ...]:
    file_schema = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    return _list_fields(file_schema.as_struct(), inner)


def _list_fields(struct: StructType, inner: int) -> tuple[AvroField, ...]:
    fields = []
    for part in struct.fields:
        reader = construct_reader(part.field_type)
        beneath = _list_fields(part.field_type, inner) if part.field_id == inner else ()  # type: ignore[arg-type]
        fields.append(
            AvroField(part.field_id, not part.required, reader if part.required else OptionReader(reader), beneath)
        )
    return tuple(fields)


def write_records(header: AvroHeader, records: Iterable[Mapping[int, bytes]]) -> bytes:
    """A file with the head of another and these records, each as the bytes of its fields."""
    leaves = [leaf for f in header.fields for leaf in f.fields or (f,)]
    rows = [b"".join(record[leaf.id] for leaf in leaves) for record in records]
    meta = {**header.meta, _CODEC: "null"}
    head = b"".join(_encode_text(key) + _encode_text(value) for key, value in meta.items())
    sync, block = os.urandom(SYNC_SIZE), b"".join(rows)
    start = MAGIC + encode_int(len(meta)) + head + encode_int(0) + sync
    return start + encode_int(len(rows)) + encode_int(len(block)) + block + sync if rows else start


def encode_field(described: AvroField, value: int | str | None) -> bytes:
    """A value as a field of a record holds it: a whole number, a text, or NULL."""
    if value is None:
        if not described.is_optional:
            raise ValueError(f"field {described.id} of an Avro file must have a value")
        return encode_int(0)
    encoded = encode_int(value) if isinstance(value, int) else _encode_text(value)
    return encode_int(1) + encoded if described.is_optional else encoded


def encode_int(value: int) -> bytes:
    """A whole number as Avro writes it."""
    rest, encoded = (value << 1) ^ (value >> 63), bytearray()
    while rest & ~0x7F:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _encode_text(text: str) -> bytes:
    content = text.encode()
    return encode_int(len(content)) + content
