"""Connections to PostgreSQL, for catalogs and for the state of environments: soon or not at all, and never silent long.

Imported only where there is such a database.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from psycopg import Connection, Error, OperationalError, errors

from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.postgres_url import PostgresAddress, parse_postgres

_CONNECT_SECONDS = 5
# No statement of sqb takes longer, waiting for locks included: a server that is silent for longer is out of reach.
_ANSWER_SECONDS = 25.0
LOCK_SECONDS = 15
# How long a server that is full, or just starting, is asked again.
_FULL_SECONDS = 10.0
_FULL = ("too many clients", "remaining connection slots", "too many connections", "is starting up")
# How psycopg and libpq report settings that they do not know or accept.
_WRONG_SETTING = re.compile(
    r'invalid connection option "(\w+)"|for connection option "(\w+)"|bad value for (\w+)|invalid (\w+) value'
)
# The kernel finds out that the other machine is gone, where nothing is being asked.
KEEPALIVE: Mapping[str, int] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


class PatientConnection(Connection[Any]):
    """A connection with a timeout for every answer."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        seconds = timeout or _ANSWER_SECONDS
        until = time.monotonic() + seconds
        try:
            return super().wait(gen, interval, seconds)
        except Exception as error:
            # psycopg's own error of a timeout is not part of its interface: it is the one that no server sent.
            if time.monotonic() < until or getattr(error, "sqlstate", None):
                raise
            # What the answer would have been is not known, so nothing more can be asked here.
            self.pgconn.finish()
            raise OperationalError(f"no answer within {_ANSWER_SECONDS:.0f} s") from None


def connect(address: PostgresAddress, autocommit: bool = True) -> PatientConnection:
    """A connection to a database; raises what psycopg raises."""
    address_settings = {"host": address.host, "port": address.port, "user": address.user, "dbname": address.database}
    settings: dict[str, Any] = {key: value for key, value in address_settings.items() if value}
    if address.password:
        settings["password"] = address.password
    defaults = {
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "sqb",
        "tcp_user_timeout": 20_000,
        **KEEPALIVE,
    }
    until = time.monotonic() + _FULL_SECONDS
    while True:
        try:
            return PatientConnection.connect(
                autocommit=autocommit, prepare_threshold=None, **{**defaults, **settings, **address.options}
            )
        except OperationalError as error:
            # Builds that end let others in.
            if not any(mark in str(error) for mark in _FULL) or time.monotonic() > until:
                raise
        time.sleep(0.2)


def keep_alive(connection: Connection[Any]) -> None:
    """Let the server find out soon that this machine is gone, and let go of the locks of a session."""
    for key, value in KEEPALIVE.items():
        connection.execute("SELECT set_config(%s, %s, false)", (f"tcp_{key}", str(value)))


def create_if_missing(connection: Connection[Any], statement: str) -> None:
    """Run a CREATE statement; succeeds also when another session creates the same object at the same time."""
    # A table has a type of its name, of which the server may say first that it is there.
    with suppress(errors.UniqueViolation, errors.DuplicateSchema, errors.DuplicateTable, errors.DuplicateObject):
        connection.execute(statement.encode())


def use_schema(connection: Connection[Any], schema: str) -> bool:
    """Let names without a schema mean those of one, and nothing else; whether it may be used as far as it is there."""
    connection.execute("SELECT set_config('search_path', %s, false)", (schema,))
    query = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
    return connection.execute(query, (schema,)).fetchone() != (False,)


def format_error(error: BaseException) -> str:
    """Format an error in one line, without the driver's prefixes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    message = next((line for line in lines if "FATAL:" in line), lines[0])
    for mark in ("FATAL:", " failed: "):
        message = message.rpartition(mark)[2].strip()
    return message.removeprefix("connection failed: ")


def find_wrong_setting(error: BaseException) -> str:
    """The setting of libpq that a failure is about; "" when it is about something else."""
    match = _WRONG_SETTING.search(str(error))
    return next(filter(None, match.groups()), "") if match else ""


def is_unreachable(error: BaseException) -> bool:
    """Whether a failure is about the connection rather than about what was asked."""
    return isinstance(error, Error) and isinstance(error, OperationalError | errors.InterfaceError)


_NAME = "application_name="


def name_connections(place: LakeLocation) -> tuple[LakeLocation, str]:
    """The place for a Spark whose connections are distinct from all others, and their name; "" if they have one."""
    if _NAME in place.uri:
        return place, ""
    name = f"sqb {uuid.uuid4().hex[:12]}"
    return replace(place, uri=f"{place.uri}{'&' if '?' in place.uri else '?'}{_NAME}{name.replace(' ', '%20')}"), name


def end_connections(place: LakeLocation, name: str) -> None:
    """End the connections of a name; a server that is out of reach has ended them itself."""
    with suppress(Error, OSError), connect(parse_postgres(place.uri, schema="")) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND usename = current_user AND pid <> pg_backend_pid()",
            (name,),
        )
