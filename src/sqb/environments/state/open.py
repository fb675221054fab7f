"""Opening the store that a project names."""

from __future__ import annotations

from pathlib import Path

from sqb.environments.state.database import Database
from sqb.environments.state.sql_store import SqlStore
from sqb.environments.state.store import Store
from sqb.errors.call import CallError
from sqb.project.config.virtual import DUCKDB, find_address_problem, parse_postgres


def open_store(url: str, scope: str, root: Path) -> Store:
    """The environments of a scope in the database at `url`; paths of files are relative to `root`."""
    return SqlStore(_open_database(url, root), scope)


def _open_database(url: str, root: Path) -> Database:
    if (problem := find_address_problem(url)) is not None:
        raise CallError(f"the address of the state is not {problem}", hint="see SQB_STATE, and `state` in [virtual]")
    # Each loads its database's library when it is first asked.
    if url.startswith(DUCKDB):
        from sqb.environments.state.duckdb import DuckdbDatabase

        path = url.removeprefix(DUCKDB)
        return DuckdbDatabase(root / path, path)
    from sqb.environments.state.postgres import PostgresDatabase

    return PostgresDatabase(parse_postgres(url))
