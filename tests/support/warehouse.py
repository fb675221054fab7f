"""A lake seen from its storage: which files are there, and which of them something leads to."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqb.lake.iceberg import IcebergLake
from sqb.lake.storage.locations import get_local_path
from sqb.project.config.connections.lake_location import LakeLocation


def unreferenced(folder: Path) -> set[str]:
    """Files of a project's warehouse that no table or view leads to, by the catalog's own words."""
    lake = IcebergLake(LakeLocation.embedded(folder / "lake" / "catalog.db", folder / "lake" / "data"))
    catalog = lake.open_for_writing().catalog
    reached: set[str] = set()
    with sqlite3.connect(str(lake.place.database)) as connection:
        rows = connection.execute(
            "SELECT table_namespace, table_name, metadata_location, iceberg_type FROM iceberg_tables"
        ).fetchall()
    for schema, name, location, kind in rows:
        reached.add(location)
        if kind == "VIEW":
            continue
        table = catalog.load_table((schema, name))
        reached |= {entry.metadata_file for entry in table.metadata.metadata_log}
        for snapshot in table.metadata.snapshots:
            reached.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                reached.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                reached |= {entry.data_file.file_path for entry in entries}
    known = {get_local_path(path) for path in reached}
    runs = Path(lake.warehouse) / "_sqlbuild_stage" / "_runs"
    # Hadoop writes a checksum beside each file.
    known |= {str(Path(path).with_name(f".{Path(path).name}.crc")) for path in known}
    return {str(p) for p in Path(lake.warehouse).rglob("*") if p.is_file() and p.parent != runs and str(p) not in known}
