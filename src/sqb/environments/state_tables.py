"""The state tables as one environment sees them: what it observed of sources and ran in Python is its own.

Everything else is about tables, which environments share, and is in the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sqb.compile.python.model import PythonType
from sqb.environments.state.store import Store
from sqb.lake.port import StateTables
from sqb.lake.state.rows import FailedRow, Fingerprint, FingerprintKey, FreshnessRow, NodeResult

_PYTHON_TYPES = frozenset(get_args(PythonType))


@dataclass(frozen=True, slots=True)
class EnvironmentStateTables(StateTables):
    """The state tables of a lake and those of an environment; before it exists, those of `reads` are read."""

    shared: StateTables
    store: Store
    environment: str
    reads: str

    def read_freshness(self, schemas: Iterable[str]) -> Mapping[tuple[str, str], FreshnessRow]:
        names = set(schemas)
        return {row.key: row for row in self.store.read_freshness(self.reads) if row.target_schema in names}

    def append_freshness(self, rows: Iterable[FreshnessRow]) -> None:
        self.store.add_freshness(self.environment, rows)

    def read_fingerprints(self, schemas: Iterable[str]) -> Mapping[FingerprintKey, Fingerprint]:
        names = sorted(set(schemas))
        shared = self.shared.read_fingerprints(names)
        own = (row for row in self.store.read_fingerprints(self.reads) if row.target_schema in names)
        return {
            **{key: row for key, row in shared.items() if row.node_type not in _PYTHON_TYPES},
            **{row.key: row for row in own},
        }

    def append_fingerprints(self, rows: Iterable[Fingerprint]) -> None:
        fingerprints = list(rows)
        python = [row for row in fingerprints if row.node_type in _PYTHON_TYPES]
        if python:
            self.store.add_fingerprints(self.environment, python)
        self.shared.append_fingerprints([row for row in fingerprints if row.node_type not in _PYTHON_TYPES])

    def append_node_results(self, rows: Iterable[NodeResult]) -> None:
        self.shared.append_node_results(rows)

    def read_node_results(
        self,
        schemas: Iterable[str],
        *,
        node_name: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[NodeResult]:
        return self.shared.read_node_results(schemas, node_name=node_name, run_id=run_id, limit=limit)

    def append_failures(self, rows: Iterable[FailedRow]) -> None:
        self.shared.append_failures(rows)

    def read_failures(self, schemas: Iterable[str]) -> Sequence[FailedRow]:
        return self.shared.read_failures(schemas)
