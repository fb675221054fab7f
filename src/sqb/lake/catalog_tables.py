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


def exchange_row(connection: sqlite3.Connection, catalog: str, pointer: Pointer, after: str) -> bool:
    """Let a relation be described by another metadata file; False when it is not where it was any more."""
    relation, before = pointer.relation, pointer.location
    done = connection.execute(
        "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
        " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?",
        (after, before, catalog, relation.schema, relation.name, before),
    ).rowcount
    connection.commit()
    return done == 1


def schema_property(connection: sqlite3.Connection, catalog: str, schema: str, key: str) -> str | None:
    """What is said of a schema."""
    row = connection.execute(
        "SELECT property_value FROM iceberg_namespace_properties"
        " WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
        (catalog, schema, key),
    ).fetchone()
    return str(row[0]) if row else None


def forget_row(connection: sqlite3.Connection, catalog: str, pointer: Pointer) -> bool:
    """Take a relation out of the catalog; False when it is not where it was any more."""
    done = connection.execute(
        "DELETE FROM iceberg_tables"
        " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?",
        (catalog, pointer.relation.schema, pointer.relation.name, pointer.location),
    ).rowcount
    connection.commit()
    return done == 1


def drop_empty_schemas(connection: sqlite3.Connection, catalog: str, schemas: Iterable[str]) -> None:
    """Take schemas out of the catalog that hold nothing, and of which nothing but their being there is said."""
    connection.executemany(
        "DELETE FROM iceberg_namespace_properties WHERE catalog_name = :catalog AND namespace = :schema"
        " AND NOT EXISTS (SELECT 1 FROM iceberg_tables t WHERE t.catalog_name = :catalog"
        "   AND (t.table_namespace = :schema OR t.table_namespace LIKE :schema || '.%'))"
        " AND NOT EXISTS (SELECT 1 FROM iceberg_namespace_properties p WHERE p.catalog_name = :catalog"
        "   AND p.namespace = :schema AND p.property_key <> 'exists')",
        [{"catalog": catalog, "schema": schema} for schema in sorted(set(schemas))],
    )
    connection.commit()
