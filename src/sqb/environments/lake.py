"""The lake as one environment sees it: what is observed of sources and Python nodes is kept per environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from sqb.compiled_python import PythonType
from sqb.environments.port import Store
from sqb.lake.iceberg import IcebergLake
from sqb.lake.state import Fingerprint, FingerprintKey, FreshnessRow
from sqb.workspace import Workspace

_PYTHON = frozenset(get_args(PythonType))


class EnvironmentLake(IcebergLake):
    """A lake whose observations are those of an environment; `reads` is whose are looked at before it is there."""

    def __init__(self, workspace: Workspace, store: Store, environment: str, reads: str) -> None:
        super().__init__(workspace.place, cache=workspace.folder / "cache")
        self.store, self.environment, self.reads = store, environment, reads

    def freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        wanted = set(schemas)
        return {row.key: row for row in self.store.freshness(self.reads) if row.target_schema in wanted}

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        self.store.add_freshness(self.environment, rows)

    def fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        wanted = sorted(set(schemas))
        found = {k: row for k, row in super().fingerprints(wanted).items() if row.node_type not in _PYTHON}
        found |= {row.key: row for row in self.store.fingerprints(self.reads) if row.target_schema in wanted}
        return found

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        given = list(rows)
        python = [row for row in given if row.node_type in _PYTHON]
        if python:
            self.store.add_fingerprints(self.environment, python)
        super().append_fingerprints([row for row in given if row.node_type not in _PYTHON])
