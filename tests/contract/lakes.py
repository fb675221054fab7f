"""The lakes that the contract holds for, each with the few things that only a test may do to it."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Base, Column, Lake, PublishedCommit, Shape, TableState
from sqb.lake.storage.locations import get_local_path
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation, complete_s3_options
from support.memory_lake import MemoryLake
from support.postgres import Server

ORDERS = Relation("shop", "orders")
SUMMARY = {"sqb.model": "shop.orders", "sqb.run_id": "r1", "sqb.content": "2:abc"}


class Probe(Protocol):
    """A lake under test."""

    lake: Lake

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]: ...
    def properties(self, relation: Relation) -> Mapping[str, str]: ...
    def tags(self, relation: Relation) -> Mapping[str, int]: ...
    def append_as_stranger(self, relation: Relation, columns: Sequence[Sequence[Any]]) -> None: ...
    def add_column_as_stranger(self, relation: Relation, name: str) -> None: ...
    def drop_as_stranger(self, relation: Relation) -> None: ...
    def put_view(self, relation: Relation, sql: str, properties: Mapping[str, str]) -> None: ...


def shape(*columns: tuple[str, Any], **more: Any) -> Shape:
    """A shape of sqb's own: `shape(("id", "long"))`."""
    properties = {"sqb.model": "shop.orders", **more.pop("properties", {})}
    return Shape(tuple(Column(name, kind) for name, kind in columns), properties=properties, **more)


ID_AND_NAME = shape(("id", "long"), ("name", "string"))


def write(
    probe: Probe,
    columns: Sequence[Sequence[Any]],
    *,
    wanted: Shape = ID_AND_NAME,
    base: Base | None = None,
    run_id: str = "r1",
    target: Relation = ORDERS,
    view: Base | None = None,
) -> PublishedCommit:
    """Stage, fill and publish, as a build of a seed does."""
    probe.lake.ensure_schemas([target.schema])
    stage = probe.lake.stage(target, wanted, base, run_id, view)
    if columns:
        probe.lake.fill(stage, columns)
    return probe.lake.publish(stage, {**SUMMARY, "sqb.run_id": run_id})


def state(probe: Probe, relation: Relation = ORDERS) -> TableState:
    """What the lake says of a relation now, read anew."""
    return probe.lake.read_tables([probe.lake.list_pointers()[relation]])[relation]


class IcebergProbe:
    """A lake of real tables, looked at through pyiceberg."""

    lake: IcebergLake
    # What the catalog's rows are keyed by.
    catalog_name = "lake"

    def sql(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """What the catalog's database says; `?` where values go."""
        raise NotImplementedError

    @property
    def catalog(self) -> Any:
        return self.lake.open_for_writing().catalog

    def table(self, relation: Relation = ORDERS) -> Any:
        return self.catalog.load_table((relation.schema, relation.name))

    def rows(self, relation: Relation, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
        pylist = self.table(relation).scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in pylist), key=repr)

    def properties(self, relation: Relation) -> Mapping[str, str]:
        return dict(self.table(relation).properties)

    def tags(self, relation: Relation) -> Mapping[str, int]:
        refs = self.table(relation).metadata.refs
        return {name: ref.snapshot_id for name, ref in refs.items() if ref.snapshot_ref_type == "tag"}

    def append_as_stranger(self, relation: Relation, columns: Sequence[Sequence[Any]]) -> None:
        import pyarrow as pa

        table = self.table(relation)
        schema = table.schema().as_arrow()
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        table.append(pa.Table.from_arrays(arrays, schema=schema))

    def add_column_as_stranger(self, relation: Relation, name: str) -> None:
        from pyiceberg.types import StringType

        with self.table(relation).update_schema() as update:
            update.add_column(name, StringType())

    def drop_as_stranger(self, relation: Relation) -> None:
        self.sql("DELETE FROM iceberg_tables WHERE table_name = ?", relation.name)

    def put_view(self, relation: Relation, sql: str, properties: Mapping[str, str]) -> None:
        self.lake.ensure_schemas([relation.schema])
        folder = f"{self.lake.warehouse}/{relation.schema}/{relation.name}"
        path = f"{folder}/metadata/00000-{uuid.uuid4()}.metadata.json"
        document = {**view_document(sql, properties), "view-uuid": str(uuid.uuid4())}
        self.lake.storage.write(path, json.dumps(document).encode())
        # Spark writes local paths in another way.
        spelled = path if "://" in path else f"file:{path}"
        columns = "catalog_name, table_namespace, table_name, metadata_location, iceberg_type"
        query = f"INSERT INTO iceberg_tables({columns}) VALUES (?, ?, ?, ?, 'VIEW')"
        self.sql(query, self.catalog_name, relation.schema, relation.name, spelled)

    def files(self) -> set[str]:
        """Every file of the warehouse, but not of the catalog."""
        return {self._relative(file.path) for file in self.lake.storage.list_files(self.lake.warehouse)}

    def _relative(self, path: str) -> str:
        return f"data{get_local_path(path).removeprefix(self.lake.warehouse)}"

    def put_file(self, path: str, text: str) -> None:
        """A file that somebody left in the warehouse."""
        self.lake.storage.write(f"{self.lake.warehouse}/{path}", text.encode())

    def has_folder(self, path: str) -> bool:
        """Whether there is a folder in the warehouse, if only an empty one."""
        if "://" not in self.lake.warehouse:
            return Path(self.lake.warehouse, path).exists()
        return any(file.startswith(f"data/{path}/") for file in self.files())

    def entries(self) -> set[str]:
        return {f"{s}.{t}" for s, t in self.sql("SELECT table_namespace, table_name FROM iceberg_tables")}

    def garbage(self) -> set[str]:
        """Files that no table's metadata leads to."""
        reached: set[str] = set()
        for relation in (Relation.parse(e) for e in self.entries()):
            table = self.table(relation)
            reached |= {table.metadata_location, *(e.metadata_file for e in table.metadata.metadata_log)}
            for snapshot in table.metadata.snapshots:
                reached.add(snapshot.manifest_list)
                for manifest in snapshot.manifests(table.io):
                    reached.add(manifest.manifest_path)
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                    reached |= {entry.data_file.file_path for entry in entries}
        return self.files() - {self._relative(path) for path in reached}


