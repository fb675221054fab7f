"""Manifests and their entries, read like pyiceberg reads them, but for one thing.

pyiceberg works out how to read a file from the schema in its header, each time, and that takes longer than reading it.
Manifests of one table have the same schema, so what was worked out is kept.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from sqb.lake.private_api import inherit_from_manifest

_SCHEMA = "avro.schema"


def read_manifests(snapshot: Snapshot | None, io: FileIO) -> list[ManifestFile]:
    """The manifests that a snapshot lists; none without one."""
    if snapshot is None:
        return []
    with _CachedReaderFile(io.new_input(snapshot.manifest_list), "list") as reader:
        return list(reader)


def read_entries(manifest: ManifestFile, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
    """The entries of a manifest, with what they inherit from it."""
    with _CachedReaderFile(io.new_input(manifest.manifest_path), "entries") as reader:
        entries = [inherit_from_manifest(entry, manifest) for entry in reader]
    return [e for e in entries if not discard_deleted or e.status != ManifestEntryStatus.DELETED]


class _CachedReaderFile(AvroFile[Any]):
    """An Avro file whose reader is taken from those that were made before."""

    __slots__ = ("kind",)

    def __init__(self, input_file: InputFile, kind: str) -> None:
        super().__init__(input_file)
        self.kind = kind

    def __enter__(self) -> _CachedReaderFile:
        with self.input_file.open() as file:
            self.decoder = new_decoder(file.read())
        self.header = _build_header_reader().read(self.decoder)
        self.schema, self.reader = _build_reader(self.header.meta[_SCHEMA], self.kind)
        self.read_schema = self.schema
        return self


@lru_cache(maxsize=1)
def _build_header_reader() -> Reader:
    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


@lru_cache(maxsize=256)
def _build_reader(schema: str, kind: str) -> tuple[Schema, Reader]:
    """How to read files with a schema, as a list of manifests or as entries of one."""
    file_schema = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    if kind == "list":
        read_schema = MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION]
        types: dict[int, Any] = {-1: ManifestFile, 508: PartitionFieldSummary}
        return file_schema, resolve_reader(file_schema, read_schema, types, {517: ManifestContent})
    read_schema = MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION]
    enums: dict[int, Any] = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
    return file_schema, resolve_reader(file_schema, read_schema, {-1: ManifestEntry, 2: DataFile}, enums)
