"""Catalogs as settings of Spark, `spark.sql.catalog.*`, and the jars that they need.

What is written in a connection's `options` overrides all of it, and goes to Spark as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote as percent_encoded
from urllib.parse import urlencode

from sqb.project.config.connections.lake_location import LakeLocation, is_object_store
from sqb.project.config.connections.postgres_url import PostgresAddress, parse_postgres
from sqb.project.config.secrets import find_address_secrets, is_secret_name, remember_secrets
from sqb.spark.session.jars import AWS, ICEBERG, POSTGRES, SQLITE

_JDBC = "org.apache.iceberg.jdbc.JdbcCatalog"
_GLUE = "org.apache.iceberg.aws.glue.GlueCatalog"
_S3 = "org.apache.iceberg.aws.s3.S3FileIO"
# libpq's settings that the Java driver has as well, and what it calls them; in seconds where it is about time.
_LIBPQ_SETTINGS = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "gssencmode": "gssEncMode",
    "options": "options",
    "application_name": "ApplicationName",
    "connect_timeout": "connectTimeout",
}
# A server that does not answer is out of reach, and not waited for until the kernel gives up.
_TIMEOUTS = {"connectTimeout": "5", "socketTimeout": "25", "tcpKeepAlive": "true", "ApplicationName": "sqb"}


def build_catalog_conf(place: LakeLocation, concurrency: int) -> dict[str, str]:
    """The settings that let Spark open the catalog of a place, and take it for the default."""
    settings = {
        **_build_catalog_type_conf(place, concurrency),
        **({"warehouse": place.warehouse} if place.warehouse else {}),
        # Commits are also made beside Spark; a cached table would be an old one.
        "cache-enabled": "false",
        **({"io-impl": _S3} if is_object_store(place.root) else {}),
        **place.options,
    }
    prefix = f"spark.sql.catalog.{place.name}"
    return {
        "spark.sql.defaultCatalog": place.name,
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in settings.items()},
    }


def list_packages(place: LakeLocation) -> tuple[str, ...]:
    """The jars that a catalog and its warehouse need beside Spark."""
    packages = [ICEBERG]
    if place.database is not None:
        packages.append(SQLITE)
    if place.is_postgres:
        packages.append(POSTGRES)
    if place.type == "glue" or is_object_store(place.root) or any(key.startswith("s3.") for key in place.options):
        packages.append(AWS)
    return tuple(packages)


def is_secret(key: str, value: str) -> bool:
    """Whether a setting of Spark's holds a secret."""
    return is_secret_name(key) or ("://" in value and bool(find_address_secrets(value)))


def _build_catalog_type_conf(place: LakeLocation, concurrency: int) -> Mapping[str, str]:
    """What makes a catalog the kind of catalog that it is."""
    match place.type:
        case "jdbc":
            common = {
                "catalog-impl": _JDBC,
                "jdbc.schema-version": "V1",
                "clients": str(max(2, concurrency)),
            }
            if place.database is not None:
                return {**common, "uri": build_sqlite_address(place.database)}
            return {**common, **_build_postgres_conf(parse_postgres(place.uri, schema=""))}
        case "glue":
            return {"catalog-impl": _GLUE}
        case "catalog-impl":
            return {"uri": place.uri} if place.uri else {}
        case _:
            return {"type": place.type, "uri": place.uri}


def build_sqlite_address(database: Path) -> str:
    """The JDBC address of a SQLite file; a question mark in the path would be read as the start of the options."""
    path = str(database)
    if "?" in path:
        path = "file:" + percent_encoded(path)
    return f"jdbc:sqlite:{path}?journal_mode=WAL&busy_timeout=30000"


def _build_postgres_conf(address: PostgresAddress) -> Mapping[str, str]:
    """A PostgreSQL database for the Java driver, which knows neither libpq's defaults nor its password file."""
    address = _add_libpq_defaults(address)
    settings = {**_TIMEOUTS, **{_LIBPQ_SETTINGS[k]: v for k, v in address.options.items() if k in _LIBPQ_SETTINGS}}
    if address.schema:
        settings["currentSchema"] = address.schema
    hosts, ports = address.host.split(","), address.port.split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    hosts_and_ports = ",".join(f"{_format_host(h)}:{p or 5432}" for h, p in zip(hosts, ports, strict=False))
    database = percent_encoded(address.database, safe="")
    login = {"jdbc.user": address.user, "jdbc.password": address.password}
    return {
        "uri": f"jdbc:postgresql://{hosts_and_ports}/{database}?{urlencode(settings)}",
        **{key: value for key, value in login.items() if value},
    }


def _format_host(host: str) -> str:
    # A socket in a folder is something that Java does not know.
    if not host or host.startswith("/"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _add_libpq_defaults(address: PostgresAddress) -> PostgresAddress:
    """The address with what libpq adds to it where it says nothing: from its variables and its password file."""
    user = address.user or os.environ.get("PGUSER", "") or os.environ.get("USER", "")
    host = address.host or os.environ.get("PGHOST", "")
    port = address.port or os.environ.get("PGPORT", "")
    database = address.database or os.environ.get("PGDATABASE", "") or user
    password = address.password or os.environ.get("PGPASSWORD", "")
    if not password:
        login = (host.split(",")[0] or "localhost", port.split(",")[0] or "5432", database, user)
        password = _read_password_file(login)
    remember_secrets((password,))
    return PostgresAddress(host, port, user, password, database, address.schema, address.options)


def _read_password_file(login: tuple[str, str, str, str]) -> str:
    """What libpq's password file has for host, port, database and user; a file that others may read is not read."""
    path = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if path.stat().st_mode & 0o077:
            return ""
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        parts = _split_fields(line)
        if not line.startswith("#") and len(parts) == 5 and _matches_login(parts[:4], login):
            return parts[4]
    return ""


def _matches_login(parts: list[str], login: tuple[str, str, str, str]) -> bool:
    host = "localhost" if login[0].startswith("/") else login[0]
    return all(part in ("*", value) for part, value in zip(parts, (host, *login[1:]), strict=True))


def _split_fields(line: str) -> list[str]:
    """The fields of a line, which are parted by colons; a backslash lets the next character be what it is."""
    fields, escaped = [""], False
    for character in line:
        if escaped or character not in "\\:" or (character == ":" and len(fields) == 5):
            fields[-1] += character
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            fields.append("")
    return fields
