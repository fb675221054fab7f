"""The settings of a Spark session that can change the rows of a table, and what sqb sets them to.

They are part of what a table is: sqb sets every one of them in every session that it uses, so that a plan knows them
without Spark, and neither the machine nor whoever set Spark up decides about rows. Sizes, memory and partitions are
not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqb.project.config.connections.model import Connection
from sqb.project.config.secrets import resolve_variables

# Spark's own defaults of 4.1, and UTC where Spark would take the zone of the machine.
RESULT_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        "spark.sql.ansi.enforceReservedKeywords": "false",
        "spark.sql.ansi.relationPrecedence": "false",
        "spark.sql.caseSensitive": "false",
        "spark.sql.storeAssignmentPolicy": "ANSI",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
        "spark.sql.groupByOrdinal": "true",
        "spark.sql.groupByAliases": "true",
        "spark.sql.orderByOrdinal": "true",
        "spark.sql.parser.escapedStringLiterals": "false",
        "spark.sql.parser.quotedRegexColumnNames": "false",
        "spark.sql.function.concatBinaryAsString": "false",
        "spark.sql.function.eltOutputAsString": "false",
        "spark.sql.jsonGenerator.ignoreNullFields": "true",
        "spark.sql.icu.caseMappings.enabled": "true",
        "spark.sql.chunkBase64String.enabled": "true",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
        "spark.sql.parquet.binaryAsString": "false",
        "spark.sql.parquet.int96AsTimestamp": "true",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    }
)
# Commits name the list that they leave out what is as it is there; whoever changes the list gives it the next number
# and keeps the ones before.
LIST = "1"
LISTS: Mapping[str, Mapping[str, str]] = MappingProxyType({LIST: RESULT_SETTINGS})
# All of Spark's flags for the behaviour of older versions: one that the connection does not set has Spark's default.
LEGACY = "spark.sql.legacy."


def compute_session_settings(connection: Connection) -> dict[str, str]:
    """What sessions of a connection have of the settings that can change a result: the project's `conf`, else ours."""
    where = f"the connection {connection.name}"
    written = connection.spark.conf
    listed = {key: written.get(key, default) for key, default in RESULT_SETTINGS.items()}
    legacy = {key: value for key, value in written.items() if key.startswith(LEGACY)}
    return {
        key: _normalize(key, resolve_variables(value, where)) for key, value in sorted({**listed, **legacy}.items())
    }


def list_non_default(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that are not as they are without a word in the project."""
    return {key: value for key, value in settings.items() if RESULT_SETTINGS.get(key) != value}


def _normalize(key: str, value: str) -> str:
    """One spelling for one meaning: Spark reads `TRUE` as `true`, and `ansi` as `ANSI`."""
    default = RESULT_SETTINGS.get(key, "")
    if default in ("true", "false") or value.lower() in ("true", "false"):
        return value.strip().lower()
    return value.strip().upper() if default.isupper() and key != "spark.sql.session.timeZone" else value
