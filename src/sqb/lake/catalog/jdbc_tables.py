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

    def query(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        """The rows of a query."""

    def execute(self, sql: str, *values: Any) -> int:
        """Run a statement and return the number of rows that it affected."""

    def execute_many(self, sql: str, values: Iterable[Sequence[Any]]) -> int:
        """Run a statement with each of the values and return the number of rows that it affected."""


def read_pointers(session: Session, catalog: str) -> tuple[dict[Relation, Pointer], str | None]:
    """Everything in the catalog, and the warehouse that it was made for, in one query."""
    rows = session.query(
        "SELECT table_namespace, table_name, metadata_location, iceberg_type FROM iceberg_tables"
        " WHERE catalog_name = ? AND metadata_location IS NOT NULL"
        " UNION ALL SELECT namespace, NULL, property_value, NULL FROM iceberg_namespace_properties"
        " WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
        catalog,
        catalog,
        STAGE_SCHEMA,
        WAREHOUSE,
    )
    warehouse = next((location for _, name, location, _ in rows if name is None), None)
    pointers = (Pointer(Relation(ns, name), at, kind == "VIEW") for ns, name, at, kind in rows if name is not None)
    return {pointer.relation: pointer for pointer in pointers}, warehouse


def read_warehouse(session: Session, catalog: str) -> str | None:
    """The warehouse that a catalog was made for; None when none is recorded."""
    rows = session.query(
        "SELECT property_value FROM iceberg_namespace_properties"
        " WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
        catalog,
        STAGE_SCHEMA,
        WAREHOUSE,
    )
    return str(rows[0][0]) if rows else None


def record_warehouse(session: Session, catalog: str, warehouse: str) -> None:
    """Create the schema of stages and record the catalog's warehouse, unless that has been done."""
    session.execute_many(
        "INSERT INTO iceberg_namespace_properties(catalog_name, namespace, property_key, property_value)"
        " VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(catalog, STAGE_SCHEMA, "exists", "true"), (catalog, STAGE_SCHEMA, WAREHOUSE, warehouse)],
    )


def read_locations(session: Session, catalog: str, table: str) -> dict[str, str]:
    """Where the metadata of the tables with one name is, by their schemas."""
    return dict(
        session.query(
            "SELECT table_namespace, metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_name = ? AND metadata_location IS NOT NULL",
            catalog,
            table,
        )
    )


def read_pointer(session: Session, catalog: str, relation: Relation) -> Pointer | None:
    """Read the pointer of one relation."""
    query = f"SELECT metadata_location, iceberg_type FROM iceberg_tables WHERE {_KEY}"
    for location, kind in session.query(query, catalog, relation.schema, relation.name):
        return Pointer(relation, location or "", kind == "VIEW")
    return None


def read_schema_pointers(session: Session, catalog: str, schemas: Iterable[str]) -> dict[Relation, Pointer]:
    """Read the pointers of all relations in schemas."""
    pointers: dict[Relation, Pointer] = {}
    for schema in sorted(set(schemas)):
        rows = session.query(
            "SELECT table_name, metadata_location, iceberg_type FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_namespace = ?",
            catalog,
            schema,
        )
        for name, location, kind in rows:
            relation = Relation(schema, name)
            pointers[relation] = Pointer(relation, location or "", kind == "VIEW")
    return pointers


def add_schemas(session: Session, catalog: str, schemas: Iterable[str]) -> None:
    """Create the schemas that are not there yet."""
    session.execute_many(
        "INSERT INTO iceberg_namespace_properties(catalog_name, namespace, property_key, property_value)"
        " VALUES (?, ?, 'exists', 'true') ON CONFLICT DO NOTHING",
        [(catalog, schema) for schema in sorted(set(schemas))],
    )


def add_rows(session: Session, catalog: str, kind: str, rows: Mapping[Relation, str]) -> bool:
    """Add relations with their metadata files; False when one of the names is taken, with what else was added."""
    values = [(catalog, r.schema, r.name, location, kind) for r, location in sorted(rows.items())]
    added = session.execute_many(
        "INSERT INTO iceberg_tables(catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        values,
    )
    return added == len(values)


def replace_rows(
    session: Session, catalog: str, kind: str, rows: Mapping[Pointer, str], keep_previous: bool = True
) -> bool:
    """Point relations to other metadata files; False when one has changed since.

    With `keep_previous` the catalog records the previous file, as for a commit to the same table.
    """
    ordered = sorted(rows.items(), key=lambda row: row[0].relation)
    values = [
        (location, p.location if keep_previous else None, kind, catalog, p.relation.schema, p.relation.name, p.location)
        for p, location in ordered
    ]
    replaced = session.execute_many(
        "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?, iceberg_type = ?"
        f" WHERE {_KEY} AND coalesce(metadata_location, '') = ?",
        values,
    )
    return replaced == len(values)


def delete_rows(session: Session, catalog: str, pointers: Iterable[Pointer]) -> bool:
    """Delete relations from the catalog; False when one has changed since."""
    ordered = sorted(pointers, key=lambda p: p.relation)
    deleted = session.execute_many(
        f"DELETE FROM iceberg_tables WHERE {_KEY} AND metadata_location = ?",
        [(catalog, p.relation.schema, p.relation.name, p.location) for p in ordered],
    )
    return deleted == len(ordered)


def delete_row(session: Session, catalog: str, relation: Relation) -> None:
    """Delete a relation from the catalog, whatever its metadata file is."""
    session.execute(f"DELETE FROM iceberg_tables WHERE {_KEY}", catalog, relation.schema, relation.name)


def drop_empty_schemas(session: Session, catalog: str, schemas: Iterable[str]) -> None:
    """Delete those of the schemas that hold no relation and have no properties of their own."""
    session.execute_many(
        "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?"
        " AND NOT EXISTS (SELECT 1 FROM iceberg_tables t WHERE t.catalog_name = ?"
        "   AND (t.table_namespace = ? OR t.table_namespace LIKE ?))"
        " AND NOT EXISTS (SELECT 1 FROM iceberg_namespace_properties p WHERE p.catalog_name = ?"
        "   AND p.namespace = ? AND p.property_key <> 'exists')",
        [(catalog, s, catalog, s, f"{s}.%", catalog, s) for s in sorted(set(schemas))],
    )
