"""The tables that environments are kept in, and how those of an older sqb become those of this one."""

from __future__ import annotations

from sqb.environments.state.database import Database, NoTables, Transaction
from sqb.errors.environments import StateNotReady

Migration = tuple[str, ...]

_FIRST: Migration = (
    """CREATE TABLE environments (
        scope text NOT NULL, name text NOT NULL, status text NOT NULL,
        created_at text NOT NULL, updated_at text NOT NULL, created_by text NOT NULL,
        baseline text NOT NULL, checkpoint text NOT NULL, run_id text NOT NULL, ttl double precision, was text NOT NULL,
        began text NOT NULL,
        last_number bigint NOT NULL,
        PRIMARY KEY (scope, name))""",
    """CREATE TABLE bindings (
        scope text NOT NULL, id text NOT NULL, data text NOT NULL,
        PRIMARY KEY (scope, id))""",
    """CREATE TABLE refs (
        scope text NOT NULL, environment text NOT NULL, name text NOT NULL,
        binding text NOT NULL, base text NOT NULL, location text NOT NULL, checks text NOT NULL,
        PRIMARY KEY (scope, environment, name))""",
    """CREATE TABLE versions (
        scope text NOT NULL, name text NOT NULL, version_hash text NOT NULL, data text NOT NULL,
        PRIMARY KEY (scope, name, version_hash))""",
    """CREATE TABLE checkpoints (
        scope text NOT NULL, id text NOT NULL, environment text NOT NULL, number bigint NOT NULL,
        parent text NOT NULL, created_at text NOT NULL, reason text NOT NULL, detail text NOT NULL,
        run_id text NOT NULL, git text NOT NULL, refs text NOT NULL,
        PRIMARY KEY (scope, id))""",
    """CREATE TABLE journals (
        scope text NOT NULL, environment text NOT NULL, id text NOT NULL, data text NOT NULL,
        PRIMARY KEY (scope, environment))""",
    """CREATE TABLE unused (
        scope text NOT NULL, relation text NOT NULL, since text NOT NULL,
        PRIMARY KEY (scope, relation))""",
    # Freshness of sources and what Python nodes were; `key` tells the rows of one kind apart.
    """CREATE TABLE observations (
        scope text NOT NULL, environment text NOT NULL, kind text NOT NULL, key text NOT NULL,
        observed_at text NOT NULL, data text NOT NULL,
        PRIMARY KEY (scope, environment, kind, key))""",
    # Rows say whose a lock is; whether it is held, the session that has it tells.
    """CREATE TABLE locks (
        scope text NOT NULL, environment text NOT NULL, token text NOT NULL, key bigint NOT NULL,
        owner text NOT NULL, since text NOT NULL,
        PRIMARY KEY (scope, environment))""",
)

# A state and the lakes that its environments are in know each other by their ids.
_IDS: Migration = (
    "CREATE TABLE identity (id text NOT NULL)",
    "INSERT INTO identity (id) SELECT replace(CAST(gen_random_uuid() AS text), '-', '')",
    "CREATE TABLE lakes (scope text NOT NULL, lake text NOT NULL, PRIMARY KEY (scope))",
)

# Checkpoints said only in words what was promoted: "promoted from pr_1: 2 changed". The names of environments have no
# colon.
_PROMOTED_FROM: Migration = (
    "ALTER TABLE checkpoints ADD COLUMN promoted_from text DEFAULT ''",
    "UPDATE checkpoints SET promoted_from = substr(detail, 15, strpos(detail, ':') - 15)"
    " WHERE reason = 'promote' AND substr(detail, 1, 14) = 'promoted from ' AND strpos(detail, ':') > 14",
)

# The tables of version n are made by the first n of these; one that has been released never changes.
MIGRATIONS: tuple[Migration, ...] = (_FIRST, _IDS, _PROMOTED_FROM)


def read_schema_version(transaction: Transaction) -> int | None:
    """The version of the tables in a database; None when there are none."""
    try:
        rows = transaction.query("SELECT version FROM meta")
    except NoTables:
        return None
    return int(rows[0][0]) if rows else None


def migrate(database: Database, migrations: tuple[Migration, ...]) -> bool:
    """Bring a database to the newest version, from whichever it is at; False when it was there already."""
    # A read of its own: in some databases a question about a table that is missing ends the transaction.
    with database.read() as transaction:
        if (present := read_schema_version(transaction)) is not None:
            check_not_newer(database, present, len(migrations))
            if present == len(migrations):
                return False
    with database.write() as transaction:
        for statement in database.setup_statements:
            transaction.execute(statement)
        transaction.execute("CREATE TABLE IF NOT EXISTS meta (version integer NOT NULL)")
        # Read again: another process may have migrated it since.
        version = read_schema_version(transaction) or 0
        check_not_newer(database, version, len(migrations))
        for migration in migrations[version:]:
            for statement in migration:
                transaction.execute(statement)
        transaction.execute("DELETE FROM meta")
        transaction.execute("INSERT INTO meta (version) VALUES (?)", len(migrations))
    return version != len(migrations)


def check_not_newer(database: Database, version: int, known: int) -> None:
    """Refuse tables that a later sqb has made."""
    if version > known:
        raise StateNotReady(
            f"the state in {database.name} is of version {version}; this sqb knows versions up to {known}",
            hint="upgrade sqb to the version that the others use",
        )


def check_schema_version(database: Database, version: int | None, known: int) -> None:
    """Refuse tables that are missing, or of another version than this sqb's."""
    if version is None:
        message = f"{database.name} has not been set up for virtual environments"
        raise StateNotReady(message, hint="run `sqb state init` once")
    check_not_newer(database, version, known)
    if version < known:
        raise StateNotReady(
            f"the state in {database.name} is of version {version}; this sqb needs version {known}",
            hint="run `sqb state migrate`; older versions of sqb cannot use it after that",
        )
