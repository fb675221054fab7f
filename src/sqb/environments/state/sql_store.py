"""The store on a SQL database, whichever it is: see `database` for what it needs of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime

from sqb.environments.model import Binding, Checkpoint, Environment, Journal, LockInfo, Ref, Version
from sqb.environments.naming import check_environment_name
from sqb.environments.state.database import Database, Transaction, Value
from sqb.environments.state.file_locks import build_lost_error
from sqb.environments.state.records import (
    CHECKPOINT_COLUMNS,
    ENVIRONMENT_COLUMNS,
    FINGERPRINT,
    FRESHNESS,
    OBSERVATION_COLUMNS,
    collect_relations,
    decode_bindings,
    decode_checkpoint,
    decode_environment,
    decode_fingerprint,
    decode_freshness,
    decode_journal,
    decode_time,
    decode_version,
    encode_binding,
    encode_checkpoint,
    encode_environment,
    encode_fingerprints,
    encode_freshness,
    encode_journal,
    encode_time,
    encode_version,
    list_journal_bindings,
)
from sqb.environments.state.schema import MIGRATIONS, Migration, check_schema_version, migrate, read_schema_version
from sqb.environments.state.store import VersionKey
from sqb.errors.base import InternalError
from sqb.lake.state.rows import Fingerprint, FreshnessRow

_ENVIRONMENT_TABLES = ("refs", "checkpoints", "observations", "journals")


class SqlStore:
    """The environments of one scope in a database."""

    def __init__(self, database: Database, scope: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
        self._database = database
        self._scope = scope
        self._migrations = migrations
        self._is_checked = False
        self._local = threading.local()

    @property
    def scope(self) -> str:
        return self._scope

    @property
    def name(self) -> str:
        return self._database.name

    # --- the database itself ----------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Make or migrate the tables; whether there was anything to do."""
        is_changed = migrate(self._database, self._migrations)
        self._is_checked = True
        return is_changed

    def read_schema_version(self) -> int | None:
        with self._get_shared() or self._database.read() as transaction:
            return read_schema_version(transaction)

    def read_state_id(self) -> str:
        with self._begin_read() as transaction:
            return str(transaction.query("SELECT id FROM identity")[0][0])

    def read_lake_id(self) -> str:
        with self._begin_read() as transaction:
            rows = transaction.query("SELECT lake FROM lakes WHERE scope = ?", self._scope)
        return rows[0][0] if rows else ""

    def set_lake_id(self, id: str) -> None:
        with self._begin_write() as transaction:
            transaction.insert(
                "lakes",
                ("scope", "lake"),
                [(self._scope, id)],
                "ON CONFLICT (scope) DO UPDATE SET lake = excluded.lake",
            )

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _open_transaction(self, enter: Callable[[], AbstractContextManager[Transaction]]) -> Iterator[Transaction]:
        with ExitStack() as stack:
            transaction = stack.enter_context(enter())
            if not self._is_checked:
                version = read_schema_version(transaction)
                if version is None and self._database.creates_tables:
                    stack.close()
                    self.prepare()
                    transaction = stack.enter_context(enter())
                else:
                    check_schema_version(self._database, version, len(self._migrations))
                self._is_checked = True
            yield transaction

    @contextmanager
    def read_consistently(self) -> Iterator[None]:
        outer = getattr(self._local, "transaction", None)
        with self._begin_read() as transaction:
            self._local.transaction = transaction
            try:
                yield
            finally:
                self._local.transaction = outer

    def _begin_read(self) -> AbstractContextManager[Transaction]:
        return self._get_shared() or self._open_transaction(self._database.read)

    def _get_shared(self) -> AbstractContextManager[Transaction] | None:
        shared: Transaction | None = getattr(self._local, "transaction", None)
        return nullcontext(shared) if shared is not None else None

    def _begin_write(self) -> AbstractContextManager[Transaction]:
        if self._get_shared() is not None:
            raise InternalError("the state of environments was to be changed while it was looked at")
        return self._open_transaction(self._database.write)

    @contextmanager
    def _begin_locked_write(self, environment: str, token: str) -> Iterator[Transaction]:
        with self._begin_write() as transaction:
            holder = self._database.read_holder(transaction, self._scope, environment)
            if holder is None or holder.token != token:
                raise build_lost_error(environment, holder)
            yield transaction

    # --- environments -----------------------------------------------------------------------------------------------

    def read_environments(self) -> Mapping[str, Environment]:
        columns = ", ".join(ENVIRONMENT_COLUMNS)
        with self._begin_read() as transaction:
            rows = transaction.query(f"SELECT {columns} FROM environments WHERE scope = ? ORDER BY name", self._scope)
        return {row[0]: decode_environment(row) for row in rows}

    def read_refs(self, environment: str) -> Mapping[str, Ref]:
        with self._begin_read() as transaction:
            rows = transaction.query(
                "SELECT r.name, r.base, r.location, r.checks, b.data FROM refs r"
                " JOIN bindings b ON b.scope = r.scope AND b.id = r.binding"
                " WHERE r.scope = ? AND r.environment = ? ORDER BY r.name",
                self._scope,
                environment,
            )
        bindings = decode_bindings(row[-1] for row in rows)
        return {name: Ref(binding, *rest) for (name, *rest, _), binding in zip(rows, bindings, strict=True)}

    def count_refs(self) -> Mapping[str, int]:
        query = "SELECT environment, count(*) FROM refs WHERE scope = ? GROUP BY environment ORDER BY environment"
        with self._begin_read() as transaction:
            return dict(transaction.query(query, self._scope))

    def set_environment(self, environment: Environment, token: str) -> None:
        with self._begin_locked_write(environment.name, token) as transaction:
            self._upsert_environment(transaction, environment)

    def remove_environment(self, name: str, token: str) -> None:
        with self._begin_locked_write(name, token) as transaction:
            self._clear_baseline(transaction, name)
            transaction.execute("DELETE FROM environments WHERE scope = ? AND name = ?", self._scope, name)
            for table in _ENVIRONMENT_TABLES:
                transaction.execute(f"DELETE FROM {table} WHERE scope = ? AND environment = ?", self._scope, name)
            self._remove_unused_bindings(transaction)

    def _clear_baseline(self, transaction: Transaction, name: str) -> None:
        """Let the environments that began as this one forget where they agreed with it."""
        began = "environment IN (SELECT name FROM environments WHERE scope = ? AND baseline = ?)"
        transaction.execute(f"UPDATE refs SET base = '' WHERE scope = ? AND {began}", self._scope, self._scope, name)
        transaction.execute("UPDATE environments SET began = '' WHERE scope = ? AND baseline = ?", self._scope, name)

    def _upsert_environment(self, transaction: Transaction, environment: Environment) -> None:
        assignments = ", ".join(f"{column} = excluded.{column}" for column in ENVIRONMENT_COLUMNS[1:])
        transaction.insert(
            "environments",
            ("scope", "last_number", *ENVIRONMENT_COLUMNS),
            [(self._scope, 0, *encode_environment(environment))],
            f"ON CONFLICT (scope, name) DO UPDATE SET {assignments}",
        )

    # --- moving one -------------------------------------------------------------------------------------------------

    def read_journal(self, environment: str) -> Journal | None:
        with self._begin_read() as transaction:
            rows = self._read_journal_rows(transaction, environment)
            if not rows:
                return None
            _, data = rows[0]
            return decode_journal(data, self._read_bindings(transaction, list_journal_bindings(data)))

    def read_journals(self) -> Mapping[str, Journal]:
        with self._begin_read() as transaction:
            rows = transaction.query(
                "SELECT environment, data FROM journals WHERE scope = ? ORDER BY environment", self._scope
            )
            bound = self._read_bindings(transaction, {id for _, data in rows for id in list_journal_bindings(data)})
        return {name: decode_journal(data, bound) for name, data in rows}

    def begin_journal(self, journal: Journal, token: str) -> None:
        name = journal.environment.name
        with self._begin_locked_write(name, token) as transaction:
            for journal_id, _ in self._read_journal_rows(transaction, name):
                if journal_id != journal.id:
                    raise InternalError(f"{name} was to be moved before what was begun there had been finished")
            bindings = {ref.binding.id: ref.binding for ref in journal.refs.values()}
            transaction.insert(
                "bindings",
                ("scope", "id", "data"),
                [(self._scope, id, encode_binding(binding)) for id, binding in bindings.items()],
                "ON CONFLICT (scope, id) DO NOTHING",
            )
            transaction.execute("DELETE FROM journals WHERE scope = ? AND environment = ?", self._scope, name)
            row = (self._scope, name, journal.id, encode_journal(journal))
            transaction.insert("journals", ("scope", "environment", "id", "data"), [row])

    def finish_journal(self, journal: Journal, locations: Mapping[str, str]) -> bool:
        name = journal.environment.name
        with self._begin_write() as transaction:
            if [journal_id for journal_id, _ in self._read_journal_rows(transaction, name)] != [journal.id]:
                return False
            self._upsert_environment(transaction, journal.environment)
            transaction.execute("DELETE FROM refs WHERE scope = ? AND environment = ?", self._scope, name)
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
            transaction.execute("DELETE FROM journals WHERE scope = ? AND environment = ?", self._scope, name)
            return True

    def abandon_journal(self, journal: Journal) -> None:
        with self._begin_write() as transaction:
            transaction.execute(
                "DELETE FROM journals WHERE scope = ? AND environment = ? AND id = ?",
                self._scope,
                journal.environment.name,
                journal.id,
            )

    def _read_journal_rows(self, transaction: Transaction, environment: str) -> Sequence[tuple[str, str]]:
        rows = transaction.query(
            "SELECT id, data FROM journals WHERE scope = ? AND environment = ?", self._scope, environment
        )
        return [(id, data) for id, data in rows]

    def _add_checkpoint(self, transaction: Transaction, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint under the next number; numbers of removed checkpoints are not reused."""
        where = (self._scope, checkpoint.environment)
        transaction.execute(
            "UPDATE environments SET last_number = last_number + 1 WHERE scope = ? AND name = ?", *where
        )
        rows = transaction.query("SELECT last_number FROM environments WHERE scope = ? AND name = ?", *where)
        numbered = replace(checkpoint, number=rows[0][0])
        row = (self._scope, *encode_checkpoint(numbered))
        transaction.insert("checkpoints", ("scope", *CHECKPOINT_COLUMNS), [row])

    # --- versions and checkpoints -----------------------------------------------------------------------------------

    def read_bindings(self, ids: Collection[str] | None = None) -> Mapping[str, Binding]:
        with self._begin_read() as transaction:
            return self._read_bindings(transaction, ids)

    def _read_bindings(self, transaction: Transaction, ids: Collection[str] | None) -> Mapping[str, Binding]:
        if ids is None:
            rows = transaction.query("SELECT id, data FROM bindings WHERE scope = ?", self._scope)
        else:
            query = "SELECT id, data FROM bindings WHERE scope = ? AND id = ANY(?)"
            rows = transaction.query(query, self._scope, list(ids))
        return dict(zip((id for id, _ in rows), decode_bindings(data for _, data in rows), strict=True))

    def add_versions(self, versions: Iterable[Version]) -> None:
        rows = {(v.name, v.version_hash): (self._scope, v.name, v.version_hash, encode_version(v)) for v in versions}
        if not rows:
            return
        with self._begin_write() as transaction:
            transaction.insert(
                "versions", ("scope", "name", "version_hash", "data"), rows.values(), "ON CONFLICT DO NOTHING"
            )

    def read_versions(self, keys: Collection[VersionKey] | None = None) -> Mapping[VersionKey, Version]:
        query, values = "SELECT name, version_hash, data FROM versions WHERE scope = ?", [self._scope]
        with self._begin_read() as transaction:
            if keys is None:
                rows = transaction.query(query, *values)
            else:
                hashes = sorted({version_hash for _, version_hash in keys})
                rows = transaction.query(f"{query} AND version_hash = ANY(?)", *values, hashes)
        key_set = None if keys is None else set(keys)
        return {
            (name, version_hash): decode_version(data)
            for name, version_hash, data in rows
            if key_set is None or (name, version_hash) in key_set
        }

    def remove_versions(self, keys: Collection[VersionKey]) -> None:
        with self._begin_write() as transaction:
            for name, version_hash in keys:
                transaction.execute(
                    "DELETE FROM versions WHERE scope = ? AND name = ? AND version_hash = ?",
                    self._scope,
                    name,
                    version_hash,
                )

    def read_checkpoints(self, environment: str | None = None) -> Sequence[Checkpoint]:
        query = f"SELECT {', '.join(CHECKPOINT_COLUMNS)} FROM checkpoints WHERE scope = ?"
        order = " ORDER BY created_at DESC, number DESC, id"
        with self._begin_read() as transaction:
            if environment is None:
                rows = transaction.query(query + order, self._scope)
            else:
                rows = transaction.query(f"{query} AND environment = ?{order}", self._scope, environment)
        return [decode_checkpoint(row) for row in rows]

    def remove_checkpoints(self, ids: Collection[str]) -> None:
        with self._begin_write() as transaction:
            transaction.execute("DELETE FROM checkpoints WHERE scope = ? AND id = ANY(?)", self._scope, list(ids))
            self._remove_unused_bindings(transaction)

    def _remove_unused_bindings(self, transaction: Transaction) -> None:
        used = {row[0] for row in transaction.query("SELECT DISTINCT binding FROM refs WHERE scope = ?", self._scope)}
        columns = ", ".join(CHECKPOINT_COLUMNS)
        for row in transaction.query(f"SELECT {columns} FROM checkpoints WHERE scope = ?", self._scope):
            used.update(decode_checkpoint(row).refs.values())
        for (data,) in transaction.query("SELECT data FROM journals WHERE scope = ?", self._scope):
            used |= list_journal_bindings(data)
        stored = {row[0] for row in transaction.query("SELECT id FROM bindings WHERE scope = ?", self._scope)}
        transaction.execute("DELETE FROM bindings WHERE scope = ? AND id = ANY(?)", self._scope, sorted(stored - used))

    def read_unused(self) -> Mapping[str, datetime]:
        with self._begin_read() as transaction:
            rows = transaction.query("SELECT relation, since FROM unused WHERE scope = ?", self._scope)
        return {relation: decode_time(since) for relation, since in rows}

    def set_unused(self, since: Mapping[str, datetime]) -> None:
        with self._begin_write() as transaction:
            transaction.execute("DELETE FROM unused WHERE scope = ?", self._scope)
            rows = [(self._scope, relation, encode_time(time)) for relation, time in since.items()]
            transaction.insert("unused", ("scope", "relation", "since"), rows)

    def read_foreign_relations(self) -> Collection[str]:
        with self._begin_read() as transaction:
            rows = transaction.query("SELECT data FROM bindings WHERE scope <> ?", self._scope)
        return collect_relations(decode_bindings(data for (data,) in rows))

    # --- observations -----------------------------------------------------------------------------------------------

    def read_freshness(self, environment: str) -> Sequence[FreshnessRow]:
        return [decode_freshness(data) for data in self._read_observations(environment, FRESHNESS)]

    def add_freshness(self, environment: str, rows: Iterable[FreshnessRow]) -> None:
        self._write_observations(environment, encode_freshness(rows))

    def read_fingerprints(self, environment: str) -> Sequence[Fingerprint]:
        return [decode_fingerprint(data) for data in self._read_observations(environment, FINGERPRINT)]

    def add_fingerprints(self, environment: str, rows: Iterable[Fingerprint]) -> None:
        self._write_observations(environment, encode_fingerprints(rows))

    def copy_observations(self, source: str, target: str) -> None:
        with self._begin_write() as transaction:
            rows = transaction.query(
                "SELECT kind, key, observed_at, data FROM observations WHERE scope = ? AND environment = ?",
                self._scope,
                source,
            )
            self._upsert_observations(transaction, target, rows)

    def _read_observations(self, environment: str, kind: str) -> Sequence[str]:
        query = "SELECT data FROM observations WHERE scope = ? AND environment = ? AND kind = ? ORDER BY key"
        with self._begin_read() as transaction:
            return [data for (data,) in transaction.query(query, self._scope, environment, kind)]

    def _write_observations(self, environment: str, rows: Sequence[Sequence[Value]]) -> None:
        if rows:
            with self._begin_write() as transaction:
                self._upsert_observations(transaction, environment, rows)

    def _upsert_observations(self, transaction: Transaction, environment: str, rows: Iterable[Sequence[Value]]) -> None:
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
        check_environment_name(environment)
        if not self._is_checked:
            # A schema error comes before a refused or taken lock.
            with self._begin_read():
                pass
        with self._database.lock(self._scope, environment, owner, take_over) as token:
            yield token

    def read_locks(self) -> Mapping[str, LockInfo]:
        with self._begin_read() as transaction:
            return self._database.read_locks(transaction, self._scope)
