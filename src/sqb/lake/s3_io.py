"""pyiceberg's files in an object store: one client for all tables, which writes small files in one request."""

from __future__ import annotations

from functools import lru_cache

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from sqb.lake.object_storage import open_s3


class SharedS3FileIO(PyArrowFileIO):
    """pyiceberg makes a client, and with it new connections, for each table."""

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        return _client(frozenset((k, v) for k, v in self.properties.items() if k.startswith(("s3.", "client."))))


@lru_cache(maxsize=16)
def _client(options: frozenset[tuple[str, str]]) -> FileSystem:
    return open_s3(dict(options))
