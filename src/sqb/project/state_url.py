"""Where environments are kept, as it is written: `duckdb:///path` or `postgresql://…`."""

from __future__ import annotations

from sqb.project import postgres_address
from sqb.project.postgres_address import PostgresAddress, is_postgres

DUCKDB = "duckdb:///"
EXPECTED = "duckdb:///path or postgresql://user@host/database"
DEFAULT_SCHEMA = "sqb_state"


def problem_of(url: str) -> str | None:
    """What is wrong with an address, in words that never repeat it; None when it can be used."""
    if url.startswith(DUCKDB):
        return None if url.removeprefix(DUCKDB).strip("/ ") else EXPECTED
    if not is_postgres(url):
        return EXPECTED
    try:
        parse_postgres(url)
    except ValueError as error:
        return str(error)
    return None


def has_password(url: str) -> bool:
    """Whether an address holds a password, wherever in it."""
    try:
        return bool(is_postgres(url) and parse_postgres(url).password)
    except ValueError:
        # Whatever it is, it is treated with care.
        return True


def parse_postgres(url: str) -> PostgresAddress:
    """The address of the database that environments are kept in; raises ValueError with what was expected."""
    return postgres_address.parse_postgres(url, DEFAULT_SCHEMA)
