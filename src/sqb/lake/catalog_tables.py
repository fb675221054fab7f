"""The tables of Iceberg's JDBC catalog and their rows, in SQL that SQLite and PostgreSQL both understand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqb.lake.port import STAGE_SCHEMA, Pointer
from sqb.names import Relation

TABLES = (
    "CREATE TABLE IF NOT EXISTS iceberg_tables(catalog_name VARCHAR(255) NOT NULL,"
    " table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000),"
    " previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),"
    " PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,"
    " namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000),"
    " PRIMARY KEY (catalog_name, namespace, property_key))",
)
CATALOG_TABLES = frozenset(("iceberg_tables", "iceberg_namespace_properties"))
# The warehouse that a catalog was made for, as a property of the schema of stages.
WAREHOUSE = "sqb.warehouse"
_KEY = "catalog_name = ? AND table_namespace = ? AND table_name = ?"


class Session(Protocol):
    """A connection to the catalog's database, with `?` where values go."""

    def rows(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        """The rows of a query."""

    def run(self, sql: str, *values: Any) -> int:
        """Run a statement; how many rows it was about."""

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> int:
        """Run a statement with each of the values; how many rows that was about."""


def all_rows(session: Session, catalog: str) -> tuple[dict[Relation, Pointer], str | None]:
    """Everything in the catalog, and the warehouse that it was made for, in one query."""
    rows = session.rows(
        "SELECT table_namespace, table_name, metadata_location, iceberg_type FROM iceberg_tables"
        " WHERE catalog_name = ? AND metadata_location IS NOT NULL"
        " UNION ALL SELECT namespace, NULL, property_value, NULL FROM iceberg_namespace_properties"
        " WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
        catalog,
        catalog,
        STAGE_SCHEMA,
        WAREHOUSE,
    )
    made_for = next((location for _, name, location, _ in rows if name is None), None)
    found = (Pointer(Relation(ns, name), at, kind == "VIEW") for ns, name, at, kind in rows if name is not None)
    return {pointer.relation: pointer for pointer in found}, made_for


def warehouse_of(session: Session, catalog: str) -> str | None:
    """The warehouse that a catalog was made for; None when nobody has said."""
    rows = session.rows(
        "SELECT property_value FROM iceberg_namespace_properties"
        " WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
        catalog,
        STAGE_SCHEMA,
        WAREHOUSE,
    )
    return str(rows[0][0]) if rows else None


def say_warehouse(session: Session, catalog: str, warehouse: str) -> None:
    """Make the schema of stages, and write down the warehouse that a catalog is for, unless that has been done."""
    session.run_many(
        "INSERT INTO iceberg_namespace_properties(catalog_name, namespace, property_key, property_value)"
        " VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(catalog, STAGE_SCHEMA, "exists", "true"), (catalog, STAGE_SCHEMA, WAREHOUSE, warehouse)],
    )


def locations_of(session: Session, catalog: str, table: str) -> dict[str, str]:
    """Where the metadata of the tables with one name is, by their schemas."""
    return dict(
        session.rows(
            "SELECT table_namespace, metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_name = ? AND metadata_location IS NOT NULL",
            catalog,
            table,
        )
    )


def row_of(session: Session, catalog: str, relation: Relation) -> Pointer | None:
    """What stands under one name."""
    query = f"SELECT metadata_location, iceberg_type FROM iceberg_tables WHERE {_KEY}"
    for location, kind in session.rows(query, catalog, relation.schema, relation.name):
        return Pointer(relation, location or "", kind == "VIEW")
    return None


def rows_in(session: Session, catalog: str, schemas: Iterable[str]) -> dict[Relation, Pointer]:
    """What stands in schemas."""
    found: dict[Relation, Pointer] = {}
    for schema in sorted(set(schemas)):
        rows = session.rows(
            "SELECT table_name, metadata_location, iceberg_type FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_namespace = ?",
            catalog,
            schema,
        )
        for name, location, kind in rows:
            relation = Relation(schema, name)
            found[relation] = Pointer(relation, location or "", kind == "VIEW")
    return found


def add_schemas(session: Session, catalog: str, schemas: Iterable[str]) -> None:
    """Create the schemas that are not there yet."""
    session.run_many(
        "INSERT INTO iceberg_namespace_properties(catalog_name, namespace, property_key, property_value)"
        " VALUES (?, ?, 'exists', 'true') ON CONFLICT DO NOTHING",
        [(catalog, schema) for schema in sorted(set(schemas))],
    )


def add_rows(session: Session, catalog: str, kind: str, rows: Mapping[Relation, str]) -> bool:
    """Add relations with their metadata files; False when one of the names is taken, with what else was added."""
    values = [(catalog, r.schema, r.name, location, kind) for r, location in sorted(rows.items())]
    added = session.run_many(
        "INSERT INTO iceberg_tables(catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        values,
    )
    return added == len(values)


def replace_rows(session: Session, catalog: str, kind: str, rows: Mapping[Pointer, str], keeps: bool = True) -> bool:
    """Let relations be described by other metadata files; False when one is not where it was any more.

    With `keeps` the catalog remembers the file of before, as it does when a table goes on.
    """
    ordered = sorted(rows.items(), key=lambda row: row[0].relation)
    values = [
        (location, p.location if keeps else None, kind, catalog, p.relation.schema, p.relation.name, p.location)
        for p, location in ordered
    ]
    replaced = session.run_many(
        "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?, iceberg_type = ?"
        f" WHERE {_KEY} AND coalesce(metadata_location, '') = ?",
        values,
    )
    return replaced == len(values)


def forget_rows(session: Session, catalog: str, pointers: Iterable[Pointer]) -> bool:
    """Take relations out of the catalog; False when one is not where it was any more."""
    ordered = sorted(pointers, key=lambda p: p.relation)
    gone = session.run_many(
        f"DELETE FROM iceberg_tables WHERE {_KEY} AND metadata_location = ?",
        [(catalog, p.relation.schema, p.relation.name, p.location) for p in ordered],
    )
    return gone == len(ordered)


def drop_row(session: Session, catalog: str, relation: Relation) -> None:
    """Take a relation out of the catalog, wherever its metadata is."""
    session.run(f"DELETE FROM iceberg_tables WHERE {_KEY}", catalog, relation.schema, relation.name)


def drop_empty_schemas(session: Session, catalog: str, schemas: Iterable[str]) -> None:
    """Take schemas out of the catalog that hold nothing, and of which nothing but their being there is said."""
    session.run_many(
        "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?"
        " AND NOT EXISTS (SELECT 1 FROM iceberg_tables t WHERE t.catalog_name = ?"
        "   AND (t.table_namespace = ? OR t.table_namespace LIKE ?))"
        " AND NOT EXISTS (SELECT 1 FROM iceberg_namespace_properties p WHERE p.catalog_name = ?"
        "   AND p.namespace = ? AND p.property_key <> 'exists')",
        [(catalog, s, catalog, s, f"{s}.%", catalog, s) for s in sorted(set(schemas))],
    )
