"""pyiceberg's files in an object store: one client for all tables, which writes small files in one request.

Apart from `s3`, which planning uses and which therefore loads neither pyiceberg nor pyarrow before it must.
"""

from __future__ import annotations

from functools import lru_cache

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from sqb.lake.storage.s3 import open_s3


class SharedS3FileIO(PyArrowFileIO):
    """pyiceberg makes a client, and with it new connections, for each table."""

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        return _get_client(frozenset((k, v) for k, v in self.properties.items() if k.startswith(("s3.", "client."))))


@lru_cache(maxsize=16)
def _get_client(options: frozenset[tuple[str, str]]) -> FileSystem:
    return open_s3(dict(options))
