"""Checks of an external Spark before it is used: each error names the setting to add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark import __version__ as our_version
from pyspark.errors import PySparkException

from sqb.errors.connections import SparkUnfit
from sqb.names import Relation, quote
from sqb.project.config.session_settings import LEGACY
from sqb.spark.errors import explain_failure
from sqb.spark.private_api import get_java_stack
from sqb.spark.session.conf import ICEBERG_EXTENSIONS
from sqb.spark.session.jars import ICEBERG, POSTGRES, SQLITE

# Where the metadata of the tables is that the lake has, by their names.
ReadCurrentTables = Callable[[], Mapping[Relation, str]]

_MIN_VERSION = (4, 0)
_EXTENSIONS_KEY = "spark.sql.extensions"
_NO_CLASS = ("Cannot find catalog plugin class", "ClassNotFoundException", "NoClassDefFoundError")
_NO_DRIVER = "No suitable driver"


def prepare_session(session: Any, where: str, name: str, settings: Mapping[str, str]) -> set[str]:
    """Make a session one that a build can work in, or say what keeps it from being one; the schemas of its catalog."""
    for key, value in settings.items():
        _set_conf(session, key, value, where)
    unset_legacy_flags(session, settings)
    return _list_schemas(session, name, where)


def unset_legacy_flags(session: Any, settings: Mapping[str, str]) -> None:
    """Give Spark's own default to every flag for the behaviour of older versions that is not among the settings."""
    for key in [key for key in session.conf.getAll if key.startswith(LEGACY) and key not in settings]:
        session.conf.unset(key)


def refuse_other_version(session: Any, where: str, exact: bool) -> None:
    """Refuse a Spark of another version: PySpark and the server speak to each other in their own terms."""
    version = str(session.version)
    numbers = _parse_version(version)
    if exact and numbers != _parse_version(our_version):
        raise SparkUnfit(
            f"{where} is Spark {version}, and sqb uses PySpark {our_version}",
            hint=f"use a server of Spark {'.'.join(map(str, _parse_version(our_version)))}",
        )
    if numbers < _MIN_VERSION:
        raise SparkUnfit(f"{where} is Spark {version}, and sqb needs Spark 4", hint="use a session of Spark 4.1")


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def refuse_without_iceberg(session: Any, where: str) -> None:
    """Refuse a Spark that was started without Iceberg's extensions, which cannot be added later."""
    extensions = session.conf.get(_EXTENSIONS_KEY, "") or ""
    if ICEBERG_EXTENSIONS not in extensions:
        required_extensions = f"{extensions},{ICEBERG_EXTENSIONS}" if extensions else ICEBERG_EXTENSIONS
        raise SparkUnfit(
            f"{where} was started without Iceberg",
            hint=f"start it with `--packages {ICEBERG}` and `--conf {_EXTENSIONS_KEY}={required_extensions}`",
        )


def has_catalog(session: Any, name: str) -> bool:
    """Whether a Spark was set up with a catalog of that name."""
    return bool(session.conf.get(f"spark.sql.catalog.{name}", ""))


def _set_conf(session: Any, key: str, value: str, where: str) -> None:
    try:
        session.conf.set(key, value)
    except PySparkException as error:
        if (error.getCondition() or "").startswith("CANNOT_MODIFY") and session.conf.get(key, "") == value:
            return
        if not (error.getCondition() or "").startswith("CANNOT_MODIFY"):
            raise
        raise SparkUnfit(
            f"`{key}` cannot be changed on a Spark that runs already, and {where} does not have it as it should be",
            hint=f"start it with `{key}` as wanted, and take it out of the connection's `conf`",
        ) from error


def _list_schemas(session: Any, name: str, where: str) -> set[str]:
    """The schemas of the catalog; asking for them makes Spark load it."""
    try:
        return {row[0] for row in session.sql(f"SHOW NAMESPACES IN {quote(name)}").collect()}
    except PySparkException as error:
        raise _explain_catalog_failure(error, name, where) from error


def _explain_catalog_failure(error: PySparkException, name: str, where: str) -> BaseException:
    failure = explain_failure(error, "")
    text = f"{error}\n{get_java_stack(error)}"
    if failure.kind == "lost":
        return error
    if any(sign in text for sign in _NO_CLASS):
        return SparkUnfit(
            f"{where} does not have the jars of the catalog `{name}`",
            hint=f"start it with `--packages {ICEBERG}` and the driver of the catalog's database",
        )
    if _NO_DRIVER in text:
        return SparkUnfit(
            f"{where} does not have the driver of the catalog's database",
            hint=f"start it with `--packages {POSTGRES}` or `--packages {SQLITE}`",
        )
    return SparkUnfit(
        f"{where} cannot open the catalog `{name}`: {failure.message}",
        hint=f"check the settings `spark.sql.catalog.{name}.*` of the connection and of that Spark",
    )


def refuse_other_lake(
    session: Any, where: str, name: str, schemas: set[str], current_tables: Mapping[Relation, str]
) -> None:
    """Refuse a catalog that is not the one that sqb itself has opened: what one writes the other would not see.

    Spark runs a job for it, which may have to wait for those of others: it has all the time that it needs.
    """
    missing = sorted({relation.schema for relation in current_tables} - schemas)
    hint = f"let `spark.sql.catalog.{name}.uri` and `.warehouse` there mean what the connection's `catalog` says"
    if missing:
        raise SparkUnfit(f"the catalog `{name}` of {where} is another one: it has no schema {missing[0]}", hint=hint)
    for relation, location in list(current_tables.items())[:1]:
        if not _has_metadata(session, name, relation, location):
            raise SparkUnfit(f"the catalog `{name}` of {where} is another one: its {relation} is another", hint=hint)


def _has_metadata(session: Any, name: str, relation: Relation, location: str) -> bool:
    table = f"{quote(name, relation.schema, relation.name)}.metadata_log_entries"
    try:
        files = {row[0] for row in session.sql(f"SELECT file FROM {table}").collect()}
    except PySparkException as error:
        if explain_failure(error, "").kind == "lost":
            raise
        return False
    return _strip_scheme(location) in {_strip_scheme(file) for file in files}


def _strip_scheme(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:")
