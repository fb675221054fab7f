"""The store on a SQL database, whichever it is: see `database` for what it needs of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime

from sqb.environments.database import Database, Transaction, Value
from sqb.environments.locks import lost
from sqb.environments.naming import refuse_bad_name
from sqb.environments.port import VersionKey
from sqb.environments.records import (
    CHECKPOINT_COLUMNS,
    ENVIRONMENT_COLUMNS,
    FINGERPRINT,
    FRESHNESS,
    OBSERVATION_COLUMNS,
    binding_data,
    bindings_in_journal,
    bindings_of,
    checkpoint_of,
    checkpoint_row,
    environment_of,
    environment_row,
    fingerprint_of,
    fingerprint_rows,
    freshness_of,
    freshness_rows,
    journal_data,
    journal_of,
    relations_of,
    time_of,
    time_text,
    version_data,
    version_of_data,
)
from sqb.environments.tables import MIGRATIONS, Migration, migrate, refuse_unfit, version_of
from sqb.environments.values import Binding, Checkpoint, Environment, Journal, LockInfo, Ref, Version
from sqb.errors import InternalError
from sqb.lake.state import Fingerprint, FreshnessRow

_OF_ENVIRONMENT = ("refs", "checkpoints", "observations", "journals")


class SqlStore:
    """The environments of one scope in a database."""

    def __init__(self, database: Database, scope: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
        self._database = database
        self._scope = scope
        self._migrations = migrations
        self._fits = False
        self._looks = threading.local()

    @property
    def scope(self) -> str:
        return self._scope

    @property
    def name(self) -> str:
        return self._database.name

    # --- the database itself ----------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        made = migrate(self._database, self._migrations)
        self._fits = True
        return made

    def schema_version(self) -> int | None:
        with self._shared() or self._database.read() as transaction:
            return version_of(transaction)

    def state_id(self) -> str:
        with self._reading() as transaction:
            return str(transaction.rows("SELECT id FROM identity")[0][0])

    def lake_id(self) -> str:
        with self._reading() as transaction:
            rows = transaction.rows("SELECT lake FROM lakes WHERE scope = ?", self._scope)
        return rows[0][0] if rows else ""

    def set_lake_id(self, id: str) -> None:
        with self._writing() as transaction:
            transaction.insert(
                "lakes",
                ("scope", "lake"),
                [(self._scope, id)],
                "ON CONFLICT (scope) DO UPDATE SET lake = excluded.lake",
            )

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _open(self, enter: Callable[[], AbstractContextManager[Transaction]]) -> Iterator[Transaction]:
        with ExitStack() as stack:
            transaction = stack.enter_context(enter())
            if not self._fits:
                version = version_of(transaction)
                if version is None and self._database.makes_itself:
                    stack.close()
                    self.prepare()
                    transaction = stack.enter_context(enter())
                else:
                    refuse_unfit(self._database, version, len(self._migrations))
                self._fits = True
            yield transaction

    @contextmanager
    def looking(self) -> Iterator[None]:
        outer = getattr(self._looks, "transaction", None)
        with self._reading() as transaction:
            self._looks.transaction = transaction
            try:
                yield
            finally:
                self._looks.transaction = outer

    def _reading(self) -> AbstractContextManager[Transaction]:
        return self._shared() or self._open(self._database.read)

    def _shared(self) -> AbstractContextManager[Transaction] | None:
        shared: Transaction | None = getattr(self._looks, "transaction", None)
        return nullcontext(shared) if shared is not None else None

    def _writing(self) -> AbstractContextManager[Transaction]:
        if self._shared() is not None:
            raise InternalError("the state of environments was to be changed while it was looked at")
        return self._open(self._database.write)

    @contextmanager
    def _holding(self, environment: str, token: str) -> Iterator[Transaction]:
        with self._writing() as transaction:
            holder = self._database.holder(transaction, self._scope, environment)
            if holder is None or holder.token != token:
                raise lost(environment, holder)
            yield transaction

    # --- environments -----------------------------------------------------------------------------------------------

    def environments(self) -> Mapping[str, Environment]:
        columns = ", ".join(ENVIRONMENT_COLUMNS)
        with self._reading() as transaction:
            rows = transaction.rows(f"SELECT {columns} FROM environments WHERE scope = ? ORDER BY name", self._scope)
        return {row[0]: environment_of(row) for row in rows}

    def refs(self, environment: str) -> Mapping[str, Ref]:
        with self._reading() as transaction:
            rows = transaction.rows(
                "SELECT r.name, r.base, r.location, r.checks, b.data FROM refs r"
                " JOIN bindings b ON b.scope = r.scope AND b.id = r.binding"
                " WHERE r.scope = ? AND r.environment = ? ORDER BY r.name",
                self._scope,
                environment,
            )
        bindings = bindings_of(row[-1] for row in rows)
        return {name: Ref(binding, *rest) for (name, *rest, _), binding in zip(rows, bindings, strict=True)}

    def sizes(self) -> Mapping[str, int]:
        query = "SELECT environment, count(*) FROM refs WHERE scope = ? GROUP BY environment ORDER BY environment"
        with self._reading() as transaction:
            return dict(transaction.rows(query, self._scope))

    def set_environment(self, environment: Environment, token: str) -> None:
        with self._holding(environment.name, token) as transaction:
            self._put_environment(transaction, environment)

    def remove_environment(self, name: str, token: str) -> None:
        with self._holding(name, token) as transaction:
            self._forget_baseline(transaction, name)
            transaction.run("DELETE FROM environments WHERE scope = ? AND name = ?", self._scope, name)
            for table in _OF_ENVIRONMENT:
                transaction.run(f"DELETE FROM {table} WHERE scope = ? AND environment = ?", self._scope, name)
            self._forget_bindings(transaction)

    def _forget_baseline(self, transaction: Transaction, name: str) -> None:
        """Let the environments that began as this one forget where they agreed with it."""
        began = "environment IN (SELECT name FROM environments WHERE scope = ? AND baseline = ?)"
        transaction.run(f"UPDATE refs SET base = '' WHERE scope = ? AND {began}", self._scope, self._scope, name)
        transaction.run("UPDATE environments SET began = '' WHERE scope = ? AND baseline = ?", self._scope, name)

    def _put_environment(self, transaction: Transaction, environment: Environment) -> None:
        kept = ", ".join(f"{column} = excluded.{column}" for column in ENVIRONMENT_COLUMNS[1:])
        transaction.insert(
            "environments",
            ("scope", "last_number", *ENVIRONMENT_COLUMNS),
            [(self._scope, 0, *environment_row(environment))],
            f"ON CONFLICT (scope, name) DO UPDATE SET {kept}",
        )

    # --- moving one -------------------------------------------------------------------------------------------------

    def journal(self, environment: str) -> Journal | None:
        with self._reading() as transaction:
            found = self._journals(transaction, environment)
            if not found:
                return None
            _, data = found[0]
            return journal_of(data, self._bindings(transaction, bindings_in_journal(data)))

    def journals(self) -> Mapping[str, Journal]:
        with self._reading() as transaction:
            rows = transaction.rows(
                "SELECT environment, data FROM journals WHERE scope = ? ORDER BY environment", self._scope
            )
            bound = self._bindings(transaction, {id for _, data in rows for id in bindings_in_journal(data)})
        return {name: journal_of(data, bound) for name, data in rows}

    def begin(self, journal: Journal, token: str) -> None:
        name = journal.environment.name
        with self._holding(name, token) as transaction:
            for found, _ in self._journals(transaction, name):
                if found != journal.id:
                    raise InternalError(f"{name} was to be moved before what was begun there had been finished")
            bindings = {ref.binding.id: ref.binding for ref in journal.refs.values()}
            transaction.insert(
                "bindings",
                ("scope", "id", "data"),
                [(self._scope, id, binding_data(binding)) for id, binding in bindings.items()],
                "ON CONFLICT (scope, id) DO NOTHING",
            )
            transaction.run("DELETE FROM journals WHERE scope = ? AND environment = ?", self._scope, name)
            row = (self._scope, name, journal.id, journal_data(journal))
            transaction.insert("journals", ("scope", "environment", "id", "data"), [row])

    def finish(self, journal: Journal, locations: Mapping[str, str]) -> bool:
        name = journal.environment.name
        with self._writing() as transaction:
            if [found for found, _ in self._journals(transaction, name)] != [journal.id]:
                return False
            self._put_environment(transaction, journal.environment)
            transaction.run("DELETE FROM refs WHERE scope = ? AND environment = ?", self._scope, name)
            transaction.insert(
                "refs",
                ("scope", "environment", "name", "binding", "base", "location", "checks"),
                [
                    (self._scope, name, node, ref.binding.id, ref.base, locations.get(node, ref.location), ref.checks)
                    for node, ref in journal.refs.items()
                ],
            )
            if journal.checkpoint is not None:
                self._add_checkpoint(transaction, journal.checkpoint)
            transaction.run("DELETE FROM journals WHERE scope = ? AND environment = ?", self._scope, name)
            return True

    def abandon(self, journal: Journal) -> None:
        with self._writing() as transaction:
            transaction.run(
                "DELETE FROM journals WHERE scope = ? AND environment = ? AND id = ?",
                self._scope,
                journal.environment.name,
                journal.id,
            )

    def _journals(self, transaction: Transaction, environment: str) -> Sequence[tuple[str, str]]:
        rows = transaction.rows(
            "SELECT id, data FROM journals WHERE scope = ? AND environment = ?", self._scope, environment
        )
        return [(id, data) for id, data in rows]

    def _add_checkpoint(self, transaction: Transaction, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint under the next number, which nobody had before even if checkpoints were removed."""
        where = (self._scope, checkpoint.environment)
        transaction.run("UPDATE environments SET last_number = last_number + 1 WHERE scope = ? AND name = ?", *where)
        rows = transaction.rows("SELECT last_number FROM environments WHERE scope = ? AND name = ?", *where)
        numbered = replace(checkpoint, number=rows[0][0])
        row = (self._scope, *checkpoint_row(numbered))
        transaction.insert("checkpoints", ("scope", *CHECKPOINT_COLUMNS), [row])

    # --- versions and checkpoints -----------------------------------------------------------------------------------

    def bindings(self, ids: Collection[str] | None = None) -> Mapping[str, Binding]:
        with self._reading() as transaction:
            return self._bindings(transaction, ids)

    def _bindings(self, transaction: Transaction, ids: Collection[str] | None) -> Mapping[str, Binding]:
        if ids is None:
            rows = transaction.rows("SELECT id, data FROM bindings WHERE scope = ?", self._scope)
        else:
            query = "SELECT id, data FROM bindings WHERE scope = ? AND id = ANY(?)"
            rows = transaction.rows(query, self._scope, list(ids))
        return dict(zip((id for id, _ in rows), bindings_of(data for _, data in rows), strict=True))

    def add_versions(self, versions: Iterable[Version]) -> None:
        rows = {(v.name, v.version_hash): (self._scope, v.name, v.version_hash, version_data(v)) for v in versions}
        if not rows:
            return
        with self._writing() as transaction:
            transaction.insert(
                "versions", ("scope", "name", "version_hash", "data"), rows.values(), "ON CONFLICT DO NOTHING"
            )

    def versions(self, keys: Collection[VersionKey] | None = None) -> Mapping[VersionKey, Version]:
        query, values = "SELECT name, version_hash, data FROM versions WHERE scope = ?", [self._scope]
        with self._reading() as transaction:
            if keys is None:
                rows = transaction.rows(query, *values)
            else:
                hashes = sorted({version_hash for _, version_hash in keys})
                rows = transaction.rows(f"{query} AND version_hash = ANY(?)", *values, hashes)
        wanted = None if keys is None else set(keys)
        return {
            (name, version_hash): version_of_data(data)
            for name, version_hash, data in rows
            if wanted is None or (name, version_hash) in wanted
        }

    def remove_versions(self, keys: Collection[VersionKey]) -> None:
        with self._writing() as transaction:
            for name, version_hash in keys:
                transaction.run(
                    "DELETE FROM versions WHERE scope = ? AND name = ? AND version_hash = ?",
                    self._scope,
                    name,
                    version_hash,
                )

    def checkpoints(self, environment: str | None = None) -> Sequence[Checkpoint]:
        query = f"SELECT {', '.join(CHECKPOINT_COLUMNS)} FROM checkpoints WHERE scope = ?"
        order = " ORDER BY created_at DESC, number DESC, id"
        with self._reading() as transaction:
            if environment is None:
                rows = transaction.rows(query + order, self._scope)
            else:
                rows = transaction.rows(f"{query} AND environment = ?{order}", self._scope, environment)
        return [checkpoint_of(row) for row in rows]

    def remove_checkpoints(self, ids: Collection[str]) -> None:
        with self._writing() as transaction:
            transaction.run("DELETE FROM checkpoints WHERE scope = ? AND id = ANY(?)", self._scope, list(ids))
            self._forget_bindings(transaction)

    def _forget_bindings(self, transaction: Transaction) -> None:
        used = {row[0] for row in transaction.rows("SELECT DISTINCT binding FROM refs WHERE scope = ?", self._scope)}
        columns = ", ".join(CHECKPOINT_COLUMNS)
        for row in transaction.rows(f"SELECT {columns} FROM checkpoints WHERE scope = ?", self._scope):
            used.update(checkpoint_of(row).refs.values())
        for (data,) in transaction.rows("SELECT data FROM journals WHERE scope = ?", self._scope):
            used |= bindings_in_journal(data)
        there = {row[0] for row in transaction.rows("SELECT id FROM bindings WHERE scope = ?", self._scope)}
        transaction.run("DELETE FROM bindings WHERE scope = ? AND id = ANY(?)", self._scope, sorted(there - used))

    def unused(self) -> Mapping[str, datetime]:
        with self._reading() as transaction:
            rows = transaction.rows("SELECT relation, since FROM unused WHERE scope = ?", self._scope)
        return {relation: time_of(since) for relation, since in rows}

    def set_unused(self, since: Mapping[str, datetime]) -> None:
        with self._writing() as transaction:
            transaction.run("DELETE FROM unused WHERE scope = ?", self._scope)
            rows = [(self._scope, relation, time_text(time)) for relation, time in since.items()]
            transaction.insert("unused", ("scope", "relation", "since"), rows)

    def elsewhere(self) -> Collection[str]:
        with self._reading() as transaction:
            rows = transaction.rows("SELECT data FROM bindings WHERE scope <> ?", self._scope)
        return relations_of(bindings_of(data for (data,) in rows))

    # --- observations -----------------------------------------------------------------------------------------------

    def freshness(self, environment: str) -> Sequence[FreshnessRow]:
        return [freshness_of(data) for data in self._observations(environment, FRESHNESS)]

    def add_freshness(self, environment: str, rows: Iterable[FreshnessRow]) -> None:
        self._observe(environment, freshness_rows(rows))

    def fingerprints(self, environment: str) -> Sequence[Fingerprint]:
        return [fingerprint_of(data) for data in self._observations(environment, FINGERPRINT)]

    def add_fingerprints(self, environment: str, rows: Iterable[Fingerprint]) -> None:
        self._observe(environment, fingerprint_rows(rows))

    def copy_observations(self, source: str, target: str) -> None:
        with self._writing() as transaction:
            rows = transaction.rows(
                "SELECT kind, key, observed_at, data FROM observations WHERE scope = ? AND environment = ?",
                self._scope,
                source,
            )
            self._keep_latest(transaction, target, rows)

    def _observations(self, environment: str, kind: str) -> Sequence[str]:
        query = "SELECT data FROM observations WHERE scope = ? AND environment = ? AND kind = ? ORDER BY key"
        with self._reading() as transaction:
            return [data for (data,) in transaction.rows(query, self._scope, environment, kind)]

    def _observe(self, environment: str, rows: Sequence[Sequence[Value]]) -> None:
        if rows:
            with self._writing() as transaction:
                self._keep_latest(transaction, environment, rows)

    def _keep_latest(self, transaction: Transaction, environment: str, rows: Iterable[Sequence[Value]]) -> None:
        transaction.insert(
            "observations",
            OBSERVATION_COLUMNS,
            [(self._scope, environment, *row) for row in rows],
            "ON CONFLICT (scope, environment, kind, key)"
            " DO UPDATE SET observed_at = excluded.observed_at, data = excluded.data"
            " WHERE excluded.observed_at >= observations.observed_at",
        )

    # --- locks ------------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, environment: str, owner: str, take_over: bool = False) -> Iterator[str]:
        refuse_bad_name(environment)
        if not self._fits:
            # Said before anybody is refused or taken over.
            with self._reading():
                pass
        with self._database.lock(self._scope, environment, owner, take_over) as token:
            yield token

    def locks(self) -> Mapping[str, LockInfo]:
        with self._reading() as transaction:
            return self._database.locks(transaction, self._scope)
