"""`[connections.*]` read from the project's files: catalogs, Spark, and no secret where everybody would read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqb.errors.connections import SecretInProject
from sqb.errors.project import BadValue, Contradiction, NotYet
from sqb.names import suggest_nearest
from sqb.project.config.connections.lake_location import is_object_store
from sqb.project.config.connections.model import (
    SUBSTITUTION,
    CatalogSettings,
    Connection,
    SparkSettings,
    find_number_problem,
)
from sqb.project.config.connections.postgres_url import is_postgres, parse_postgres
from sqb.project.config.located import Entry, Section, describe, format_option, iter_dotted
from sqb.project.config.secrets import find_address_secrets, find_literal_secrets, has_variable, is_secret_name

CONNECTION_KEYS = ("catalog", "spark")
CATALOG_KEYS = ("type", "uri", "warehouse", "name", "options")
SPARK_KEYS = ("master", "remote", "conf")
# Catalogs that Spark and pyiceberg reach by their own settings, which are handed on as they are.
_HANDED_ON = ("hive", "glue", "catalog-impl")
# Amazon's way of signing requests (SigV4), by either of the names that it has.
_SIGNED = (("rest.sigv4-enabled", "true"), ("rest.auth.type", "sigv4"))
CATALOG_TYPES = ("jdbc", "rest", *_HANDED_ON)
_DATABASES_LATER = ("mysql", "mariadb")
# Everybody on the machine can read the options of a Java process.
_JAVA_OPTIONS = "JavaOptions"
_OPTIONS_IN_A_FILE = (
    "write options that hold a secret into a file that only you may read, and @/path/of/the/file here, from which"
    " Java takes them"
)
_PREFIX = re.compile(r"^(catalog\.(options\.)?|spark\.(conf\.)?)")
_SQLITE = "sqlite:///"
_DATABASE = "a database such as sqlite:///lake/catalog.db or postgresql://user@host/database"


def read_connections(top: Section, committed: str) -> dict[str, Connection]:
    """The connections of a project; `committed` is the file that must not hold secrets."""
    section = top.read_table("connections", "[connections]")
    connections = {}
    for name in section.entries:
        connection = section.read_table(name, f"[connections.{name}]")
        connection.refuse_unknown(CONNECTION_KEYS)
        _refuse_secrets(connection, committed)
        private = any(entry.at.file != committed for _, entry in iter_dotted(connection.entries))
        connections[name] = Connection(name, _read_catalog(connection), _read_spark(connection), private)
    return connections or {"local": Connection()}


# --- secrets --------------------------------------------------------------------------------------------------------


def _refuse_secrets(connection: Section, committed: str) -> None:
    for key, entry in _iter_literal_secrets(connection.entries):
        if entry.at.file == committed:
            connection.errors.add(
                SecretInProject(
                    f"`{key}` holds a secret, and this file is for everybody",
                    at=entry.at,
                    hint=_OPTIONS_IN_A_FILE
                    if key.endswith(_JAVA_OPTIONS)
                    else "write @@ENV:NAME in its place, the name of an environment variable, or put it into"
                    " sqlbuild_local.toml",
                )
            )


def _iter_literal_secrets(entries: Mapping[str, Entry]) -> Iterator[tuple[str, Entry]]:
    for key, entry in iter_dotted(entries):
        if not isinstance(entry.value, str) or not entry.value:
            continue
        named = is_secret_name(key) and not has_variable(entry.value)
        if named or find_literal_secrets(entry.value):
            yield _PREFIX.sub("", key), entry


# --- the catalog ----------------------------------------------------------------------------------------------------


def _read_catalog(connection: Section) -> CatalogSettings:
    section = connection.read_table("catalog", "`catalog`")
    section.refuse_unknown(CATALOG_KEYS)
    default = CatalogSettings()
    kind = section.read_text("type")
    if kind is not None and kind not in CATALOG_TYPES:
        section.report("type", f"one of {', '.join(CATALOG_TYPES)}", _suggest_type(kind))
        kind = None
    kind = kind or default.type
    name = section.read_text("name")
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        section.report("name", "letters, digits and _")
    uri, options = section.read_text("uri"), section.read_options("options")
    _check_options(section)
    if uri is not None and not has_variable(uri):
        _check_uri(section, kind, uri)
    if uri is None and kind in ("rest", "hive"):
        at = section.entries["type"].at
        section.errors.add(BadValue(f"a catalog of the type {kind} needs a `uri`", at=at, hint=_describe_uri(kind)))
    if kind == "catalog-impl" and "catalog-impl" not in options:
        message = "a catalog of the type catalog-impl needs the option `catalog-impl`"
        section.errors.add(BadValue(message, at=section.entries["type"].at, hint="the Java class of the catalog"))
    if kind in _HANDED_ON and "warehouse" not in section.entries:
        message = f"a catalog of the type {kind} needs a `warehouse`"
        section.errors.add(BadValue(message, at=section.entries["type"].at, hint="such as s3://bucket/path"))
    return CatalogSettings(
        type=kind,
        uri=uri if uri is not None else default.uri if kind == "jdbc" else "",
        warehouse=_read_warehouse(section, kind) or (default.warehouse if kind == "jdbc" else ""),
        name=name or default.name,
        options=options,
        at=section.at,
    )


def _check_options(section: Section) -> None:
    options = section.entries.get("options")
    if options is None or not isinstance(options.value, dict):
        return
    for key, entry in iter_dotted(options.value):
        text = format_option(entry.value)
        expected = find_number_problem(key, text) if text is not None and not has_variable(text) else None
        if expected is not None:
            section.errors.add(BadValue(f"`{key}` must be {expected}, not {describe(entry.value)}", at=entry.at))
        if (key, (text or "").lower()) in _SIGNED:
            message = f"`{key} = {text}`: requests to a catalog server are not signed in this version"
            section.errors.add(NotYet(message, at=entry.at, hint="a server takes a `token` or a `credential`"))


def _suggest_type(kind: str) -> str | None:
    if kind in ("postgresql", "postgres", "sqlite", "sql"):
        return 'write type = "jdbc", and the database in `uri`'
    return suggest_nearest(kind, CATALOG_TYPES)


def _describe_uri(kind: str) -> str:
    return "such as thrift://host:9083" if kind == "hive" else "such as https://host:8181"


def _read_warehouse(section: Section, kind: str) -> str | None:
    warehouse = section.read_text("warehouse")
    if warehouse == "":
        section.report("warehouse", "a folder or an address such as s3://bucket/path")
        return None
    scheme = warehouse is not None and "://" in warehouse and not has_variable(warehouse)
    if warehouse and scheme and kind == "jdbc":
        if not warehouse.startswith("file:") and not is_object_store(warehouse):
            section.report("warehouse", "a folder or an address such as s3://bucket/path")
        elif is_object_store(warehouse) and not warehouse.partition("://")[2].strip("/"):
            section.report("warehouse", "an address with a bucket, such as s3://bucket/path")
    return warehouse


def _check_uri(section: Section, kind: str, uri: str) -> None:
    match kind:
        case "jdbc":
            _check_database(section, uri)
        case "rest" if not re.match(r"https?://[^/]", uri):
            _report_uri(section, uri, "an address that begins with http:// or https://", _describe_uri(kind))
        case "hive" if not uri.startswith("thrift://"):
            _report_uri(section, uri, "an address that begins with thrift://", _describe_uri(kind))


def _report_uri(section: Section, uri: str, expected: str, hint: str) -> None:
    if find_address_secrets(uri):
        # Not repeated.
        section.errors.add(BadValue(f"`uri` must be {expected}", at=section.entries["uri"].at, hint=hint))
    else:
        section.report("uri", expected, hint)


def _check_database(section: Section, uri: str) -> None:
    scheme = uri.partition(":")[0].partition("+")[0]
    if scheme in _DATABASES_LATER:
        message = f"a catalog on `{scheme}` belongs to a feature that this version does not have yet"
        section.errors.add(NotYet(message, at=section.entries["uri"].at))
    elif is_postgres(uri):
        try:
            parse_postgres(uri, schema="")
        except ValueError as error:
            # The value is not repeated: it may hold a password.
            section.errors.add(BadValue(f"`uri` must have {error}", at=section.entries["uri"].at))
    elif uri.startswith("jdbc:sqlite:"):
        section.report("uri", _DATABASE, f"write {_SQLITE}{uri.removeprefix('jdbc:sqlite:')}")
    elif uri.startswith("jdbc:postgresql:") or scheme in ("postgres", "postgresql"):
        message = "`uri` must be an address such as postgresql://user@host:5432/database"
        section.errors.add(BadValue(message, at=section.entries["uri"].at))
    elif uri.startswith(f"{_SQLITE}:memory:"):
        section.report("uri", _DATABASE, "Spark and sqb are two processes: the catalog must be a file")
    elif not uri.startswith(_SQLITE) or uri == _SQLITE:
        _report_uri(section, uri, _DATABASE, "three slashes, then the path of the file")


# --- Spark ----------------------------------------------------------------------------------------------------------


def _read_spark(connection: Section) -> SparkSettings:
    section = connection.read_table("spark", "`spark`")
    section.refuse_unknown(SPARK_KEYS)
    master, remote = section.read_text("master"), section.read_text("remote")
    if "master" in section.entries and "remote" in section.entries:
        message = "`master` starts a Spark and `remote` uses one that runs: they cannot both be set"
        section.errors.add(Contradiction(message, at=section.entries["remote"].key_at, hint="keep one of the two"))
    elif remote is not None and not has_variable(remote) and not re.match(r"sc://[^/]", remote):
        section.report("remote", "the address of a Spark Connect server", "such as sc://host:15002")
    if master == "":
        section.report("master", "text such as local[*]")
    _refuse_variables_of_java(section)
    conf = section.read_options("conf")
    if conf.get(SUBSTITUTION, "false").lower() != "false":
        section.errors.add(
            BadValue(
                f"`{SUBSTITUTION}` is always false: sqb gives Spark texts that are to be taken as they are written",
                at=section.entries["conf"].at,
                hint="remove it; use @@name and @@ENV:NAME for what is to be replaced",
            )
        )
    return SparkSettings(master or None, remote or None, conf)


def _refuse_variables_of_java(section: Section) -> None:
    """Options of Java are arguments of its process, which everybody on the machine can read."""
    for key, entry in iter_dotted(section.entries):
        if key.endswith(_JAVA_OPTIONS) and isinstance(entry.value, str) and has_variable(entry.value):
            section.errors.add(
                BadValue(
                    f"`{_PREFIX.sub('', f'spark.{key}')}` cannot hold @@ENV:NAME: everybody on the machine can read"
                    " the options of a Java process",
                    at=entry.at,
                    hint=f"{_OPTIONS_IN_A_FILE}; write out what is not secret",
                )
            )
