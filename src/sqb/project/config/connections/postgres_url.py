"""Addresses of PostgreSQL databases, taken apart here and not by libpq, which may repeat parts of what it was given,
among them the password, when it does not understand it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from urllib.parse import parse_qsl, unquote

from sqb.light_dataclass import dataclass
from sqb.project.config.secrets import hide, remember_secrets

_POSTGRES = re.compile(r"postgres(ql)?://")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database on a PostgreSQL server; parts that are empty are libpq's to decide."""

    host: str = ""
    port: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = ""
    # The schema of the tables; "" is the server's to decide.
    schema: str = ""
    # Further settings of libpq, such as sslmode.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        where = ",".join(_split_hosts(self.host, self.port)) or "the default host"
        database = f", database {self.database}" if self.database else ""
        return f"PostgreSQL at {where}{database}"

    def hide(self, text: str) -> str:
        """A text without the password."""
        return hide(text, (self.password,))


def is_postgres(url: str) -> bool:
    """Whether an address is one of a PostgreSQL database."""
    return _POSTGRES.match(url) is not None


def parse_postgres(url: str, schema: str) -> PostgresAddress:
    """Take the address of a PostgreSQL database apart; raises ValueError with what was expected.

    `schema` is the one of the tables where the address names none.
    """
    rest, _, query = url.partition("://")[2].partition("?")
    authority, _, path = rest.partition("/")
    who, _, hosts = authority.rpartition("@")
    user, _, password = who.partition(":")
    names, ports = [], []
    for host_and_port in hosts.split(","):
        name, _, port = (
            host_and_port.rpartition(":")
            if re.search(r":\d*$", host_and_port) and not host_and_port.endswith("]")
            else (host_and_port, "", "")
        )
        names.append(unquote(name.strip("[]")))
        ports.append(port)
    if re.search(r":[^\]]*$", hosts.split(",")[-1]) and not ports[-1] and not hosts.endswith((":", "]")):
        raise ValueError("a port that is a number")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    schema = parameters.pop("schema", schema)
    if schema and not _SCHEMA.fullmatch(schema):
        raise ValueError("a `schema` of small letters, digits and _")
    address = PostgresAddress(
        host=parameters.pop("host", ",".join(names)),
        port=parameters.pop("port", ",".join(ports) if any(ports) else ""),
        user=parameters.pop("user", unquote(user)),
        password=parameters.pop("password", unquote(password)),
        database=parameters.pop("dbname", unquote(path)),
        schema=schema,
        options=parameters,
    )
    remember_secrets((address.password,))
    return address


def _split_hosts(host: str, port: str) -> list[str]:
    names = [name for name in host.split(",") if name]
    ports = port.split(",") if port else []
    if len(ports) == 1:
        ports = ports * len(names)
    return [f"{n}:{p}" if p else n for n, p in zip(names, ports or [""] * len(names), strict=False)]
