"""Addresses of the state of environments, taken apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqb.project.config.connections.postgres_url import PostgresAddress
from sqb.project.config.virtual import DEFAULT_SCHEMA, EXPECTED, find_address_problem, has_password, parse_postgres


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://", PostgresAddress()),
        ("postgres://h/d", PostgresAddress(host="h", database="d")),
        ("postgresql://u@h:5433/d", PostgresAddress(host="h", port="5433", user="u", database="d")),
        ("postgresql://u:p%40s%2Fs@h/d", PostgresAddress(host="h", user="u", password="p@s/s", database="d")),
        # Not encoded as it should be, and still nothing but a password.
        ("postgresql://u:p@ss@h/d", PostgresAddress(host="h", user="u", password="p@ss", database="d")),
        ("postgresql://[::1]:5/d", PostgresAddress(host="::1", port="5", database="d")),
        ("postgresql://a:1,b:2/d", PostgresAddress(host="a,b", port="1,2", database="d")),
        ("postgresql://a,b/d", PostgresAddress(host="a,b", database="d")),
        (
            "postgresql:///d?host=/run/pg&sslmode=require&schema=team",
            PostgresAddress(host="/run/pg", database="d", schema="team", options={"sslmode": "require"}),
        ),
        ("postgresql://h/d?password=x&user=u", PostgresAddress(host="h", user="u", password="x", database="d")),
    ],
)
def test_an_address_is_taken_apart(url: str, expected: PostgresAddress) -> None:
    meant = replace(expected, schema=expected.schema or DEFAULT_SCHEMA)
    assert find_address_problem(url) is None and parse_postgres(url) == meant
    assert has_password(url) == bool(expected.password)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", EXPECTED),
        ("duckdb://x", EXPECTED),
        ("duckdb:///", EXPECTED),
        ("sqlite:///x", EXPECTED),
        ("postgresql:h/d", EXPECTED),
        ("postgresql://u:s3cr3t@h:port/d", "a port that is a number"),
        ("postgresql://h/d?schema=Team-A", "a `schema` of small letters, digits and _"),
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(url: str, problem: str) -> None:
    assert find_address_problem(url) == problem and "s3cr3t" not in problem


def test_files_have_no_password() -> None:
    assert find_address_problem("duckdb:///a:b@c/state.duckdb") is None and not has_password(
        "duckdb:///a:b@c/state.duckdb"
    )


def test_nothing_that_people_read_holds_the_password() -> None:
    address = parse_postgres("postgresql://anna:s3cr3t@a:1,b:2/shop?sslpassword=alsos3cr3t")
    assert str(address) == "PostgreSQL at a:1,b:2, database shop"
    assert "s3cr3t" not in repr(address) and address.hide("no s3cr3t here") == "no *** here"
    assert str(parse_postgres("postgresql://")) == "PostgreSQL at the default host"
