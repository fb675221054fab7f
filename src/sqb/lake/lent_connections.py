"""Connections to a PostgreSQL catalog that Spark makes for one build, in a process that outlives it.

Iceberg opens at least one in each session of Spark's, and nobody closes them when a session ends: a server that stays
would fill the database. They are known by a name, and ended with the build.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace

from sqb.project.place import Place
from sqb.project.postgres_address import parse_postgres

_NAME = "application_name="


def named(place: Place) -> tuple[Place, str]:
    """The place for a Spark whose connections can be told from all others, and their name; "" where there are none."""
    if not place.is_postgres or _NAME in place.uri:
        return place, ""
    name = f"sqb {uuid.uuid4().hex[:12]}"
    return replace(place, uri=f"{place.uri}{'&' if '?' in place.uri else '?'}{_NAME}{name.replace(' ', '%20')}"), name


def end_named(place: Place, name: str) -> None:
    """End the connections of a name; a server that is out of reach has ended them itself."""
    if not name:
        return
    from psycopg import Error  # only where the catalog is in such a database

    from sqb.lake.postgres import connect

    with suppress(Error, OSError), connect(parse_postgres(place.uri, schema="")) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND usename = current_user AND pid <> pg_backend_pid()",
            (name,),
        )
