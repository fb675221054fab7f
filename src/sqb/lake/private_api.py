"""What sqb needs of pyiceberg beyond its public interface: one function for each, and no second place.

Each says what it is for, and the version of pyiceberg since which sqb needs it. `tests/unit/lake/test_private_api.py`
names what a new version moved. Private methods that a subclass replaces are in that subclass, as they must be
(`catalog/pyiceberg_sql.py`, `catalog/rest/pyiceberg.py`); the same test compares them with those of pyiceberg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from threading import local
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile, _inherit_from_manifest
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata


def open_file_io(catalog: Catalog, location: str | None = None) -> FileIO:
    """Open the files of a catalog with its settings and logins, before there is a table to ask. Since 0.12."""
    return catalog._load_file_io(location=location)


def delete_old_metadata(catalog: Catalog, io: FileIO, before: TableMetadata, now: TableMetadata) -> None:
    """Delete the metadata files that a table forgets, as its properties say. Since 0.12.

    pyiceberg does it after commits of its own `Table`, and not after `Catalog.commit_table`.
    """
    catalog._delete_old_metadata(io, before, now)


def open_client_for_each_call(catalog: Catalog) -> None:
    """Let each call on a Hive Metastore have a connection of its own: all threads share pyiceberg's one. Since 0.12."""
    hive: Any = catalog
    hive._client = _ClientForEachCall(lambda: hive._create_hive_client(hive.properties))


class _ClientForEachCall:
    """What pyiceberg enters for a call: here several threads may have entered it at once."""

    def __init__(self, create: Callable[[], Any]) -> None:
        self._create = create
        self._opened = local()

    def __enter__(self) -> Any:
        client = self._create()
        opened = client.__enter__()
        self._opened.clients = [*getattr(self._opened, "clients", ()), client]
        return opened

    def __exit__(self, *error: Any) -> None:
        *self._opened.clients, client = self._opened.clients
        client.__exit__(*error)


def inherit_from_manifest(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """Fill in what an entry takes over from its manifest: snapshot and sequence number. Since 0.12."""
    return _inherit_from_manifest(entry, manifest)


def copy_manifest(manifest: ManifestFile) -> ManifestFile:
    """A copy whose fields can be set: a plain copy shares them with the original. Since 0.12."""
    copied = copy(manifest)
    copied._data = list(manifest._data)
    return copied


def build_file_filters(
    schema: Schema, expression: BooleanExpression
) -> tuple[Callable[[DataFile], bool], Callable[[DataFile], bool]]:
    """Whether some row of a file may match, and whether every row does, by its statistics alone. Since 0.12."""
    some = _InclusiveMetricsEvaluator(schema, expression, case_sensitive=False)
    every = _StrictMetricsEvaluator(schema, expression, case_sensitive=False)
    return some.eval, every.eval


def iter_batches(scan: Any, io: FileIO, task: FileScanTask) -> Iterator[Any]:
    """The rows of one file, batch after batch: the public way reads all of it before the first row. Since 0.12."""
    from pyiceberg.io.pyarrow import _read_all_delete_files  # pyarrow's part is loaded where rows are read

    deletes = _read_all_delete_files(io, [task])
    batches: Iterator[Any] = scan._record_batches_from_scan_tasks_and_deletes([task], deletes)
    return batches
