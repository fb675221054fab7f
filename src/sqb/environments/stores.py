"""Opening the store that a project names."""

from __future__ import annotations

from pathlib import Path

from sqb.environments.database import Database
from sqb.environments.port import Store
from sqb.environments.sql_store import SqlStore

_DUCKDB = "duckdb:///"


def open_store(url: str, scope: str, root: Path) -> Store:
    """The environments of a scope in the database at `url`; paths of files are relative to `root`."""
    return SqlStore(_database(url, root), scope)


def _database(url: str, root: Path) -> Database:
    # The two databases load what they need when they are first asked.
    if url.startswith(_DUCKDB):
        from sqb.environments.duckdb_database import DuckdbDatabase

        path = url.removeprefix(_DUCKDB)
        return DuckdbDatabase(root / path, path)
    raise NotImplementedError(url)
