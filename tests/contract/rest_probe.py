"""A lake in a REST catalog, for the contract."""

from __future__ import annotations

from pathlib import Path

from contract.lakes import SqliteProbe
from sqb.lake.iceberg import IcebergLake
from sqb.project.config.connections.lake_location import LakeLocation
from support.rest_server import RestServer


class RestProbe(SqliteProbe):
    """A lake behind Iceberg's own REST server; what strangers do, they do in the database behind that."""

    catalog_name = "rest_backend"

    def __init__(self, root: Path, server: RestServer) -> None:
        self.root, self.server = root, server
        server.empty()
        self.database = server.database
        self.lake = open_rest_lake(root, server)


def open_rest_lake(root: Path, server: RestServer, cache: Path | None = None) -> IcebergLake:
    return IcebergLake(LakeLocation("team", "rest", "lake", server.uri, str(root / "data")), cache=cache)
