"""What jobs, runs and tables are called in OpenLineage events."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from sqb.environments.naming import build_logical_relation, parse_logical_relation
from sqb.names import Relation
from sqb.operations.plan import PlannedWorkspace
from sqb.project.config.connections.lake_location import LakeLocation

DEFAULT_NAMESPACE = "sqb"
_OBJECT_STORES = ("s3a", "s3n")


@dataclass(frozen=True, slots=True)
class LineageNames:
    """The namespaces of a run's jobs and tables, and how jobs begin."""

    namespace: str
    dataset_namespace: str
    prefix: str
    # The virtual environment, and the one whose views have the plain names of models.
    environment: str = ""
    unsuffixed: str | None = None

    def name_job(self, node: str = "") -> str:
        """The name of a node's job, or that of the whole run."""
        return f"{self.prefix}.{node}" if node else self.prefix

    def name_table(self, relation: Relation) -> str:
        """The name of a table; in a virtual environment, that of the view on it."""
        logical = parse_logical_relation(relation) if self.environment else None
        if logical is None:
            return str(relation)
        return str(build_logical_relation(logical, self.environment, self.unsuffixed))


def build_names(planned: PlannedWorkspace) -> LineageNames:
    """The names that the events of a run use."""
    workspace, settings = planned.workspace, planned.workspace.openlineage
    parts = (workspace.project.name, workspace.project.target, planned.environment.name)
    return LineageNames(
        settings.namespace or os.environ.get("OPENLINEAGE_NAMESPACE", "") or DEFAULT_NAMESPACE,
        settings.dataset_namespace or name_catalog(workspace.lake_location),
        ".".join(part for part in parts if part),
        planned.environment.name,
        workspace.virtual.unsuffixed,
    )


def name_catalog(location: LakeLocation) -> str:
    """The namespace of a catalog's tables: its address without who asks, or where its tables are."""
    if location.database is not None:
        return f"sqlite://{location.database}"
    address = urlsplit(location.uri)
    if address.scheme and address.hostname:
        scheme = {"thrift": "hive", "postgresql": "postgres"}.get(address.scheme, address.scheme)
        port = f":{address.port}" if address.port else ""
        return f"{scheme}://{address.hostname}{port}{address.path.rstrip('/')}"
    return location.warehouse or location.type


def name_location(location: str) -> tuple[str, str]:
    """A table's place in a store, as the namespace and name that other producers of events have for it."""
    address = urlsplit(location)
    if not address.scheme or address.scheme == "file":
        return "file", address.path.rstrip("/")
    scheme = "s3" if address.scheme in _OBJECT_STORES else address.scheme
    return f"{scheme}://{address.netloc}", address.path.strip("/")