class SqliteProbe(IcebergProbe):
    """The embedded lake."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.database = root / "catalog.db"
        self.lake = open_lake(root)

    def sql(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.database) as connection:
            return connection.execute(query, values).fetchall()


class PostgresProbe(IcebergProbe):
    """A lake whose catalog is in a schema of its own on a server; its warehouse is a folder or an object store."""

    def __init__(self, server: Server, warehouse: str, options: Mapping[str, str] | None = None) -> None:
        self.server = server
        self.schema = f"lake_{next(server.numbers)}"
        uri = f"{server.url()}?schema={self.schema}"
        self.place = LakeLocation(
            "team", uri=uri, warehouse=warehouse, options=complete_s3_options(options) if options else {}
        )
        self.lake = IcebergLake(self.place)

    def close(self) -> None:
        """Let go of what the server holds for it."""
        self.lake.close()
        self.server.run(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def sql(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self.lake.catalog.open_read_session() as session:  # type: ignore[attr-defined]
            if query.startswith("SELECT"):
                return list(session.query(query, *values))
            session.execute(query, *values)
            return []


class MemoryProbe:
    """The fake, which offers all of it itself."""

    def __init__(self) -> None:
        self.lake = MemoryLake()
        self.properties = self.lake.properties
        self.append_as_stranger = self.lake.append_as_stranger
        self.add_column_as_stranger = self.lake.add_column_as_stranger
        self.drop_as_stranger = self.lake.drop_as_stranger
        self.put_view = self.lake.put_view
        self.tags = self.lake.tags

    def rows(self, relation: Relation) -> list[tuple[Any, ...]]:
        return sorted(self.lake.rows(relation), key=repr)


def open_lake(root: Path, cache: Path | None = None) -> IcebergLake:
    return IcebergLake(LakeLocation.embedded(root / "catalog.db", root / "data"), cache=cache)


def view_document(sql: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """View metadata as Spark writes it."""
    return {
        "view-uuid": "0b8f1c9e-6d0c-4a39-9f34-8d7f5a1f6b0e",
        "format-version": 1,
        "location": "/warehouse/shop/recent_orders",
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 0, "name": "id", "required": False, "type": "long", "doc": "the key"}],
            }
        ],
        "current-version-id": 2,
        "versions": [
            {
                "version-id": version,
                "timestamp-ms": 1760000000000 + version,
                "schema-id": 0,
                "summary": {"engine-name": "spark", "engine-version": "4.1.0"},
                "default-catalog": "lake",
                "default-namespace": ["default"],
                "representations": [{"type": "sql", "sql": text, "dialect": "spark"}],
            }
            for version, text in ((1, "SELECT 1 AS id"), (2, sql))
        ],
        "version-log": [{"timestamp-ms": 1760000000000 + v, "version-id": v} for v in (1, 2)],
        "properties": {"spark.query-column-names": "id", "engine_version": "Spark 4.1.0", **properties},
    }
