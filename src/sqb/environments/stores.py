"""Opening the store that a project names."""

from __future__ import annotations

from pathlib import Path

from sqb.environments.database import Database
from sqb.environments.port import Store
from sqb.environments.sql_store import SqlStore
from sqb.errors import CallError
from sqb.project.state_url import DUCKDB, parse_postgres, problem_of


def open_store(url: str, scope: str, root: Path) -> Store:
    """The environments of a scope in the database at `url`; paths of files are relative to `root`."""
    return SqlStore(_database(url, root), scope)


def _database(url: str, root: Path) -> Database:
    if (problem := problem_of(url)) is not None:
        raise CallError(f"the address of the state is not {problem}", hint="see SQB_STATE, and `state` in [virtual]")
    # Each loads its database's library when it is first asked.
    if url.startswith(DUCKDB):
        from sqb.environments.duckdb_database import DuckdbDatabase

        path = url.removeprefix(DUCKDB)
        return DuckdbDatabase(root / path, path)
    from sqb.environments.postgres_database import PostgresDatabase

    return PostgresDatabase(parse_postgres(url))
