"""The store in memory, for tests of the layers above it: the same answers, nothing persisted."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqb.environments.model import Binding, Checkpoint, Environment, Journal, LockInfo, Ref, Version
from sqb.environments.naming import check_environment_name
from sqb.environments.state.file_locks import build_locked_error, build_lost_error, create_token
from sqb.environments.state.records import collect_relations
from sqb.environments.state.store import VersionKey
from sqb.errors.base import InternalError
from sqb.lake.state.rows import Fingerprint, FreshnessRow


@dataclass
class _Observations:
    """What an environment knows of sources and Python nodes."""

    freshness: dict[tuple[str, str], FreshnessRow] = field(default_factory=dict)
    fingerprints: dict[tuple[str, str, str], Fingerprint] = field(default_factory=dict)


class MemoryStore:
    """The environments of one scope, as dictionaries."""

    def __init__(self, scope: str = "memory", stores: Mapping[str, MemoryStore] | None = None) -> None:
        self._scope = scope
        # Those of all scopes, as one database has them.
        self._stores = stores if stores is not None else {}
        self._environments: dict[str, Environment] = {}
        self._refs: dict[str, dict[str, Ref]] = {}
        self._journals: dict[str, Journal] = {}
        self._bindings: dict[str, Binding] = {}
        self._versions: dict[VersionKey, Version] = {}
        self._checkpoints: dict[str, Checkpoint] = {}
        self._numbers: dict[str, int] = {}
        self._unused: dict[str, datetime] = {}
        self._observed: dict[str, _Observations] = {}
        self._locks: dict[str, LockInfo] = {}
        first = next(iter(self._stores.values()), None)
        self._id: str = first._id if first is not None else uuid.uuid4().hex
        self._lake = ""

    @property
    def scope(self) -> str:
        return self._scope

    @property
    def name(self) -> str:
        return "memory"

    def prepare(self) -> bool:
        return False

    def read_schema_version(self) -> int | None:
        return 3

    def read_state_id(self) -> str:
        return self._id

    def read_lake_id(self) -> str:
        return self._lake

    def set_lake_id(self, id: str) -> None:
        self._lake = id

    def close(self) -> None:
        pass

    @contextmanager
    def read_consistently(self) -> Iterator[None]:
        yield

    # --- environments -----------------------------------------------------------------------------------------------

    def read_environments(self) -> Mapping[str, Environment]:
        return dict(sorted(self._environments.items()))

    def read_refs(self, environment: str) -> Mapping[str, Ref]:
        return dict(sorted(self._refs.get(environment, {}).items()))

    def count_refs(self) -> Mapping[str, int]:
        return {name: len(refs) for name, refs in sorted(self._refs.items()) if refs}

    def set_environment(self, environment: Environment, token: str) -> None:
        self._check_lock(environment.name, token)
        self._environments[environment.name] = environment

    def remove_environment(self, name: str, token: str) -> None:
        self._check_lock(name, token)
        for other, environment in self._environments.items():
            if environment.baseline == name:
                self._environments[other] = replace(environment, began="")
                self._refs[other] = {n: replace(ref, base="") for n, ref in self._refs.get(other, {}).items()}
        for mapping in (self._environments, self._refs, self._journals, self._observed, self._numbers):
            mapping.pop(name, None)
        self._checkpoints = {id: c for id, c in self._checkpoints.items() if c.environment != name}
        self._remove_unused_bindings()

    def _check_lock(self, environment: str, token: str) -> None:
        holder = self._locks.get(environment)
        if holder is None or holder.token != token:
            raise build_lost_error(environment, holder)

    # --- moving one -------------------------------------------------------------------------------------------------

    def read_journal(self, environment: str) -> Journal | None:
        return self._journals.get(environment)

    def read_journals(self) -> Mapping[str, Journal]:
        return dict(sorted(self._journals.items()))

    def begin_journal(self, journal: Journal, token: str) -> None:
        name = journal.environment.name
        self._check_lock(name, token)
        if name in self._journals and self._journals[name].id != journal.id:
            raise InternalError(f"{name} was to be moved before what was begun there had been finished")
        self._bindings.update({ref.binding.id: ref.binding for ref in journal.refs.values()})
        self._journals[name] = journal

    def finish_journal(self, journal: Journal, locations: Mapping[str, str]) -> bool:
        name = journal.environment.name
        if name not in self._journals or self._journals[name].id != journal.id:
            return False
        self._environments[name] = journal.environment
        self._refs[name] = {
            node: replace(ref, location=locations.get(node, ref.location)) for node, ref in journal.refs.items()
        }
        if journal.checkpoint is not None:
            self._numbers[name] = self._numbers.get(name, 0) + 1
            self._checkpoints[journal.checkpoint.id] = replace(journal.checkpoint, number=self._numbers[name])
        del self._journals[name]
        return True

    def abandon_journal(self, journal: Journal) -> None:
        name = journal.environment.name
        if name in self._journals and self._journals[name].id == journal.id:
            del self._journals[name]

    # --- versions and checkpoints -----------------------------------------------------------------------------------

    def read_bindings(self, ids: Collection[str] | None = None) -> Mapping[str, Binding]:
        return {id: binding for id, binding in self._bindings.items() if ids is None or id in ids}

    def add_versions(self, versions: Iterable[Version]) -> None:
        for version in versions:
            self._versions.setdefault((version.name, version.version_hash), version)

    def read_versions(self, keys: Collection[VersionKey] | None = None) -> Mapping[VersionKey, Version]:
        return {key: version for key, version in self._versions.items() if keys is None or key in keys}

    def remove_versions(self, keys: Collection[VersionKey]) -> None:
        for key in keys:
            self._versions.pop(key, None)

    def read_checkpoints(self, environment: str | None = None) -> Sequence[Checkpoint]:
        checkpoints = [c for c in self._checkpoints.values() if environment is None or c.environment == environment]
        return sorted(checkpoints, key=lambda c: (c.created_at, c.number), reverse=True)

    def remove_checkpoints(self, ids: Collection[str]) -> None:
        self._checkpoints = {id: c for id, c in self._checkpoints.items() if id not in ids}
        self._remove_unused_bindings()

    def _remove_unused_bindings(self) -> None:
        used = {ref.binding.id for refs in self._refs.values() for ref in refs.values()}
        used |= {ref.binding.id for journal in self._journals.values() for ref in journal.refs.values()}
        used |= {id for checkpoint in self._checkpoints.values() for id in checkpoint.refs.values()}
        self._bindings = {id: binding for id, binding in self._bindings.items() if id in used}

    def read_unused(self) -> Mapping[str, datetime]:
        return dict(self._unused)

    def set_unused(self, since: Mapping[str, datetime]) -> None:
        self._unused = dict(since)

    def read_foreign_relations(self) -> Collection[str]:
        bindings = [
            b for scope, store in self._stores.items() if scope != self._scope for b in store._bindings.values()
        ]
        return collect_relations(bindings)

    # --- observations -----------------------------------------------------------------------------------------------

    def read_freshness(self, environment: str) -> Sequence[FreshnessRow]:
        return [row for _, row in sorted(self._get_observations(environment).freshness.items())]

    def add_freshness(self, environment: str, rows: Iterable[FreshnessRow]) -> None:
        known = self._get_observations(environment).freshness
        for row in rows:
            if row.key not in known or row.observed_at >= known[row.key].observed_at:
                known[row.key] = row

    def read_fingerprints(self, environment: str) -> Sequence[Fingerprint]:
        return [row for _, row in sorted(self._get_observations(environment).fingerprints.items())]

    def add_fingerprints(self, environment: str, rows: Iterable[Fingerprint]) -> None:
        known = self._get_observations(environment).fingerprints
        for row in rows:
            if row.key not in known or row.ts >= known[row.key].ts:
                known[row.key] = row

    def copy_observations(self, source: str, target: str) -> None:
        known = self._get_observations(source)
        self.add_freshness(target, known.freshness.values())
        self.add_fingerprints(target, known.fingerprints.values())

    def _get_observations(self, environment: str) -> _Observations:
        return self._observed.setdefault(environment, _Observations())

    # --- locks ------------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, environment: str, owner: str, take_over: bool = False) -> Iterator[str]:
        check_environment_name(environment)
        holder = self._locks.get(environment)
        if holder is not None and not take_over:
            raise build_locked_error(holder)
        mine = LockInfo(environment, owner, datetime.now(UTC), create_token())
        self._locks[environment] = mine
        try:
            yield mine.token
        finally:
            if self._locks.get(environment) == mine:
                del self._locks[environment]

    def read_locks(self) -> Mapping[str, LockInfo]:
        return dict(self._locks)
