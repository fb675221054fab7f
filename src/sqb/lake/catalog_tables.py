"""The tables of Iceberg's JDBC catalog: how they are made, whether somebody is making them, and their rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from sqb.lake.port import Pointer
from sqb.names import Relation

TABLES = """
CREATE TABLE IF NOT EXISTS iceberg_tables(catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
  table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
  iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,
  namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000),
  PRIMARY KEY (catalog_name, namespace, property_key));
"""


def is_being_made(connection: sqlite3.Connection) -> bool:
    """Whether another process, sqb or Spark, has begun to make this catalog: so far it holds nothing."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return not tables or tables == {"iceberg_tables"}


def rows_of(
    connection: sqlite3.Connection, catalog: str, schema: str, name: str | None = None
) -> dict[Relation, Pointer]:
    """What stands in a schema, or under one name of it."""
    rows = connection.execute(
        "SELECT table_name, metadata_location, iceberg_type FROM iceberg_tables"
        " WHERE catalog_name = ? AND table_namespace = ? AND table_name = coalesce(?, table_name)",
        (catalog, schema, name),
    )
    found = (Pointer(Relation(schema, name), location or "", kind == "VIEW") for name, location, kind in rows)
    return {pointer.relation: pointer for pointer in found}


def add_schemas(connection: sqlite3.Connection, catalog: str, schemas: Iterable[str]) -> None:
    """Create the schemas that are not there yet."""
    connection.executemany(
        "INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, 'exists', 'true')",
        [(catalog, schema) for schema in sorted(set(schemas))],
    )


def point_rows(
    connection: sqlite3.Connection, catalog: str, kind: str, rows: Iterable[tuple[Relation, str, str | None]]
) -> None:
    """Let relations be described by other metadata files, whatever stood there: each with its new and its old one."""
    connection.executemany(
        "INSERT OR REPLACE INTO iceberg_tables(catalog_name, table_namespace, table_name, metadata_location,"
        " previous_metadata_location, iceberg_type) VALUES (?, ?, ?, ?, ?, ?)",
        [(catalog, r.schema, r.name, location, before, kind) for r, location, before in rows],
    )


def drop_rows(connection: sqlite3.Connection, catalog: str, relations: Iterable[Relation]) -> None:
    """Take relations out of the catalog."""
    connection.executemany(
        "DELETE FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
        [(catalog, r.schema, r.name) for r in relations],
    )
